package cpu

import "math"

// fma32 returns a·b + c rounded once to f32, as VFMADD does.
//
// The product of two f32 is exact in f64, so only the sum is rounded twice. That
// changes the result only if the first rounding lands exactly between two f32,
// or if the result is subnormal in f32; both are rare and go to fmaOdd.
func fma32(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	bits := math.Float64bits(s)
	if bits&(1<<29-1) == 1<<28 || bits<<1 < (1023-126)<<53 {
		return fmaOdd(a, b, c)
	}
	return float32(s)
}

// fmaOdd computes fma32 by rounding the sum to odd in f64, after which rounding
// to f32 is exact (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums: proved algorithms using rounding to odd", 2008).
func fmaOdd(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	zz := float64(s - p)
	e := float64(p-float64(s-zz)) + float64(z-zz) // s + e is the exact sum
	if e != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), e))
	}
	return float32(s)
}
