package main

import "math/bits"

// uint128 is an unsigned integer. What does not fit saturates at the largest
// one and stays there, so that a sum tells at its end whether it is exact.
type uint128 struct{ hi, lo uint64 }

// most is the largest: no amount, but what an amount too large has become.
var most = uint128{1<<64 - 1, 1<<64 - 1}

func (x uint128) saturated() bool { return x == most }

func (x uint128) plus(y uint128) uint128 {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, overflow := bits.Add64(x.hi, y.hi, carry)
	if overflow != 0 || x.saturated() || y.saturated() {
		return most
	}
	return uint128{hi, lo}
}

// minus is x - y; y is not above x.
func (x uint128) minus(y uint128) uint128 {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	hi, _ := bits.Sub64(x.hi, y.hi, borrow)
	return uint128{hi, lo}
}

func (x uint128) times(y uint64) uint128 {
	carry, lo := bits.Mul64(x.lo, y)
	over, hi := bits.Mul64(x.hi, y)
	hi, overflow := bits.Add64(hi, carry, 0)
	if over != 0 || overflow != 0 || x.saturated() {
		return most
	}
	return uint128{hi, lo}
}

// over is x / y and what remains; y is not 0.
func (x uint128) over(y uint64) (quotient uint128, rest uint64) {
	quotient.hi, rest = x.hi/y, x.hi%y
	quotient.lo, rest = bits.Div64(rest, x.lo, y)
	return quotient, rest
}

func (x uint128) less(y uint128) bool { return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo }

// product is x · y, exactly.
func product(x, y uint64) uint128 {
	hi, lo := bits.Mul64(x, y)
	return uint128{hi, lo}
}

// power10 is 10 to the power of n, at most 19.
func power10(n uint8) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}

// tens is 10 to the power of n, at most 38.
func tens(n uint8) uint128 {
	first := min(n, 19)
	return product(power10(first), power10(n-first))
}

// without is x without its last places, at most 38 of them.
func (x uint128) without(places uint8) uint128 {
	first := min(places, 19)
	x, _ = x.over(power10(first))
	x, _ = x.over(power10(places - first))
	return x
}

// appendDecimal appends x / 10^places with all its places: 138 is 0.000138 with
// six of them, and 138 with none.
func (x uint128) appendDecimal(dst []byte, places uint8) []byte {
	var digits [40]byte // 2^128 has 39, and a point
	at := len(digits)
	for n := uint8(0); ; n++ {
		if n == places && places > 0 {
			at--
			digits[at] = '.'
		}
		var digit uint64
		x, digit = x.over(10)
		at--
		digits[at] = '0' + byte(digit)
		if x == (uint128{}) && n >= places {
			return append(dst, digits[at:]...)
		}
	}
}
