//go:build !noasm

package cpu

// accelerate replaces the twins by what the level has. The VNNI levels differ from AVX2
// in the products only: the row operations are bound by memory or too short to gain
// from wider registers.
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
	case AVX512VNNI:
		o.matMul, o.peak = matMulAVX512, peakVectors(peakAVX512, 64)
	}
	o.matMulF16, o.matMulBF16 = matMulF16AVX2, matMulBF16AVX2
	if level == AVX512VNNI {
		o.matMulF16, o.matMulBF16 = matMulF16AVX512, matMulBF16AVX512
	}
	o.read = readVectors
	o.quantize = quantizeVectors
	o.f16ToF32 = f16ToF32Vectors
	o.f32ToF16 = f32ToF16Vectors
	o.dot = dotVectors
	o.max = maxVectors
	o.index = indexVectors
	o.expSum = expSumVectors
	o.above = aboveVectors
	o.sumWeights = sumWeightsVectors
	o.add = addVectors
	o.scale = scaleVectors
	o.scaleMul = scaleMulVectors
	o.siluMul = siluMulVectors
	o.geluMul = geluMulVectors
	o.scoresF16 = scoresF16Vectors
	o.accumF16 = accumF16Vectors
	o.scoresQ8 = scoresQ8Vectors
	o.accumQ8 = accumQ8Vectors
	o.ropePairs = ropePairsVectors
	o.ropeHalves = ropeHalvesVectors
}
