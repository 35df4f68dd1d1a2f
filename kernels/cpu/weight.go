package cpu

import "math"

// OneWeight is the weight of the most likely token of a row. Weights are
// integers, so that a sum is exact and has no order; a vocabulary of 2²⁰ of them
// sums to at most 2⁶⁰. What is less likely than 2⁻⁴⁰ of the most likely token
// weighs 0.
const OneWeight = 1 << 40

// leastOctaves bounds what weighs anything: there it is half, which is rounded to
// 0.
const leastOctaves = -41

// weightTaylor are (ln 2)ⁿ/n!, highest first. With |f| ≤ 1/2 the remainder of
// degree 8 is 2·10⁻¹⁰.
var weightTaylor = func() (c [9]float64) {
	term := 1.
	for n := range c {
		c[len(c)-1-n] = term
		term *= math.Ln2 / float64(n+1)
	}
	return c
}()

// WeightScale turns a distance in nats at a temperature into octaves.
func WeightScale(temperature float64) float64 { return math.Log2E / temperature }

// Weight is a logit's probability relative to the greatest one's, peak, to
// within 3e-10 of it and 2⁻⁴¹; 0 if the logit is NaN. The peak is not −Inf. It is
// the same on every machine, which math.Exp's assembly is not; the vector kernel
// follows it step by step.
func Weight(x, peak float32, scale float64) uint64 {
	if x == peak { // also where both are infinite
		return OneWeight
	}
	// The conversion forbids fused multiplication, which rounds differently.
	y := float64((float64(x) - float64(peak)) * scale)
	if !(y > leastOctaves) {
		return 0
	}
	n := math.RoundToEven(y)
	p := weightTaylor[0]
	for _, c := range weightTaylor[1:] {
		p = math.FMA(p, y-n, c)
	}
	const one = 40 // OneWeight's exponent
	return uint64(math.RoundToEven(math.Float64frombits(math.Float64bits(p) + uint64(int64(n)+one)<<52)))
}

// WeightFloor is a logit below all that weigh least or more, 1 ≤ least ≤
// OneWeight, by a hundredth of an octave beside float32's own steps.
func WeightFloor(least uint64, peak float32, scale float64) float32 {
	if math.IsInf(float64(peak), 1) {
		return math.MaxFloat32 // only the infinite weigh anything
	}
	// An integer weight may have been rounded up by half.
	y := math.Log2((float64(least)-0.5)/OneWeight) - 0.01
	return math.Nextafter32(float32(float64(peak)+y/scale), float32(math.Inf(-1)))
}

// SumWeights is the sum of Weight over a row.
func (o *Ops) SumWeights(x []float32, peak float32, scale float64) uint64 {
	if math.IsInf(float64(peak), 1) {
		return sumWeightsGeneric(x, peak, scale)
	}
	var sum uint64
	for from, to := range stretches(len(x)) {
		sum += o.sumWeights(x[from:to], peak, scale)
	}
	return sum
}

func sumWeightsGeneric(x []float32, peak float32, scale float64) uint64 {
	var sum uint64
	for _, v := range x {
		sum += Weight(v, peak, scale)
	}
	return sum
}

// Above returns the first index of a value greater than floor, or len(x) if there
// is none. A NaN is not greater.
func (o *Ops) Above(x []float32, floor float32) int {
	if i := o.above(x, floor); i >= 0 {
		return i
	}
	return len(x)
}

// aboveGeneric returns -1 for none.
func aboveGeneric(x []float32, floor float32) int {
	for i, v := range x {
		if v > floor {
			return i
		}
	}
	return -1
}
