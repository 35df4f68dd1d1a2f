//go:build !noasm

package cpu

// accelerate replaces the twins by what the level has. AVXVNNI differs from AVX2 in the
// products only, as AMX does from AVX512VNNI, and that in attention and exponentials too: the
// other row operations are bound by memory or too short to gain from wider registers.
func (o *Ops) accelerate(level Level) {
	o.level = level
	o.pause = pauseAMD64
	switch level {
	case Generic:
		return
	case AVX2:
		o.matMul, o.peak = matMulAVX2, peakVectors(peakAVX2, 32)
	case AVXVNNI:
		o.matMul, o.peak = matMulAVXVNNI, peakVectors(peakAVXVNNI, 32)
	case AVX512VNNI, AMX:
		o.matMul, o.peak = matMulAVX512, peakVectors(peakAVX512, 64)
		o.tile = maxTileTokens
	}
	o.matMulF16, o.matMulBF16 = matMulF16AVX2, matMulBF16AVX2
	wide := level == AVX512VNNI || level == AMX
	if wide {
		o.halfTile = maxTileTokens
		o.matMulF16, o.matMulBF16 = matMulF16AVX512, matMulBF16AVX512
	}
	o.read = readVectors(readAVX2)
	o.peakFloat = peakFloatVectors(peakFloatAVX2, 32)
	o.quantize = quantizeVectors
	o.f16ToF32 = f16ToF32Vectors
	o.f32ToF16 = f32ToF16Vectors
	o.dot = dotVectors
	o.max = maxVectors
	o.index = indexVectors
	o.finite = finiteVectors
	o.expSum = expSumVectors(expSumAVX2)
	o.above = aboveVectors
	o.sumWeights = sumWeightsVectors
	o.add = addVectors
	o.scale = scaleVectors
	o.scaleMul = scaleMulVectors
	o.siluMul = gateVectors(siluMulAVX2)
	o.geluMul = gateVectors(geluMulAVX2)
	o.scoresF16 = scoresF16AVX2
	o.accumF16 = accumF16AVX2
	o.accumQ8 = accumQ8AVX2
	if wide {
		o.read = readVectors(readAVX512)
		o.peakFloat = peakFloatVectors(peakFloatAVX512, 64)
		o.expSum = expSumVectors(expSumAVX512)
		o.siluMul = gateVectors(siluMulAVX512)
		o.geluMul = gateVectors(geluMulAVX512)
		o.scoresF16, o.accumF16, o.accumQ8 = scoresF16AVX512, accumF16AVX512, accumQ8AVX512
		if gainsAhead() {
			o.readAhead()
		}
	}
	o.ropePairs = ropePairsVectors
	o.ropeHalves = ropeHalvesVectors
	if level == AMX {
		o.takeTiles()
	}
}
