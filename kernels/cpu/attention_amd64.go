//go:build !noasm

package cpu

// runElements bounds the keys of one assembly call, and with them its time to some tens
// of microseconds.
const runElements = 1 << 16

// accumElements bounds the values of one call: each tile of dimensions passes over them,
// the second from the first level cache.
const accumElements = 1 << 11

// The functions for 1, 2, … query heads that share one pass over keys or values.
type (
	scoresTile[T any] func(dst, q *float32, k *T, ldd, n, dim int)
	accumTile[T any]  func(dst, p *float32, v *T, ldp, n, dim int)
)

func scoresVectors[T any](tiles []scoresTile[T], rowLen func(dim int) int) func(dst []float32, ldd int, q []float32, k []T, heads, n, dim int) {
	return func(dst []float32, ldd int, q []float32, k []T, heads, n, dim int) {
		row, step := rowLen(dim), max(1, runElements/dim)
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h := 0; h < heads; h += len(tiles) {
				tiles[min(len(tiles), heads-h)-1](&dst[h*ldd+j], &q[h*dim], &k[j*row], ldd, run, dim)
			}
		}
	}
}

func accumVectors[T any](tiles []accumTile[T], rowLen func(dim int) int) func(dst []float32, p []float32, ldp int, v []T, heads, n, dim int) {
	return func(dst []float32, p []float32, ldp int, v []T, heads, n, dim int) {
		row, step := rowLen(dim), max(16, accumElements/dim)
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h := 0; h < heads; h += len(tiles) {
				tiles[min(len(tiles), heads-h)-1](&dst[h*dim], &p[h*ldp+j], &v[j*row], ldp, run, dim)
			}
		}
	}
}

// f16HeadLen is the number of halves of a key or value.
func f16HeadLen(dim int) int { return dim }

var (
	scoresF16Vectors = scoresVectors([]scoresTile[uint16]{scoresF16AVX2H1, scoresF16AVX2H2, scoresF16AVX2H3, scoresF16AVX2H4}, f16HeadLen)
	accumF16Vectors  = accumVectors([]accumTile[uint16]{accumF16AVX2H1, accumF16AVX2H2, accumF16AVX2H3, accumF16AVX2H4}, f16HeadLen)
	scoresQ8Vectors  = scoresVectors([]scoresTile[byte]{scoresQ8AVX2H1, scoresQ8AVX2H2, scoresQ8AVX2H3}, Q8HeadBytes)
	accumQ8Vectors   = accumVectors([]accumTile[byte]{accumQ8AVX2H1, accumQ8AVX2H2, accumQ8AVX2H3}, Q8HeadBytes)
)
