//go:build !noasm

package cpu

// runElements bounds the keys of one assembly call, and with them its time to some tens
// of microseconds.
const runElements = 1 << 16

// accumElements bounds the values of one call of AVX2: each tile of dimensions passes over
// them, the second from the first level cache.
const accumElements = 1 << 11

// cacheLine is what one instruction fetches.
const cacheLine = 64

// keys512 is what the keys of an AVX-512 call of scores are a multiple of.
const keys512 = 4

// The functions for 1, 2, … query heads that share one pass over keys or values.
type (
	scoresFunc  func(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int)
	accumFunc   func(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int)
	accumQ8Func func(dst []float32, p []float32, ldp int, v []int8, scales []uint16, lds, heads, n, dim int, next []byte)
	scoresTile  func(dst, q *float32, k *uint16, ldd, n, dim int)
	accumTile   func(dst, p *float32, v *uint16, ldp, n, dim int)
	accumQ8Tile func(dst, p *float32, v *int8, scales *uint16, ldp, lds, n, dim int, next *byte, step int)
)

// passHeads is how many of the heads that are left join the next pass, of at most most:
// as few passes as there can be, of almost equal size.
func passHeads(left, most int) int {
	passes := (left + most - 1) / most
	return (left + passes - 1) / passes
}

func scoresVectors(tiles []scoresTile) scoresFunc {
	return func(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
		step := max(keys512, runElements/dim&^(keys512-1))
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h, num := 0, 0; h < heads; h += num {
				num = passHeads(heads-h, len(tiles))
				tiles[num-1](&dst[h*ldd+j], &q[h*dim], &k[j*dim], ldd, run, dim)
			}
		}
	}
}

// scoresWide does all keys but the last few, which are left to another level.
func scoresWide(tiles []scoresTile, rest scoresFunc) scoresFunc {
	wide := scoresVectors(tiles)
	return func(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
		whole := n &^ (keys512 - 1)
		if whole > 0 {
			wide(dst, ldd, q, k, heads, whole, dim)
		}
		if whole < n {
			rest(dst[whole:], ldd, q, k[whole*dim:], heads, n-whole, dim)
		}
	}
}

func accumVectors(tiles []accumTile, elements int) accumFunc {
	return func(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
		step := max(16, elements/dim)
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			for h, num := 0, 0; h < heads; h += num {
				num = passHeads(heads-h, len(tiles))
				tiles[num-1](&dst[h*dim], &p[h*ldp+j], &v[j*dim], ldp, run, dim)
			}
		}
	}
}

// accumWide leaves heads of odd size to another level.
func accumWide(wide, other accumFunc) accumFunc {
	return func(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
		if dim%16 != 0 {
			other(dst, p, ldp, v, heads, n, dim)
			return
		}
		wide(dst, p, ldp, v, heads, n, dim)
	}
}

func accumQ8Vectors(tiles []accumQ8Tile, elements int) accumQ8Func {
	return func(dst []float32, p []float32, ldp int, v []int8, scales []uint16, lds, heads, n, dim int, next []byte) {
		step := max(16, elements/dim&^15)
		for j := 0; j < n; j += step {
			run := min(step, n-j)
			var line *byte
			lineStep := 0
			if len(next) >= n*dim { // what is shorter is left to those who read it
				line, lineStep = &next[j*dim], cacheLine
			}
			for h, num := 0, 0; h < heads; h += num {
				num = passHeads(heads-h, len(tiles))
				tiles[num-1](&dst[h*dim], &p[h*ldp+j], &v[j*dim], &scales[j], ldp, lds, run, dim, line, lineStep)
			}
		}
	}
}

var (
	scoresF16AVX2 = scoresVectors([]scoresTile{scoresF16AVX2H1, scoresF16AVX2H2, scoresF16AVX2H3, scoresF16AVX2H4})
	accumF16AVX2  = accumVectors([]accumTile{accumF16AVX2H1, accumF16AVX2H2, accumF16AVX2H3, accumF16AVX2H4}, accumElements)
	accumQ8AVX2   = accumQ8Vectors([]accumQ8Tile{accumQ8AVX2H1, accumQ8AVX2H2, accumQ8AVX2H3}, accumElements)

	scoresF16AVX512 = scoresPanels(
		scoresWide([]scoresTile{scoresF16AVX512H1, scoresF16AVX512H2, scoresF16AVX512H3, scoresF16AVX512H4, scoresF16AVX512H5, scoresF16AVX512H6}, scoresF16AVX2))
	accumF16AVX512 = accumWide(accumVectors([]accumTile{accumF16AVX512H1, accumF16AVX512H2, accumF16AVX512H3, accumF16AVX512H4, accumF16AVX512H5, accumF16AVX512H6},
		runElements), accumF16AVX2)
	accumQ8AVX512 = accumQ8Vectors([]accumQ8Tile{accumQ8AVX512H1, accumQ8AVX512H2, accumQ8AVX512H3, accumQ8AVX512H4, accumQ8AVX512H5, accumQ8AVX512H6}, runElements)
)
