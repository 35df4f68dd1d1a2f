//go:build !noasm

package cpu

// tileFunc is the assembly for one number of tokens.
type tileFunc func(out *float32, w *byte, x *int8, meta *Meta, ldo, groups, blocks int)

// byTokens joins the functions for 1…tileTokens tokens. matMul has checked the lengths:
// there is at least one group, one block and one token.
func byTokens(tiles [tileTokens]tileFunc) matMulFunc {
	return func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
		tiles[tokens-1](&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}
