package replay

import (
	"fmt"
	"math/big"
	"strings"
)

// Amount is an exact decimal: units / 10^places. Its zero value is 0.
type Amount struct {
	units  big.Int
	places int
}

// Bounds of an amount that a record may state. A float64 of money never gets
// there; a text that is made to cost time does.
const (
	maxDigits = 64
	maxPlaces = 32
)

// ParseAmount reads a decimal number as JSON writes numbers.
func ParseAmount(text string) (Amount, error) {
	var a Amount
	mantissa, exponent, scientific := strings.Cut(strings.ReplaceAll(text, "E", "e"), "e")
	whole, fraction, point := strings.Cut(mantissa, ".")
	digits := strings.TrimPrefix(whole, "-") + fraction
	shift := 0
	ok := isDigits(digits) && strings.TrimPrefix(whole, "-") != "" && !(point && fraction == "") && len(digits) <= maxDigits
	if scientific {
		ok = ok && isExponent(exponent)
		for _, c := range strings.TrimLeft(exponent, "+-") {
			shift = shift*10 + int(c-'0')
		}
		if strings.HasPrefix(exponent, "-") {
			shift = -shift
		}
	}
	a.places = len(fraction) - shift
	if !ok || a.places > maxPlaces || a.places < -maxPlaces {
		return Amount{}, fmt.Errorf("%.80q is not a decimal number of at most %d digits and %d places", text, maxDigits, maxPlaces)
	}
	a.units.SetString(digits, 10)
	if strings.HasPrefix(whole, "-") {
		a.units.Neg(&a.units)
	}
	if a.places < 0 {
		a.scale(0)
	}
	return a, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isExponent(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	return isDigits(s) && len(s) <= 3
}

// scale writes the same amount with more places.
func (a *Amount) scale(places int) {
	if places > a.places {
		a.units.Mul(&a.units, power(places-a.places))
		a.places = places
	}
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// Add adds b to a.
func (a *Amount) Add(b *Amount) {
	if a.places == b.places {
		a.units.Add(&a.units, &b.units)
		return
	}
	more := b.clone()
	places := max(a.places, b.places)
	a.scale(places)
	more.scale(places)
	a.units.Add(&a.units, &more.units)
}

// minus gives a − b.
func (a *Amount) minus(b *Amount) Amount {
	difference := b.clone()
	difference.units.Neg(&difference.units)
	difference.Add(a)
	return difference
}

// clone gives an amount that shares nothing with a.
func (a *Amount) clone() Amount {
	var b Amount
	b.units.Set(&a.units)
	b.places = a.places
	return b
}

// Sign is -1, 0 or 1.
func (a *Amount) Sign() int { return a.units.Sign() }

// larger reports whether a is further from 0 than b.
func (a *Amount) larger(b *Amount) bool {
	x, y := a.clone(), b.clone()
	places := max(x.places, y.places)
	x.scale(places)
	y.scale(places)
	return x.units.CmpAbs(&y.units) > 0
}

// String writes the amount with the places that it needs.
func (a Amount) String() string {
	digits := new(big.Int).Abs(&a.units).String()
	if missing := a.places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, fraction := digits[:len(digits)-a.places], strings.TrimRight(digits[len(digits)-a.places:], "0")
	if fraction != "" {
		whole += "." + fraction
	}
	if a.units.Sign() < 0 {
		whole = "-" + whole
	}
	return whole
}

// MarshalText gives the amount as JSON has it: a string, since a reader's
// numbers may be floats.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// percent gives how much more after is than before, in per cent with two
// places; "" if before is 0.
func percent(before, after *Amount) string {
	if before.Sign() == 0 {
		return ""
	}
	rat := func(a *Amount) *big.Rat { return new(big.Rat).SetFrac(&a.units, power(a.places)) }
	b := rat(before)
	change := new(big.Rat).Sub(rat(after), b)
	change.Quo(change, b.Abs(b))
	text := change.Mul(change, big.NewRat(100, 1)).FloatString(2)
	if change.Sign() > 0 {
		text = "+" + text
	}
	return text + " %"
}
