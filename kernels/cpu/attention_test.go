package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func halves(r *rand.Rand, n int) []uint16 {
	h := make([]uint16, n)
	for i := range h {
		h[i] = F16FromF32(float32(r.NormFloat64()))
	}
	return h
}

var headDims = []int{8, 16, 24, 40, 64, 80, 96, 128, 256}

func TestScoresF16(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, dim := range headDims {
			for _, heads := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 24} {
				for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 16, 19, 32, 71} {
					q, k := odd(normals(r, heads*dim)), halves(r, n*dim)
					ldd := n + 2
					got, want := odd(make([]float32, heads*ldd)), make([]float32, heads*ldd)
					o.ScoresF16(got, ldd, q, k, heads, n, dim)
					scoresF16Generic(want, ldd, q, k, heads, n, dim)
					if err := sameBits(got, want); err != nil {
						t.Fatalf("dim %d, %d heads, %d positions: %v", dim, heads, n, err)
					}
					intact(t, got)
					for h := range heads {
						for j := range n {
							exact, size := 0.0, 0.0
							for i := range dim {
								p := float64(q[h*dim+i]) * halfValue(k[j*dim+i])
								exact, size = exact+p, size+math.Abs(p)
							}
							if math.Abs(float64(got[h*ldd+j])-exact) > size*float64(dim/8+3)*0x1p-24 {
								t.Fatalf("dim %d, head %d, position %d: got %g, want %g", dim, h, j, got[h*ldd+j], exact)
							}
						}
					}
				}
			}
		}
	})
}

func TestAccumF16(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, dim := range headDims {
			for heads := range 10 {
				for _, n := range []int{0, 1, 2, 3, 16, 19} {
					ldp := n + 3
					p, v := odd(normals(r, heads*ldp)), halves(r, n*dim)
					start := normals(r, heads*dim)
					got, want := odd(start), append([]float32(nil), start...)
					o.AccumF16(got, p, ldp, v, heads, n, dim)
					accumF16Generic(want, p, ldp, v, heads, n, dim)
					if err := sameBits(got, want); err != nil {
						t.Fatalf("dim %d, %d heads, %d positions: %v", dim, heads, n, err)
					}
					intact(t, got)
					for h := range heads {
						for i := range dim {
							exact := float64(start[h*dim+i])
							size := math.Abs(exact)
							for j := range n {
								x := float64(p[h*ldp+j]) * halfValue(v[j*dim+i])
								exact, size = exact+x, size+math.Abs(x)
							}
							if math.Abs(float64(got[h*dim+i])-exact) > size*float64(n)*0x1p-24 {
								t.Fatalf("dim %d, head %d, element %d: got %g, want %g", dim, h, i, got[h*dim+i], exact)
							}
						}
					}
				}
			}
		}
	})
}

// TestAttentionAlone computes each head and each run of positions alone, and expects the
// bits of the whole.
func TestAttentionAlone(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		const heads, n = 7, 37
		r := random()
		for _, dim := range headDims {
			t.Run(fmt.Sprint("dim ", dim), func(t *testing.T) {
				q, k, v := normals(r, heads*dim), halves(r, n*dim), halves(r, n*dim)
				scores, out := make([]float32, heads*n), make([]float32, heads*dim)
				o.ScoresF16(scores, n, q, k, heads, n, dim)
				o.AccumF16(out, scores, n, v, heads, n, dim)
				for h := range heads {
					alone := make([]float32, n)
					for from := 0; from < n; from += 5 {
						run := min(5, n-from)
						o.ScoresF16(alone[from:], run, q[h*dim:], k[from*dim:], 1, run, dim)
					}
					if err := sameBits(alone, scores[h*n:][:n]); err != nil {
						t.Fatalf("scores of head %d: %v", h, err)
					}
					acc := make([]float32, dim)
					for from := 0; from < n; from += 3 {
						run := min(3, n-from)
						o.AccumF16(acc, alone[from:], run, v[from*dim:], 1, run, dim)
					}
					if err := sameBits(acc, out[h*dim:][:dim]); err != nil {
						t.Fatalf("output of head %d: %v", h, err)
					}
				}
			})
		}
	})
}

// TestAttentionOfLongRuns takes runs that are cut into several assembly calls, one at a
// place that is no multiple of the keys of a tile if nobody takes care.
func TestAttentionOfLongRuns(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		const heads = 2
		r := random()
		for _, dim := range []int{80, 96, 256} {
			n := 1<<16/dim + 21
			q, kv := normals(r, heads*dim), halves(r, n*dim)
			got, want := odd(make([]float32, heads*n)), make([]float32, heads*n)
			o.ScoresF16(got, n, q, kv, heads, n, dim)
			scoresF16Generic(want, n, q, kv, heads, n, dim)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("scores of dim %d: %v", dim, err)
			}
			intact(t, got)
			out, sum := odd(make([]float32, heads*dim)), make([]float32, heads*dim)
			o.AccumF16(out, want, n, kv, heads, n, dim)
			accumF16Generic(sum, want, n, kv, heads, n, dim)
			if err := sameBits(out, sum); err != nil {
				t.Fatalf("output of dim %d: %v", dim, err)
			}
			intact(t, out)
		}
	})
}
