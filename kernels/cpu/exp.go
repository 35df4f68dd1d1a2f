package cpu

import "math"

// Bounds and constants of exp32. ln 2 is split so that n·ln2High is exact for
// every n that occurs (Cody and Waite).
const (
	expMin  = -105 // below, the result rounds to zero
	expMax  = 89   // above, it is infinite
	log2E   = 1.44269504088896340736
	ln2High = 0x1.62ep-1
	ln2Low  = 0x1.0bfbe8e7bcd5ep-15
)

// expTaylor are 1/n!, highest first. With |r| ≤ ln 2 / 2 the remainder of degree 7
// is 5·10⁻⁹, below a tenth of the last bit.
var expTaylor = [...]float32{1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}

// exp32 returns eˣ within 2 units of the last place: 2ⁿ·eʳ with x = n·ln 2 + r.
// It is right for infinities, and a NaN stays one. The vector kernels follow it
// step by step.
func exp32(x float32) float32 {
	if x != x {
		return x
	}
	x = max(min(x, expMax), expMin)
	n := float32(math.RoundToEven(float64(x * log2E)))
	r := fma32(n, -ln2High, x)
	r = fma32(n, -ln2Low, r)
	p := expTaylor[0]
	for _, c := range expTaylor[1:] {
		p = fma32(p, r, c)
	}
	// 2ⁿ in two factors, because n may be 128 or below -126.
	half := int32(n) >> 1
	low := math.Float32frombits(uint32(half+127) << 23)
	high := math.Float32frombits(uint32(int32(n)-half+127) << 23)
	return float32(p*low) * high
}

// expLanes is the number of partial sums of ExpSum; element i joins sum i mod expLanes.
const expLanes = 8

// ExpSum sets dst[i] = exp(x[i] - max) and returns their sum. dst may be x. With the
// maximum of x all results are at most 1; a row of -Inf alone gives NaN.
func (o *Ops) ExpSum(dst, x []float32, max float32) float32 {
	var sum float32
	for from, to := range stretches(len(x)) {
		sum += o.expSum(dst[from:to], x[from:to], max)
	}
	return sum
}

func expSumGeneric(dst, x []float32, max float32) float32 {
	var sum [expLanes]float32
	for i, v := range x {
		dst[i] = exp32(v - max)
		sum[i%expLanes] += dst[i]
	}
	return sumLanes(sum)
}

// sumLanes adds eight partial sums in the order of two horizontal additions in
// each half, then of the halves.
func sumLanes(s [8]float32) float32 {
	low := float32(s[0]+s[1]) + float32(s[2]+s[3])
	high := float32(s[4]+s[5]) + float32(s[6]+s[7])
	return low + high
}

// SiLUMul sets dst = gate·sigmoid(gate)·up, the gate of Llama's feed-forward. dst
// may be gate or up. A gate of -Inf gives NaN, as gate / (1 + exp(-gate)) does.
func (o *Ops) SiLUMul(dst, gate, up []float32) {
	for from, to := range stretches(len(gate)) {
		o.siluMul(dst[from:to], gate[from:to], up[from:to])
	}
}

func siluMulGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + exp32(-g)) * up[i]
	}
}

// Factors of GELU's argument: 2·√(2/π), and the same times 0.044715.
const (
	geluLinear = 1.59576912160573071176
	geluCubic  = 0.07135481627260025
)

// GELUMul sets dst = gelu(gate)·up with the tanh approximation of Hendrycks and
// Gimpel ("Gaussian Error Linear Units", 2016, section 2), the gate of Gemma's
// feed-forward. With 1 + tanh(u) = 2·sigmoid(2u) it is a sigmoid like SiLU's.
// dst may be gate or up.
func (o *Ops) GELUMul(dst, gate, up []float32) {
	for from, to := range stretches(len(gate)) {
		o.geluMul(dst[from:to], gate[from:to], up[from:to])
	}
}

func geluMulGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		u := g * fma32(g*g, geluCubic, geluLinear)
		dst[i] = g / (1 + exp32(-u)) * up[i]
	}
}
