package cpu

import "math"

// Meta describes 32 consecutive int8 activations.
type Meta struct {
	// D is the scale: an activation is D·q. NaN if the block held a NaN or an infinity.
	D float32
	// DSum is D·Σq, the factor of a weight block's minimum.
	DSum float32
	// Bias is -128·Σq, where sums of unsigned (q+128) 8-bit weights start.
	Bias int32
	// Pairs holds -16·Σq for each half of the columns, apart for the first two and the
	// last two of every four: where 16-bit sums of unsigned 5- and 6-bit codes start.
	Pairs [2][2]int16
	// Halves holds -32·Σq for each half of the columns: where 32-bit sums of unsigned 6-bit
	// codes start.
	Halves [2]int32
}

// minQuantized is the smallest largest magnitude of a block that is kept. Below
// it the reciprocal of the scale would overflow; such a block becomes zero.
const minQuantized = 0x1p-100

// Quantize turns rows of activations into int8 with one Meta for each 32 of them.
// len(x) is a multiple of 32; whole matrices [tokens, k] may be given.
func (o *Ops) Quantize(q []int8, meta []Meta, x []float32) {
	if len(x)%BlockColumns != 0 {
		panic("cpu: quantize a row that is no multiple of 32")
	}
	for from, to := range stretches(len(x)) {
		o.quantize(q[from:to], meta[from/BlockColumns:to/BlockColumns], x[from:to])
	}
}

// quantizeGeneric turns x into int8, block by block: D = max|x| / 127, and q is x
// · (127 / max|x|) rounded to the nearest, ties to even. So q stays within ±127;
// the kernels rely on -128 never occurring here.
func quantizeGeneric(q []int8, meta []Meta, x []float32) {
	for b := range meta {
		q, x := q[b*BlockColumns:][:BlockColumns], x[b*BlockColumns:][:BlockColumns]
		var bits uint32 // of the largest magnitude; NaN is above infinity in this order
		for _, v := range x {
			bits = max(bits, math.Float32bits(v)&^(1<<31))
		}
		largest := math.Float32frombits(bits)
		if bits >= 0x7f800000 || largest < minQuantized {
			clear(q)
			meta[b] = Meta{}
			if bits >= 0x7f800000 {
				nan := math.Float32frombits(0x7fc00000)
				meta[b] = Meta{D: nan, DSum: nan}
			}
			continue
		}
		inverse := 127 / largest
		var sum int32
		var pairs [2][2]int16
		var halves [2]int32
		for i, v := range x {
			n := int32(math.RoundToEven(float64(v * inverse)))
			q[i] = int8(n)
			sum += n
			pairs[i/16][i/2%2] -= 16 * int16(n)
			halves[i/16] -= 32 * n
		}
		d := largest / 127
		meta[b] = Meta{D: d, DSum: d * float32(sum), Bias: -128 * sum, Pairs: pairs, Halves: halves}
	}
}
