//go:build !noasm

package cpu

import "math"

// The functions below give slices to the assembly, which takes pointers and wants at
// least one element. The methods of Ops have checked the lengths.

func quantizeVectors(q []int8, meta []Meta, x []float32) {
	if len(meta) > 0 {
		quantizeAVX2(&q[0], &meta[0], &x[0], len(meta))
	}
}

func f16ToF32Vectors(dst []float32, src []uint16) {
	n := len(src) &^ 7
	if n > 0 {
		f16ToF32AVX2(&dst[0], &src[0], n/8)
	}
	f16ToF32Generic(dst[n:], src[n:])
}

func f32ToF16Vectors(dst []uint16, src []float32) {
	n := len(src) &^ 7
	if n > 0 {
		f32ToF16AVX2(&dst[0], &src[0], n/8)
	}
	f32ToF16Generic(dst[n:], src[n:])
}

func dotVectors(x, y []float32) float32 {
	if len(x) == 0 {
		return 0
	}
	return dotAVX2(&x[0], &y[0], len(x))
}

func maxVectors(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.Inf(-1))
	}
	return maxAVX2(&x[0], len(x))
}

func indexVectors(x []float32, v float32) int {
	if len(x) == 0 {
		return -1
	}
	return indexAVX2(&x[0], len(x), v)
}

func expSumVectors(loop func(dst, x *float32, n int, max float32) float32) func(dst, x []float32, max float32) float32 {
	return func(dst, x []float32, max float32) float32 {
		if len(x) == 0 {
			return 0
		}
		return loop(&dst[0], &x[0], len(x), max)
	}
}

func finiteVectors(x []float32) bool { return len(x) == 0 || finiteAVX2(&x[0], len(x)) == 1 }

func addVectors(dst, x []float32) {
	if len(x) > 0 {
		addAVX2(&dst[0], &x[0], len(x))
	}
}

func scaleVectors(dst []float32, s float32) {
	if len(dst) > 0 {
		scaleAVX2(&dst[0], len(dst), s)
	}
}

func scaleMulVectors(dst, x, w []float32, s float32) {
	if len(x) > 0 {
		scaleMulAVX2(&dst[0], &x[0], &w[0], len(x), s)
	}
}

func gateVectors(gateMul func(dst, gate, up *float32, n int)) func(dst, gate, up []float32) {
	return func(dst, gate, up []float32) {
		if len(gate) > 0 {
			gateMul(&dst[0], &gate[0], &up[0], len(gate))
		}
	}
}

func ropePairsVectors(x, cos, sin []float32) {
	n := len(cos) &^ 3
	if n > 0 {
		ropePairsAVX2(&x[0], &cos[0], &sin[0], n/4)
	}
	ropePairsGeneric(x[2*n:], cos[n:], sin[n:])
}

func ropeHalvesVectors(x, cos, sin []float32) {
	if n := len(cos); n > 0 {
		ropeHalvesAVX2(&x[0], &x[n], &cos[0], &sin[0], n)
	}
}
