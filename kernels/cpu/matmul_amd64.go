//go:build !noasm

package cpu

// The functions below choose the assembly for a number of tokens. matMul has checked the
// lengths: at least one group, one block and one token.

func matMulQ4AVX2(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	switch tokens {
	case 1:
		matMulQ4AVX2T1(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 2:
		matMulQ4AVX2T2(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 3:
		matMulQ4AVX2T3(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 4:
		matMulQ4AVX2T4(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}

func matMulQ8AVX2(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	switch tokens {
	case 1:
		matMulQ8AVX2T1(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 2:
		matMulQ8AVX2T2(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 3:
		matMulQ8AVX2T3(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 4:
		matMulQ8AVX2T4(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}

func matMulQ4VNNI(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	switch tokens {
	case 1:
		matMulQ4VNNIT1(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 2:
		matMulQ4VNNIT2(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 3:
		matMulQ4VNNIT3(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 4:
		matMulQ4VNNIT4(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}

func matMulQ8VNNI(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	switch tokens {
	case 1:
		matMulQ8VNNIT1(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 2:
		matMulQ8VNNIT2(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 3:
		matMulQ8VNNIT3(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	case 4:
		matMulQ8VNNIT4(&out[0], &w[0], &x[0], &meta[0], ldo, groups, blocks)
	}
}
