package cpu

import (
	"iter"
	"math"
)

// stretch is the most elements that one call of the dearer row kernels takes, some 15 µs
// of exponentials. It is a multiple of BlockColumns.
const stretch = 1 << 14

// stretches cuts n elements into ranges that can each run uninterrupted.
func stretches(n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; from += stretch {
			if !yield(from, min(from+stretch, n)) {
				return
			}
		}
	}
}

// dotLanes is the number of partial sums of a dot product; element i joins sum i
// mod dotLanes.
const dotLanes = 32

// DotF32 returns Σ x[i]·y[i].
func (o *Ops) DotF32(x, y []float32) float32 { return o.dot(x, y[:len(x)]) }

func dotGeneric(x, y []float32) float32 {
	var sum [dotLanes]float32
	for len(x) > 0 {
		// Lanes beyond the end take 0·0, as a masked load gives them.
		var a, b [dotLanes]float32
		n := copy(a[:], x)
		copy(b[:], y)
		for i := range sum {
			sum[i] = fma32(a[i], b[i], sum[i])
		}
		x, y = x[n:], y[n:]
	}
	var s [8]float32
	for i := range s {
		s[i] = float32(sum[i]+sum[8+i]) + float32(sum[16+i]+sum[24+i])
	}
	return sumLanes(s)
}

// Max returns the largest element, ignoring NaN, or -Inf if there is none.
func (o *Ops) Max(x []float32) float32 {
	return o.max(x) + 0 // -0 becomes +0, whichever of them was met first
}

func maxGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// Argmax returns the index of the first of the largest elements. A NaN never wins;
// without any number the result is -1.
func (o *Ops) Argmax(x []float32) int { return o.index(x, o.max(x)) }

// indexGeneric returns the first index of a value equal to v, or -1.
func indexGeneric(x []float32, v float32) int {
	for i, e := range x {
		if e == v {
			return i
		}
	}
	return -1
}

// Finite tells whether no element is NaN or infinite.
func (o *Ops) Finite(x []float32) bool {
	for from, to := range stretches(len(x)) {
		if !o.finite(x[from:to]) {
			return false
		}
	}
	return true
}

// finiteGeneric looks for exponents of ones only, which NaN and infinities have.
func finiteGeneric(x []float32) bool {
	const exponent = 0xff << 23
	for _, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return false
		}
	}
	return true
}

// Add sets dst += x.
func (o *Ops) Add(dst, x []float32) { o.add(dst[:len(x)], x) }

func addGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// Scale sets dst *= s.
func (o *Ops) Scale(dst []float32, s float32) { o.scale(dst, s) }

func scaleGeneric(dst []float32, s float32) {
	for i := range dst {
		dst[i] *= s
	}
}

// RMSNorm sets dst = x / √(mean(x²) + eps) · w (Zhang and Sennrich, "Root Mean Square
// Layer Normalization", 2019). dst may be x.
func (o *Ops) RMSNorm(dst, x, w []float32, eps float32) {
	if len(x) == 0 {
		return
	}
	mean := o.dot(x, x) / float32(len(x))
	s := 1 / float32(math.Sqrt(float64(mean+eps)))
	o.scaleMul(dst[:len(x)], x, w[:len(x)], s)
}

func scaleMulGeneric(dst, x, w []float32, s float32) {
	for i, v := range x {
		dst[i] = float32(v*s) * w[i]
	}
}
