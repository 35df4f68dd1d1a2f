package cpu

import (
	"math"
	"math/big"
	"testing"
)

// exactFMA is a·b + c in exact arithmetic (700 bits span every f32 product and sum),
// rounded once.
func exactFMA(a, b, c float32) float32 {
	exact := func(x float32) *big.Float { return new(big.Float).SetPrec(700).SetFloat64(float64(x)) }
	sum := new(big.Float).SetPrec(700).Mul(exact(a), exact(b))
	f, _ := sum.Add(sum, exact(c)).Float32()
	return f
}

func TestFMA32(t *testing.T) {
	check := func(a, b, c float32) {
		t.Helper()
		got, want := fma32(a, b, c), exactFMA(a, b, c)
		if got != want { // == because an exact zero has no sign in big arithmetic
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	// Double rounding through f64 goes wrong here: the sum lies just beside the
	// middle of two f32, nearer than f64 can say.
	check(1+0x1p-12, 1+0x1p-12, 0x1p-60)
	check(1+0x1p-23, 1-0x1p-23, 0x1p-24)
	check(0x1p-24, 1, 1)
	check(0x1.000002p0, 0x1p-24, 1)
	check(0x1.fffffep-1, 0x1p-24, 1)
	check(0x1p-24, 1+0x1p-23, -1)
	check(0x1p-75, 0x1p-75, 0x1p-149)
	check(-0x1p-75, 0x1p-75, 0x1p-149)
	check(0x1.8p-75, 0x1p-75, 0)
	check(math.MaxFloat32, 1, 0x1p103)
	check(math.MaxFloat32, 1, 0x1p102)

	r := random()
	exponents := func(lo, hi int) float32 {
		m := 1 + float64(r.IntN(1<<12))/(1<<12) // short fractions meet midpoints often
		if r.IntN(2) == 0 {
			m = 1 + r.Float64()
		}
		if r.IntN(2) == 0 {
			m = -m
		}
		return float32(math.Ldexp(m, lo+r.IntN(hi-lo)))
	}
	for range 60_000 {
		check(exponents(-13, 13), exponents(-13, 13), exponents(-30, 30))
	}
	for range 20_000 {
		check(exponents(-80, -60), exponents(-80, -60), exponents(-149, -120))
	}
}

func TestFMA32Specials(t *testing.T) {
	for _, a := range specials {
		for _, b := range specials {
			for _, c := range specials {
				got := fma32(a, b, c)
				want := float32(math.FMA(float64(a), float64(b), float64(c)))
				if math.IsInf(float64(want), 0) || want != want || want == 0 {
					if err := sameBits([]float32{got}, []float32{want}); err != nil {
						t.Fatalf("fma32(%g, %g, %g): %v", a, b, c, err)
					}
				}
			}
		}
	}
}
