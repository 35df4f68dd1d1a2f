//go:build !noasm

package cpu

// accelerate replaces the twins by what the level has. The row operations are
// plain Go here.
func (o *Ops) accelerate(level Level) {
	o.level = level
	if level != NEON {
		return
	}
	o.matMul = matMulNEON
	o.matMulF16, o.matMulBF16 = matMulF16NEON, matMulBF16NEON
	o.scoresF16, o.accumF16 = scoresF16NEON, accumF16NEON
	o.read, o.peak = readNEONBytes, peakDots
}
