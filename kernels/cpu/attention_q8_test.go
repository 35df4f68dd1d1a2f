package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// quantizedValues makes values of 8 bits, [n, dim], with scales [dim/32, lds], and reads
// them. Scales beyond the n positions are NaN.
func quantizedValues(r *rand.Rand, n, dim, lds int) (codes []int8, scales []uint16, value func(j, i int) float64) {
	codes, scales = make([]int8, n*dim), make([]uint16, dim/32*lds)
	for i := range scales {
		scales[i] = 0x7e00
	}
	meta := make([]Meta, dim/32)
	for j := range n {
		generic().Quantize(codes[j*dim:][:dim], meta, normals(r, dim))
		for b, m := range meta {
			scales[b*lds+j] = F16FromF32(m.D)
		}
	}
	return codes, scales, func(j, i int) float64 { return float64(codes[j*dim+i]) * halfValue(scales[i/32*lds+j]) }
}

var q8HeadDims = []int{32, 64, 96, 128, 160, 256}

func TestAccumQ8(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, dim := range q8HeadDims {
			for _, heads := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
				for i, n := range []int{0, 1, 3, 15, 16, 17, 70} {
					next := [][]byte{nil, make([]byte, n*dim), make([]byte, 5)}[i%3] // changes no result
					ldp, lds := n+3, n+5
					p, start := odd(normals(r, heads*ldp)), normals(r, heads*dim)
					v, scales, value := quantizedValues(r, n, dim, lds)
					got, want := odd(start), append([]float32(nil), start...)
					o.AccumQ8(got, p, ldp, v, scales, lds, heads, n, dim, next)
					for from := 0; from < n && heads > 0; from += 7 { // a run may be cut anywhere
						run := min(7, n-from)
						accumQ8Generic(want, p[from:], ldp, v[from*dim:], scales[from:], lds, heads, run, dim, nil)
					}
					if err := sameBits(got, want); err != nil {
						t.Fatalf("dim %d, %d heads, %d positions: %v", dim, heads, n, err)
					}
					intact(t, got)
					for h := range heads {
						for i := range dim {
							exact := float64(start[h*dim+i])
							size := math.Abs(exact)
							for j := range n {
								x := float64(p[h*ldp+j]) * value(j, i)
								exact, size = exact+x, size+math.Abs(x)
							}
							if math.Abs(float64(got[h*dim+i])-exact) > size*float64(n+1)*0x1p-23 {
								t.Fatalf("dim %d, head %d, element %d: got %g, want %g", dim, h, i, got[h*dim+i], exact)
							}
						}
					}
				}
			}
		}
	})
}

// TestAccumQ8OfLongRuns takes runs that are cut into several assembly calls.
func TestAccumQ8OfLongRuns(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		const heads = 2
		r := random()
		for _, dim := range []int{96, 256} {
			n := 1<<16/dim + 21
			p, start := normals(r, heads*n), normals(r, heads*dim)
			v, scales, _ := quantizedValues(r, n, dim, n)
			got, want := odd(start), append([]float32(nil), start...)
			o.AccumQ8(got, p, n, v, scales, n, heads, n, dim, nil)
			accumQ8Generic(want, p, n, v, scales, n, heads, n, dim, nil)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("dim %d: %v", dim, err)
			}
			intact(t, got)
		}
	})
}

// A key or value that is not finite is seen in what its position joins.
func TestQuantizedHeadKeepsNaN(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		x := make([]float32, 32)
		x[3] = float32(math.Inf(1))
		q, meta, group := make([]int8, 32), make([]Meta, 1), make([]byte, FormQ8_0.Bytes(16, 32))
		o.Quantize(q, meta, x)
		PlaceQ8_0(group, 5, q, meta)
		query, queryMeta := make([]int8, 32), make([]Meta, 1)
		o.Quantize(query, queryMeta, normals(random(), 32))
		scores, out := make([]float32, 16), make([]float32, 32)
		o.MatMul(FormQ8_0, scores, 16, group, 1, query, queryMeta, 1, 32)
		o.AccumQ8(out, []float32{1}, 1, q, []uint16{F16FromF32(meta[0].D)}, 1, 1, 1, 32, nil)
		if scores[5] == scores[5] || out[0] == out[0] {
			t.Errorf("score %g and output %g, want NaN", scores[5], out[0])
		}
		for r, s := range scores {
			if r != 5 && s != 0 {
				t.Errorf("the score of row %d is %g beside a row that is not finite, want 0", r, s)
			}
		}
	})
}
