//go:build !noasm

package cpu

// runElements bounds the keys of one assembly call, and with them its time to some tens
// of microseconds.
const runElements = 1 << 16

// accumElements bounds the values of one call of AVX2: each tile of dimensions passes over
// them, the second from the first level cache.
const accumElements = 1 << 11

// keys512 is what the keys of an AVX-512 call of scores are a multiple of.
const keys512 = 8

// The functions for 1, 2, … query heads that share one pass over keys or values.
type (
	scoresFunc[T any] func(dst []float32, ldd int, q []float32, k []T, heads, n, dim int)
	accumFunc[T any]  func(dst []float32, p []float32, ldp int, v []T, heads, n, dim int)
	scoresTile[T any] func(dst, q *float32, k *T, ldd, n, dim int)
	accumTile[T any]  func(dst, p *float32, v *T, ldp, n, dim int)
)

// passHeads is how many of the heads that are left join the next pass, of at most most:
// as few passes as there can be, of almost equal size.
func passHeads(left, most int) int {
	passes := (left + most - 1) / most
	return (left + passes - 1) / passes
}

func scoresVectors[T any](tiles []scoresTile[T], rowLen func(dim int) int) scoresFunc[T] {
	return func(dst []float32, ldd int, q []float32, k []T, heads, n, dim int) {
		row, step := rowLen(dim), max(keys512, runElements/dim&^(keys512-1))
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h, num := 0, 0; h < heads; h += num {
				num = passHeads(heads-h, len(tiles))
				tiles[num-1](&dst[h*ldd+j], &q[h*dim], &k[j*row], ldd, run, dim)
			}
		}
	}
}

// scoresWide does all keys but the last few, which are left to another level.
func scoresWide[T any](tiles []scoresTile[T], rowLen func(dim int) int, rest scoresFunc[T]) scoresFunc[T] {
	wide := scoresVectors(tiles, rowLen)
	return func(dst []float32, ldd int, q []float32, k []T, heads, n, dim int) {
		whole := n &^ (keys512 - 1)
		if whole > 0 {
			wide(dst, ldd, q, k, heads, whole, dim)
		}
		if whole < n {
			rest(dst[whole:], ldd, q, k[whole*rowLen(dim):], heads, n-whole, dim)
		}
	}
}

func accumVectors[T any](tiles []accumTile[T], rowLen func(dim int) int, elements int) accumFunc[T] {
	return func(dst []float32, p []float32, ldp int, v []T, heads, n, dim int) {
		row, step := rowLen(dim), max(16, elements/dim)
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h, num := 0, 0; h < heads; h += num {
				num = passHeads(heads-h, len(tiles))
				tiles[num-1](&dst[h*dim], &p[h*ldp+j], &v[j*row], ldp, run, dim)
			}
		}
	}
}

// accumWide leaves heads of odd size to another level.
func accumWide[T any](wide, other accumFunc[T]) accumFunc[T] {
	return func(dst []float32, p []float32, ldp int, v []T, heads, n, dim int) {
		if dim%16 != 0 {
			other(dst, p, ldp, v, heads, n, dim)
			return
		}
		wide(dst, p, ldp, v, heads, n, dim)
	}
}

// f16HeadLen is the number of halves of a key or value.
func f16HeadLen(dim int) int { return dim }

var (
	scoresF16AVX2 = scoresVectors([]scoresTile[uint16]{scoresF16AVX2H1, scoresF16AVX2H2, scoresF16AVX2H3, scoresF16AVX2H4}, f16HeadLen)
	accumF16AVX2  = accumVectors([]accumTile[uint16]{accumF16AVX2H1, accumF16AVX2H2, accumF16AVX2H3, accumF16AVX2H4}, f16HeadLen, accumElements)
	scoresQ8AVX2  = scoresVectors([]scoresTile[byte]{scoresQ8AVX2H1, scoresQ8AVX2H2, scoresQ8AVX2H3}, Q8HeadBytes)
	accumQ8AVX2   = accumVectors([]accumTile[byte]{accumQ8AVX2H1, accumQ8AVX2H2, accumQ8AVX2H3}, Q8HeadBytes, accumElements)

	scoresF16AVX512 = scoresWide([]scoresTile[uint16]{scoresF16AVX512H1, scoresF16AVX512H2, scoresF16AVX512H3, scoresF16AVX512H4, scoresF16AVX512H5, scoresF16AVX512H6},
		f16HeadLen, scoresF16AVX2)
	accumF16AVX512 = accumWide(accumVectors([]accumTile[uint16]{accumF16AVX512H1, accumF16AVX512H2, accumF16AVX512H3, accumF16AVX512H4, accumF16AVX512H5, accumF16AVX512H6},
		f16HeadLen, runElements), accumF16AVX2)
	scoresQ8AVX512 = scoresWide([]scoresTile[byte]{scoresQ8AVX512H1, scoresQ8AVX512H2, scoresQ8AVX512H3, scoresQ8AVX512H4, scoresQ8AVX512H5}, Q8HeadBytes, scoresQ8AVX2)
	accumQ8AVX512  = accumVectors([]accumTile[byte]{accumQ8AVX512H1, accumQ8AVX512H2, accumQ8AVX512H3, accumQ8AVX512H4, accumQ8AVX512H5}, Q8HeadBytes, runElements)
)
