//go:build cuda && cgo && linux

package suite

import (
	"encoding/binary"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// matrix is a weight with what it is worth.
type matrix struct {
	cuda.Matrix
	values []float64 // [rows, cols], exact
}

// row is the values of a row.
func (m *matrix) row(r int) []float64 { return m.values[r*m.Cols : (r+1)*m.Cols] }

// newMatrix makes a matrix of random blocks, whose values are about as large as size.
func newMatrix(b *Bench, f cuda.Format, rows, cols int, size float64) *matrix {
	layout, err := cuda.NewLayout(f, rows, cols)
	b.Do(err)
	if err != nil {
		return &matrix{}
	}
	blocks := make([]byte, rows*layout.SourceRowBytes())
	for i := range blocks {
		blocks[i] = byte(b.Rand.Uint32())
	}
	g := ggml[f]
	m := &matrix{Matrix: cuda.Matrix{Layout: layout}}
	block := make([]float64, g.elements)
	for at := blocks; len(at) > 0; at = at[g.bytes:] {
		g.randomize(b, at, size)
		g.values(at, block)
		m.values = append(m.values, block...)
	}
	planes := layout.Carve(make([]byte, layout.StageBytes(rows)), rows)
	b.Do(layout.Pack(planes, blocks, rows))
	m.Data = placePlanes(b, layout, planes)
	return m
}

// placePlanes puts packed planes where the layout wants them.
func placePlanes(b *Bench, l cuda.Layout, planes cuda.Planes) driver.Ptr {
	data := make([]byte, l.Bytes())
	for i, plane := range planes {
		copy(data[l.Offset(i):], plane)
	}
	return b.Bytes(data)
}

// blockType is a type of blocks by its definition, ggml/src/ggml-quants.c,
// dequantize_row_*: this is the truth that packers and kernels are compared with, and
// shares nothing with them.
type blockType struct {
	elements, bytes int
	scale, minimum  int     // where halves are, -1 for none
	spread          float64 // of the integers that the scale multiplies
	values          func(block []byte, out []float64)
}

var ggml = map[cuda.Format]blockType{
	cuda.F32: {1, 4, -1, -1, 1, func(b []byte, out []float64) { out[0] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	cuda.F16: {1, 2, 0, -1, 1, func(b []byte, out []float64) { out[0] = halfAt(b, 0) }},
	cuda.BF16: {1, 2, -1, -1, 1, func(b []byte, out []float64) {
		out[0] = float64(math.Float32frombits(uint32(b[0])<<16 | uint32(b[1])<<24))
	}},
	cuda.Q8_0: {32, 34, 0, -1, 64, func(b []byte, out []float64) {
		for i := range 32 {
			out[i] = halfAt(b, 0) * float64(int8(b[2+i]))
		}
	}},
	cuda.Q4_0: {32, 18, 0, -1, 4, func(b []byte, out []float64) {
		for i := range 32 {
			out[i] = halfAt(b, 0) * float64(fourBits(b[2:], i)-8)
		}
	}},
	cuda.Q4_1: {32, 20, 0, 2, 4, func(b []byte, out []float64) {
		for i := range 32 {
			out[i] = halfAt(b, 0)*float64(fourBits(b[4:], i)) + halfAt(b, 2)
		}
	}},
	cuda.Q5_0: {32, 22, 0, -1, 8, func(b []byte, out []float64) {
		for i := range 32 {
			fifth := int(binary.LittleEndian.Uint32(b[2:])>>i) & 1
			out[i] = halfAt(b, 0) * float64(fourBits(b[6:], i)+16*fifth-16)
		}
	}},
	cuda.Q5_1: {32, 24, 0, 2, 8, func(b []byte, out []float64) {
		for i := range 32 {
			fifth := int(binary.LittleEndian.Uint32(b[4:])>>i) & 1
			out[i] = halfAt(b, 0)*float64(fourBits(b[8:], i)+16*fifth) + halfAt(b, 2)
		}
	}},
	cuda.Q4_K: {256, 144, 0, 2, 4 * 32, func(b []byte, out []float64) {
		for i := range 256 {
			scale, minimum := scaleMinimum(b[4:], i/32)
			code := int(b[16+i/64*32+i%32]) >> (i / 32 % 2 * 4) & 15
			out[i] = halfAt(b, 0)*scale*float64(code) - halfAt(b, 2)*minimum
		}
	}},
	cuda.Q5_K: {256, 176, 0, 2, 8 * 32, func(b []byte, out []float64) {
		for i := range 256 {
			scale, minimum := scaleMinimum(b[4:], i/32)
			code := int(b[48+i/64*32+i%32])>>(i/32%2*4)&15 + int(b[16+i%32])>>(i/32)&1*16
			out[i] = halfAt(b, 0)*scale*float64(code) - halfAt(b, 2)*minimum
		}
	}},
	cuda.Q6_K: {256, 210, 208, -1, 16 * 64, func(b []byte, out []float64) {
		for i := range 256 {
			half, run, c := i/128, i/32%4, i%32
			low := int(b[64*half+32*(run%2)+c]) >> (run / 2 * 4) & 15
			high := int(b[128+32*half+c]) >> (2 * run) & 3
			out[i] = halfAt(b, 208) * float64(int8(b[192+i/16])) * float64(low+16*high-32)
		}
	}},
}

// fourBits is element i of 32 in 16 bytes: the first 16 are in the low halves.
func fourBits(codes []byte, i int) int { return int(codes[i%16]) >> (i / 16 * 4) & 15 }

// scaleMinimum is get_scale_min_k4.
func scaleMinimum(q []byte, j int) (scale, minimum float64) {
	if j < 4 {
		return float64(q[j] & 63), float64(q[j+4] & 63)
	}
	return float64(q[j+4]&15 | q[j-4]>>6<<4), float64(q[j+4]>>4 | q[j]>>6<<4)
}

// halfAt is the binary16 number at a byte, IEEE 754-2019 section 3.4.
func halfAt(b []byte, at int) float64 {
	bits := binary.LittleEndian.Uint16(b[at:])
	exponent, fraction := int(bits>>10&31), float64(bits&0x3ff)/1024
	value := math.Ldexp(1+fraction, exponent-15)
	if exponent == 0 {
		value = math.Ldexp(fraction, -14)
	}
	if bits>>15 == 1 {
		return -value
	}
	return value
}

// putHalf writes a positive or negative number as binary16, its digits cut off; what is
// too small becomes a subnormal number.
func putHalf(b []byte, x float64) {
	var sign uint16
	if x < 0 {
		sign, x = 0x8000, -x
	}
	fraction, exponent := math.Frexp(x) // x = fraction·2^exponent, fraction in [0.5, 1)
	var bits uint16
	if exponent < -13 {
		bits = uint16(math.Ldexp(x, 24))
	} else {
		bits = uint16(exponent+14)<<10 | uint16(fraction*2048)&0x3ff
	}
	binary.LittleEndian.PutUint16(b, sign|bits)
}

// randomize gives a block of random bits scales with which its values are around zero
// and about as large as size.
func (g blockType) randomize(b *Bench, block []byte, size float64) {
	x := size * b.Rand.NormFloat64()
	switch {
	case g.elements > 1:
		scale := size / g.spread * (0.5 + b.Rand.Float64())
		putHalf(block[g.scale:], scale)
		if g.minimum >= 0 {
			middle := -g.spread * 2 * scale // the middle of the codes, of 4 or 5 bits
			if g.elements == 256 {
				middle = g.spread / 16 * scale // stored without its sign, times 6 bits
			}
			putHalf(block[g.minimum:], middle)
		}
	case g.bytes == 4:
		binary.LittleEndian.PutUint32(block, math.Float32bits(float32(x)))
	case g.scale == 0:
		putHalf(block, x)
	default: // the high half of a float32
		binary.LittleEndian.PutUint16(block, uint16(math.Float32bits(float32(x))>>16))
	}
}
