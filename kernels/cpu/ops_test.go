package cpu

import "testing"

// TestNoAllocation: a step of the engine calls these thousands of times.
func TestNoAllocation(t *testing.T) {
	const k, tokens = 96, 3
	r := random()
	x, y := normals(r, tokens*k), normals(r, tokens*k)
	q, meta, h := make([]int8, tokens*k), make([]Meta, tokens*k/32), make([]uint16, tokens*k)
	w4, w8 := make([]byte, FormQ4_1.Bytes(32, k)), make([]byte, FormQ8_0.Bytes(32, k))
	eachLevel(t, func(t *testing.T, o *Ops) {
		n := testing.AllocsPerRun(10, func() {
			o.Quantize(q, meta, x)
			o.MatMul(FormQ4_1, y, 32, w4, 2, q, meta, tokens, k)
			o.MatMul(FormQ8_0, y, 32, w8, 2, q, meta, tokens, k)
			o.MatMulF32(y, 1, x, 1, x, tokens, k)
			o.RMSNorm(y, x, x, 1e-5)
			o.SiLUMul(y, x, x)
			o.F32ToF16(h, x)
			o.ScoresF16(y, 3, x, h, 2, 3, 96)
			o.ExpSum(y, y, o.Max(y))
			o.AccumF16(x, y, 3, h, 2, 3, 96)
			o.RopePairs(x, y[:48], y[:48], 96)
			o.Argmax(x)
		})
		if n != 0 {
			t.Errorf("%g allocations", n)
		}
	})
}
