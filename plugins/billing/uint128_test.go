package main

import (
	"math/big"
	"strings"
	"testing"
)

func (x uint128) big() *big.Int {
	n := new(big.Int).SetUint64(x.hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(x.lo))
}

// inRange reports whether n is an amount, and not so large that it saturates.
func inRange(n *big.Int) bool { return n.Sign() >= 0 && n.Cmp(most.big()) < 0 }

// FuzzUint128 compares all of it with math/big.
func FuzzUint128(f *testing.F) {
	const last = 1<<64 - 1
	for _, x := range []uint128{{}, {0, 1}, {0, last}, {1, 0}, {last, last - 1}, {last, last}, {1 << 63, 0}, {5, 123456789}} {
		for _, y := range []uint128{{}, {0, 1}, {0, 10}, {0, last}, {1, 1}, {last, last}} {
			f.Add(x.hi, x.lo, y.hi, y.lo, uint8(6))
		}
	}
	f.Fuzz(func(t *testing.T, xh, xl, yh, yl uint64, places uint8) {
		x, y := uint128{xh, xl}, uint128{yh, yl}
		same := func(what string, got uint128, want *big.Int) {
			t.Helper()
			if !inRange(want) {
				if !got.saturated() {
					t.Errorf("%s of %v and %v: got %v, want it saturated", what, x.big(), y.big(), got.big())
				}
				return
			}
			if got.big().Cmp(want) != 0 {
				t.Errorf("%s of %v and %v: got %v, want %v", what, x.big(), y.big(), got.big(), want)
			}
		}
		if x.less(y) != (x.big().Cmp(y.big()) < 0) {
			t.Errorf("%v is less than %v: %v", x.big(), y.big(), x.less(y))
		}
		same("product", product(xl, yl), new(big.Int).Mul(new(big.Int).SetUint64(xl), new(big.Int).SetUint64(yl)))
		if x.saturated() || y.saturated() {
			if !x.plus(y).saturated() || x.saturated() && !x.times(yl).saturated() {
				t.Errorf("%v and %v: saturation is forgotten", x.big(), y.big())
			}
			return
		}
		same("sum", x.plus(y), new(big.Int).Add(x.big(), y.big()))
		if !x.less(y) {
			same("difference", x.minus(y), new(big.Int).Sub(x.big(), y.big()))
		}
		small := new(big.Int).SetUint64(yl)
		same("product with 64 bits", x.times(yl), new(big.Int).Mul(x.big(), small))
		if yl > 0 {
			quotient, rest := x.over(yl)
			wantQuotient, wantRest := new(big.Int).QuoRem(x.big(), small, new(big.Int))
			same("quotient", quotient, wantQuotient)
			same("rest", uint128{0, rest}, wantRest)
		}
		places %= 39
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
		same("power of ten", tens(places), ten)
		same("without", x.without(places), new(big.Int).Quo(x.big(), ten))
		if got, want := string(x.appendDecimal([]byte("n"), places)), "n"+decimalTwin(x.big(), int(places)); got != want {
			t.Errorf("%v with %d places: got %s, want %s", x.big(), places, got, want)
		}
	})
}

// decimalTwin writes n / 10^places.
func decimalTwin(n *big.Int, places int) string {
	digits := n.String()
	if missing := places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if places == 0 {
		return digits
	}
	return digits[:len(digits)-places] + "." + digits[len(digits)-places:]
}
