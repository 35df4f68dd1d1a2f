//go:build !noasm

package cpu

// accelerate replaces the twins by what the level has. AVX512VNNI differs from AVX2 in
// the quantised products only: the row operations are bound by memory or too short to
// gain from wider registers.
func (o *Ops) accelerate(level Level) {
	o.level = level
	o.pause = pauseAMD64
	if level < AVX2 {
		return
	}
	o.matMulQ4 = byTokens([tileTokens]tileFunc{matMulQ4AVX2T1, matMulQ4AVX2T2, matMulQ4AVX2T3, matMulQ4AVX2T4})
	o.matMulQ8 = byTokens([tileTokens]tileFunc{matMulQ8AVX2T1, matMulQ8AVX2T2, matMulQ8AVX2T3, matMulQ8AVX2T4})
	o.quantize = quantizeVectors
	o.f16ToF32 = f16ToF32Vectors
	o.f32ToF16 = f32ToF16Vectors
	o.dot = dotVectors
	o.max = maxVectors
	o.index = indexVectors
	o.expSum = expSumVectors
	o.add = addVectors
	o.scale = scaleVectors
	o.scaleMul = scaleMulVectors
	o.siluMul = siluMulVectors
	o.geluMul = geluMulVectors
	o.scores = scoresVectors
	o.accum = accumVectors
	o.ropePairs = ropePairsVectors
	o.ropeHalves = ropeHalvesVectors
	if level < AVX512VNNI {
		return
	}
	o.matMulQ4 = byTokens([tileTokens]tileFunc{matMulQ4VNNIT1, matMulQ4VNNIT2, matMulQ4VNNIT3, matMulQ4VNNIT4})
	o.matMulQ8 = byTokens([tileTokens]tileFunc{matMulQ8VNNIT1, matMulQ8VNNIT2, matMulQ8VNNIT3, matMulQ8VNNIT4})
}
