//go:build !noasm

package cpu

// runElements bounds the keys or values of one assembly call, and with them its time to
// some tens of microseconds.
const runElements = 1 << 16

// tileHeads is the number of query heads that share one pass over keys or values.
const tileHeads = 4

func scoresVectors(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	step := max(1, runElements/dim)
	for j := 0; j < n; j += step {
		run := min(step, n-j)
		k := &k[j*dim]
		for h := 0; h < heads; h += tileHeads {
			dst, q := &dst[h*ldd+j], &q[h*dim]
			switch heads - h {
			case 1:
				scoresAVX2H1(dst, q, k, ldd, run, dim)
			case 2:
				scoresAVX2H2(dst, q, k, ldd, run, dim)
			case 3:
				scoresAVX2H3(dst, q, k, ldd, run, dim)
			default:
				scoresAVX2H4(dst, q, k, ldd, run, dim)
			}
		}
	}
}

func accumVectors(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	step := max(1, runElements/dim)
	for j := 0; j < n; j += step {
		run := min(step, n-j)
		v := &v[j*dim]
		for h := 0; h < heads; h += tileHeads {
			dst, p := &dst[h*dim], &p[h*ldp+j]
			switch heads - h {
			case 1:
				accumAVX2H1(dst, p, v, ldp, run, dim)
			case 2:
				accumAVX2H2(dst, p, v, ldp, run, dim)
			case 3:
				accumAVX2H3(dst, p, v, ldp, run, dim)
			default:
				accumAVX2H4(dst, p, v, ldp, run, dim)
			}
		}
	}
}
