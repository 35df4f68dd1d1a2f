package cpu

import "math"

// fma32 returns a·b + c rounded once to f32, as VFMADD does.
//
// The product of two f32 is exact in f64, so only the sum is rounded twice. That
// changes the result only if the first rounding lands exactly between two f32,
// or if the result is subnormal in f32; both are rare and go to roundOdd.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if bits := math.Float64bits(s); bits<<35 == 1<<63 || bits<<1 < (1023-126)<<53 {
		s = roundOdd(p, c)
	}
	return float32(s)
}

// roundOdd adds in f64 and rounds an inexact sum to the neighbour with an odd
// fraction, after which rounding to f32 is exact (Boldo and Melquiond, "Emulation of
// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
func roundOdd(p float64, c float32) float64 {
	z := float64(c)
	s := p + z
	zz := s - p
	e := (p - (s - zz)) + (z - zz) // s + e is the exact sum
	if e != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), e))
	}
	return s
}
