package sample

import "math"

// one is the weight of the most likely token. Weights are integers, so that a
// sum is exact and has no order; a vocabulary of them sums to at most 2⁶⁰. What
// is less likely than 2⁻⁴⁰ of the most likely token weighs 0.
const one = 1 << 40

// A powers table has the entries of one octave.
const (
	stepBits = 8
	steps    = 1 << stepBits
)

// powers holds one·2^(i/steps). A weight is such a power, times a correction of
// less than half a step, shifted: a third of math.Exp's time, which counts with
// a whole vocabulary a token, and the same on every machine, which math.Exp's
// assembly is not.
type powers [steps]float64

func newPowers() powers {
	root := 2.0
	for n := 1; n < steps; n *= 2 {
		root = math.Sqrt(root)
	}
	p := powers{one}
	for i := 1; i < steps; i++ {
		p[i] = p[i-1] * root
	}
	return p
}

// scale turns a distance in nats at a temperature into steps.
func scale(temperature float64) float64 { return steps / math.Ln2 / temperature }

// weight is a logit's probability relative to the greatest one's, peak, to
// within 1e-9 of it and 2⁻⁴⁰; 0 if the logit is NaN. The peak is not −Inf.
func (p *powers) weight(x, peak float32, scale float64) uint64 {
	if x == peak { // also where both are infinite
		return one
	}
	y := float64((float64(x) - float64(peak)) * scale)
	if !(y > -41*steps) {
		return 0
	}
	n := int64(y - 0.5)
	// e^r by its series; the rest is below (ln 2 / 512)³ / 6 = 4.2e-10. The
	// conversions forbid fused multiplication, which rounds differently.
	r := (y - float64(n)) * (math.Ln2 / steps)
	e := 1 + float64(r*(1+float64(r/2)))
	return uint64(int64(p[n&(steps-1)]*e)) >> (-(n >> stepBits) & 63)
}
