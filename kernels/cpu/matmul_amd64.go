//go:build !noasm

package cpu

// tileFunc is the assembly for one number of tokens.
type tileFunc func(out *float32, w *byte, x *int8, meta *Meta, ldo, groups, blocks int)

// byTokens joins the functions for 1…tileTokens tokens. MatMul has checked the lengths:
// there is at least one group, one block and one token.
func byTokens(tiles ...tileFunc) matMulFunc {
	return func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
		tiles[tokens-1](&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}

// byEight is byTokens with a function for maxTileTokens tokens.
func byEight(eight tileFunc, tiles ...tileFunc) matMulFunc {
	few := byTokens(tiles...)
	return func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
		if tokens == maxTileTokens {
			eight(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
			return
		}
		for t := 0; t < tokens; t += tileTokens {
			few(out[t*ldo:], ldo, w, groups, x[t*blocks*BlockColumns:], meta[t*blocks:], min(tileTokens, tokens-t), blocks)
		}
	}
}

// halfTileFunc is tileFunc for 16-bit floats.
type halfTileFunc func(out *float32, w *byte, x *float32, ldo, groups, k int)

func halfByTokens(tiles ...halfTileFunc) matMulHalfFunc {
	return func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
		tiles[tokens-1](&out[0], &w[0], &x[0], ldo, groups, k)
	}
}

// matMulAVX2 are the products of level AVX2.
var matMulAVX2 = [numForms]matMulFunc{
	FormQ4_1: byTokens(matMulQ4_1AVX2T1, matMulQ4_1AVX2T2, matMulQ4_1AVX2T3, matMulQ4_1AVX2T4),
	FormQ4_K: byTokens(matMulQ4_KAVX2T1, matMulQ4_KAVX2T2, matMulQ4_KAVX2T3, matMulQ4_KAVX2T4),
	FormQ5_0: byTokens(matMulQ5_0AVX2T1, matMulQ5_0AVX2T2, matMulQ5_0AVX2T3, matMulQ5_0AVX2T4),
	FormQ5_1: byTokens(matMulQ5_1AVX2T1, matMulQ5_1AVX2T2, matMulQ5_1AVX2T3, matMulQ5_1AVX2T4),
	FormQ5_K: byTokens(matMulQ5_KAVX2T1, matMulQ5_KAVX2T2, matMulQ5_KAVX2T3, matMulQ5_KAVX2T4),
	FormQ6_K: byTokens(matMulQ6_KAVX2T1, matMulQ6_KAVX2T2, matMulQ6_KAVX2T3, matMulQ6_KAVX2T4),
	FormQ8_0: byTokens(matMulQ8_0AVX2T1, matMulQ8_0AVX2T2, matMulQ8_0AVX2T3, matMulQ8_0AVX2T4),
}

// matMulAVXVNNI are those of level AVXVNNI.
var matMulAVXVNNI = [numForms]matMulFunc{
	FormQ4_1: byTokens(matMulQ4_1AVXVNNIT1, matMulQ4_1AVXVNNIT2, matMulQ4_1AVXVNNIT3, matMulQ4_1AVXVNNIT4),
	FormQ4_K: byTokens(matMulQ4_KAVXVNNIT1, matMulQ4_KAVXVNNIT2, matMulQ4_KAVXVNNIT3, matMulQ4_KAVXVNNIT4),
	FormQ5_0: byTokens(matMulQ5_0AVXVNNIT1, matMulQ5_0AVXVNNIT2, matMulQ5_0AVXVNNIT3, matMulQ5_0AVXVNNIT4),
	FormQ5_1: byTokens(matMulQ5_1AVXVNNIT1, matMulQ5_1AVXVNNIT2, matMulQ5_1AVXVNNIT3, matMulQ5_1AVXVNNIT4),
	FormQ5_K: byTokens(matMulQ5_KAVXVNNIT1, matMulQ5_KAVXVNNIT2, matMulQ5_KAVXVNNIT3, matMulQ5_KAVXVNNIT4),
	FormQ6_K: byTokens(matMulQ6_KAVXVNNIT1, matMulQ6_KAVXVNNIT2, matMulQ6_KAVXVNNIT3, matMulQ6_KAVXVNNIT4),
	FormQ8_0: byTokens(matMulQ8_0AVXVNNIT1, matMulQ8_0AVXVNNIT2, matMulQ8_0AVXVNNIT3, matMulQ8_0AVXVNNIT4),
}

// matMulAVX512 are those of level AVX512VNNI.
var matMulAVX512 = [numForms]matMulFunc{
	FormQ4_1: byEight(matMulQ4_1AVX512T8, matMulQ4_1AVX512T1, matMulQ4_1AVX512T2, matMulQ4_1AVX512T3, matMulQ4_1AVX512T4),
	FormQ4_K: byEight(matMulQ4_KAVX512T8, matMulQ4_KAVX512T1, matMulQ4_KAVX512T2, matMulQ4_KAVX512T3, matMulQ4_KAVX512T4),
	FormQ5_0: byEight(matMulQ5_0AVX512T8, matMulQ5_0AVX512T1, matMulQ5_0AVX512T2, matMulQ5_0AVX512T3, matMulQ5_0AVX512T4),
	FormQ5_1: byEight(matMulQ5_1AVX512T8, matMulQ5_1AVX512T1, matMulQ5_1AVX512T2, matMulQ5_1AVX512T3, matMulQ5_1AVX512T4),
	FormQ5_K: byEight(matMulQ5_KAVX512T8, matMulQ5_KAVX512T1, matMulQ5_KAVX512T2, matMulQ5_KAVX512T3, matMulQ5_KAVX512T4),
	FormQ6_K: byEight(matMulQ6_KAVX512T8, matMulQ6_KAVX512T1, matMulQ6_KAVX512T2, matMulQ6_KAVX512T3, matMulQ6_KAVX512T4),
	FormQ8_0: byEight(matMulQ8_0AVX512T8, matMulQ8_0AVX512T1, matMulQ8_0AVX512T2, matMulQ8_0AVX512T3, matMulQ8_0AVX512T4),
}

// matMulAhead are those of AVX-512 for one token, whose weights they read ahead.
var matMulAhead = [numForms]tileFunc{
	FormQ4_1: matMulQ4_1AVX512T1Ahead,
	FormQ4_K: matMulQ4_KAVX512T1Ahead,
	FormQ5_0: matMulQ5_0AVX512T1Ahead,
	FormQ5_1: matMulQ5_1AVX512T1Ahead,
	FormQ5_K: matMulQ5_KAVX512T1Ahead,
	FormQ6_K: matMulQ6_KAVX512T1Ahead,
	FormQ8_0: matMulQ8_0AVX512T1Ahead,
}

// halfByEight is byEight for 16-bit floats.
func halfByEight(eight halfTileFunc, tiles ...halfTileFunc) matMulHalfFunc {
	few := halfByTokens(tiles...)
	return func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
		if tokens == maxTileTokens {
			eight(&out[0], &w[0], &x[0], ldo, groups, k)
			return
		}
		for t := 0; t < tokens; t += tileTokens {
			few(out[t*ldo:], ldo, w, groups, x[t*k:], min(tileTokens, tokens-t), k)
		}
	}
}

// The products of 16-bit floats have no integers: AVXVNNI takes those of AVX2.
var (
	matMulF16AVX2    = halfByTokens(matMulF16AVX2T1, matMulF16AVX2T2, matMulF16AVX2T3, matMulF16AVX2T4)
	matMulF16AVX512  = halfByEight(matMulF16AVX512T8, matMulF16AVX512T1, matMulF16AVX512T2, matMulF16AVX512T3, matMulF16AVX512T4)
	matMulBF16AVX2   = halfByTokens(matMulBF16AVX2T1, matMulBF16AVX2T2, matMulBF16AVX2T3, matMulBF16AVX2T4)
	matMulBF16AVX512 = halfByEight(matMulBF16AVX512T8, matMulBF16AVX512T1, matMulBF16AVX512T2, matMulBF16AVX512T3, matMulBF16AVX512T4)

	matMulF16Ahead  = halfByEight(matMulF16AVX512T8, matMulF16AVX512T1Ahead, matMulF16AVX512T2, matMulF16AVX512T3, matMulF16AVX512T4)
	matMulBF16Ahead = halfByEight(matMulBF16AVX512T8, matMulBF16AVX512T1Ahead, matMulBF16AVX512T2, matMulBF16AVX512T3, matMulBF16AVX512T4)
)

// gainsAhead tells whether this processor gains by reading one token's weights ahead in
// AVX-512: Granite Rapids takes them at 24 GB/s so and at 13 without, Zen 4 at 18–25 so and at
// 28 without. See RATIONALE.md: prefetching weights.
func gainsAhead() bool {
	var id [12]byte
	vendorID(&id)
	return string(id[:]) != "AuthenticAMD"
}

// readAhead makes the products of AVX-512 for one token read their weights ahead.
func (o *Ops) readAhead() {
	for form, one := range matMulAhead {
		other := o.matMul[form]
		o.matMul[form] = func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
			if tokens == 1 {
				one(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
				return
			}
			other(out, ldo, w, groups, x, meta, tokens, blocks)
		}
	}
	o.matMulF16, o.matMulBF16 = matMulF16Ahead, matMulBF16Ahead
	o.read = readVectors(readAVX512Ahead)
}
