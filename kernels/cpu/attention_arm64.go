//go:build !noasm

package cpu

// runElements bounds the keys or values of one assembly call, and with them its
// time to some tens of microseconds.
const runElements = 1 << 14

// The functions for 1, 2, … query heads that share one pass over keys or values.
var (
	scoresF16Heads = []func(dst, q *float32, k *uint16, ldd, n, dim int){scoresF16NEONH1, scoresF16NEONH2, scoresF16NEONH3, scoresF16NEONH4}
	accumF16Heads  = []func(dst, p *float32, v *uint16, ldp, n, dim int){accumF16NEONH1, accumF16NEONH2, accumF16NEONH3, accumF16NEONH4}
)

func scoresF16NEON(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	step := max(1, runElements/dim)
	for j := 0; j < n; j += step {
		run := min(step, n-j)
		for h, num := 0, 0; h < heads; h += num {
			num = min(heads-h, len(scoresF16Heads))
			scoresF16Heads[num-1](&dst[h*ldd+j], &q[h*dim], &k[j*dim], ldd, run, dim)
		}
	}
}

func accumF16NEON(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	step := max(1, runElements/dim)
	for j := 0; j < n; j += step {
		run := min(step, n-j)
		for h, num := 0, 0; h < heads; h += num {
			num = min(heads-h, len(accumF16Heads))
			accumF16Heads[num-1](&dst[h*dim], &p[h*ldp+j], &v[j*dim], ldp, run, dim)
		}
	}
}
