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

// halfTileFunc is tileFunc for 16-bit floats.
type halfTileFunc func(out *float32, w *byte, x *float32, ldo, groups, k int)

func halfByTokens(tiles ...halfTileFunc) matMulHalfFunc {
	return func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
		tiles[tokens-1](&out[0], &w[0], &x[0], ldo, groups, k)
	}
}

// matMulNEON are the products of level NEON.
var matMulNEON = [numForms]matMulFunc{
	FormQ4_1: byTokens(matMulQ4_1NEONT1, matMulQ4_1NEONT2, matMulQ4_1NEONT3, matMulQ4_1NEONT4),
	FormQ4_K: byTokens(matMulQ4_KNEONT1, matMulQ4_KNEONT2, matMulQ4_KNEONT3, matMulQ4_KNEONT4),
	FormQ5_0: byTokens(matMulQ5_0NEONT1, matMulQ5_0NEONT2, matMulQ5_0NEONT3, matMulQ5_0NEONT4),
	FormQ5_1: byTokens(matMulQ5_1NEONT1, matMulQ5_1NEONT2, matMulQ5_1NEONT3, matMulQ5_1NEONT4),
	FormQ5_K: byTokens(matMulQ5_KNEONT1, matMulQ5_KNEONT2, matMulQ5_KNEONT3, matMulQ5_KNEONT4),
	FormQ6_K: byTokens(matMulQ6_KNEONT1, matMulQ6_KNEONT2, matMulQ6_KNEONT3, matMulQ6_KNEONT4),
	FormQ8_0: byTokens(matMulQ8_0NEONT1, matMulQ8_0NEONT2, matMulQ8_0NEONT3, matMulQ8_0NEONT4),
}

var (
	matMulF16NEON  = halfByTokens(matMulF16NEONT1, matMulF16NEONT2, matMulF16NEONT3, matMulF16NEONT4)
	matMulBF16NEON = halfByTokens(matMulBF16NEONT1, matMulBF16NEONT2, matMulBF16NEONT3, matMulBF16NEONT4)
)
