//go:build !noasm

package cpu

// accelerate replaces the twins by what the level has. The cheaper row operations
// stay in plain Go, as sums of 8-bit values do.
func (o *Ops) accelerate(level Level) {
	o.level = level
	if level != NEON {
		return
	}
	o.matMul = matMulNEON
	o.matMulF16, o.matMulBF16 = matMulF16NEON, matMulBF16NEON
	o.scoresF16, o.accumF16 = scoresF16NEON, accumF16NEON
	o.quantize = quantizeWithNEON
	o.dot, o.expSum = dotWithNEON, expSumWithNEON
	o.siluMul, o.geluMul = siluMulWithNEON, geluMulWithNEON
	o.read, o.peak, o.peakFloat = readNEONBytes, peakDots, peakFloats
}
