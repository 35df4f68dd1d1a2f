package cpu

import (
	"math"
	"testing"
)

func TestQuantize(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for blocks := range 7 {
			for _, size := range []float32{1, 1e-20, 0x1p-99, 1e30, math.MaxFloat32 / 10} {
				n := 32 * blocks
				x := odd(normals(r, n))
				for i := range x {
					x[i] *= size
				}
				q, meta := make([]int8, n+1), make([]Meta, blocks)
				q[n] = 77
				o.Quantize(q, meta, x)
				if q[n] != 77 {
					t.Fatal("wrote beyond the end")
				}
				checkTwin(t, q[:n], meta, x)
				for b, m := range meta {
					sum, largest := int32(0), 0.0
					for _, v := range x[32*b:][:32] {
						largest = max(largest, math.Abs(float64(v)))
					}
					for i, v := range x[32*b:][:32] {
						got := q[32*b+i]
						sum += int32(got)
						// Half a step, and a little for the rounded reciprocal.
						if e := math.Abs(float64(m.D)*float64(got) - float64(v)); e > 0.50002*float64(m.D) {
							t.Fatalf("%g in a block with maximum %g: got %d · %g", v, largest, got, m.D)
						}
					}
					if math.Abs(float64(m.D)*127-largest) > 1e-6*largest {
						t.Fatalf("scale %g for maximum %g", m.D, largest)
					}
					var pairs [2][2]int16
					var halves [2]int32
					for i, v := range q[32*b:][:32] {
						pairs[i/16][i%4/2] -= 16 * int16(v)
						halves[i/16] -= 32 * int32(v)
					}
					if m.Pairs != pairs || m.Halves != halves {
						t.Fatalf("got pairs %d and halves %d, want %d and %d", m.Pairs, m.Halves, pairs, halves)
					}
					if m.Bias != -128*sum || m.DSum != m.D*float32(sum) {
						t.Fatalf("got %+v, want sum %d", m, sum)
					}
				}
			}
		}
	})
}

func checkTwin(t *testing.T, q []int8, meta []Meta, x []float32) {
	t.Helper()
	twinQ, twinMeta := make([]int8, len(q)), make([]Meta, len(meta))
	quantizeGeneric(twinQ, twinMeta, x)
	for i := range q {
		if q[i] != twinQ[i] {
			t.Fatalf("element %d, %g: got %d, want %d", i, x[i], q[i], twinQ[i])
		}
		if q[i] == -128 {
			t.Fatalf("element %d is -128, which the kernels exclude", i)
		}
	}
	for b, m := range meta {
		w := twinMeta[b]
		if err := sameBits([]float32{m.D, m.DSum}, []float32{w.D, w.DSum}); err != nil || m.Bias != w.Bias || m.Pairs != w.Pairs || m.Halves != w.Halves {
			t.Fatalf("block %d: got %+v, want %+v", b, m, w)
		}
	}
}

func TestQuantizeSpecials(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		quantizeOne := func(at int, v float32) ([]int8, Meta) {
			x := make([]float32, 32)
			x[at] = v
			q, meta := make([]int8, 32), make([]Meta, 1)
			o.Quantize(q, meta, x)
			checkTwin(t, q, meta, x)
			return q, meta[0]
		}
		for at := range 32 {
			for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				if q, m := quantizeOne(at, v); m.D == m.D || m.DSum == m.DSum || q[at] != 0 {
					t.Errorf("%g: got %+v and %d, want a NaN scale", v, m, q[at])
				}
			}
			for _, v := range []float32{0, 0x1p-149, -0x1p-101} {
				if _, m := quantizeOne(at, v); m != (Meta{}) {
					t.Errorf("%g: got %+v, want zero", v, m)
				}
			}
			for _, v := range []float32{math.MaxFloat32, -math.MaxFloat32, 0x1p-100, 3} {
				q, m := quantizeOne(at, v)
				if want := int8(math.Copysign(127, float64(v))); q[at] != want || m.D != float32(math.Abs(float64(v)))/127 {
					t.Errorf("%g: got %d · %g", v, q[at], m.D)
				}
			}
		}
		// Ties go to even: 127 is the largest, so the factor is 1.
		x := make([]float32, 32)
		copy(x, []float32{127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5})
		q, meta := make([]int8, 32), make([]Meta, 1)
		o.Quantize(q, meta, x)
		for i, want := range []int8{127, 0, 2, 2, 0, -2, -2} {
			if q[i] != want {
				t.Errorf("%g: got %d, want %d", x[i], q[i], want)
			}
		}
		r := random()
		for range 200 {
			x := withSpecials(r, 64)
			q, meta := make([]int8, 64), make([]Meta, 2)
			o.Quantize(q, meta, x)
			checkTwin(t, q, meta, x)
		}
	})
}
