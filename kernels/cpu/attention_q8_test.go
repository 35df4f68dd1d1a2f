package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// quantizedHeads makes rows of n keys or values, and reads them: codes, then scales.
func quantizedHeads(r *rand.Rand, n, dim int) (rows []byte, value func(j, i int) float64) {
	size := dim + dim/16
	rows = make([]byte, n*size)
	q, meta := make([]int8, dim), make([]Meta, dim/32)
	for j := range n {
		generic().Quantize(q, meta, normals(r, dim))
		QuantizeHead(rows[j*size:], q, meta)
	}
	return rows, func(j, i int) float64 {
		row := rows[j*size:][:size]
		return float64(int8(row[i])) * halfValue(binary.LittleEndian.Uint16(row[dim+i/32*2:]))
	}
}

var q8HeadDims = []int{32, 64, 96, 128, 256}

func TestQuantizeHead(t *testing.T) {
	r := random()
	x := normals(r, 64)
	q, meta := make([]int8, 64), make([]Meta, 2)
	generic().Quantize(q, meta, x)
	row := make([]byte, 69)
	row[68] = 0xa5
	QuantizeHead(row, q, meta)
	if row[68] != 0xa5 || Q8HeadBytes(64) != 68 {
		t.Fatalf("a head of 64 values takes %d bytes, and the next is %#x", Q8HeadBytes(64), row[68])
	}
	for i, v := range x {
		largest := 0.0
		for _, v := range x[i/32*32:][:32] {
			largest = max(largest, math.Abs(float64(v)))
		}
		got := float64(int8(row[i])) * halfValue(binary.LittleEndian.Uint16(row[64+i/32*2:]))
		// Half a step of 1/127 of the largest, and the rounding of the scale.
		if math.Abs(got-float64(v)) > largest*(0.5/127+0x1p-11) {
			t.Errorf("value %d: got %g, want %g of at most %g", i, got, v, largest)
		}
	}
}

func TestScoresQ8(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, dim := range q8HeadDims {
			for _, heads := range []int{0, 1, 2, 3, 4, 5, 7} {
				for _, n := range []int{0, 1, 3, 4, 5, 8, 19} {
					q, ldd := odd(normals(r, heads*dim)), n+2
					k, key := quantizedHeads(r, n, dim)
					got, want := odd(make([]float32, heads*ldd)), make([]float32, heads*ldd)
					o.ScoresQ8(got, ldd, q, k, heads, n, dim)
					scoresQ8Generic(want, ldd, q, k, heads, n, dim)
					if err := sameBits(got, want); err != nil {
						t.Fatalf("dim %d, %d heads, %d positions: %v", dim, heads, n, err)
					}
					intact(t, got)
					for h := range heads {
						for j := range n {
							exact, size := 0.0, 0.0
							for i := range dim {
								p := float64(q[h*dim+i]) * key(j, i)
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

func TestAccumQ8(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, dim := range q8HeadDims {
			for _, heads := range []int{0, 1, 2, 3, 4, 5, 7} {
				for _, n := range []int{0, 1, 3, 70} {
					ldp := n + 3
					p, start := odd(normals(r, heads*ldp)), normals(r, heads*dim)
					v, value := quantizedHeads(r, n, dim)
					got, want := odd(start), append([]float32(nil), start...)
					o.AccumQ8(got, p, ldp, v, heads, n, dim)
					for from := 0; from < n && heads > 0; from += 7 { // a run may be cut anywhere
						run := min(7, n-from)
						accumQ8Generic(want, p[from:], ldp, v[from*Q8HeadBytes(dim):], heads, run, dim)
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

// A value that is not finite is seen in what its position joins.
func TestQuantizedHeadKeepsNaN(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		x := make([]float32, 32)
		x[3] = float32(math.Inf(1))
		q, meta, row := make([]int8, 32), make([]Meta, 1), make([]byte, Q8HeadBytes(32))
		o.Quantize(q, meta, x)
		QuantizeHead(row, q, meta)
		score, out := make([]float32, 1), make([]float32, 32)
		o.ScoresQ8(score, 1, normals(random(), 32), row, 1, 1, 32)
		o.AccumQ8(out, []float32{1}, 1, row, 1, 1, 32)
		if score[0] == score[0] || out[0] == out[0] {
			t.Errorf("score %g and output %g, want NaN", score[0], out[0])
		}
	})
}
