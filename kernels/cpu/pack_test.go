package cpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// format is one GGUF block format with its packed form, read by the format's own
// definition (ggml-common.h, block_q4_0, block_q4_1 and block_q8_0).
type format struct {
	name     string
	srcBlock int
	pack     func(dst, src []byte, rows, k int) error
	packed   func(rows, k int) int
	matMul   func(o *Ops, out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, k int)
	// weight is column i of one source block.
	weight func(block []byte, i int) float64
}

var formats = []format{
	{"Q4_0", 18, PackQ4_0, PackedQ4Bytes, (*Ops).MatMulQ4, func(b []byte, i int) float64 {
		return halfAt(b) * (nibble(b[2:], i) - 8)
	}},
	{"Q4_1", 20, PackQ4_1, PackedQ4Bytes, (*Ops).MatMulQ4, func(b []byte, i int) float64 {
		return halfAt(b)*nibble(b[4:], i) + halfAt(b[2:])
	}},
	{"Q8_0", 34, PackQ8_0, PackedQ8Bytes, (*Ops).MatMulQ8, func(b []byte, i int) float64 {
		return halfAt(b) * float64(int8(b[2+i]))
	}},
}

func halfAt(b []byte) float64 { return halfValue(binary.LittleEndian.Uint16(b)) }

func nibble(b []byte, i int) float64 {
	if i < 16 {
		return float64(b[i] & 15)
	}
	return float64(b[i-16] >> 4)
}

// source makes rows of blocks with any quants, -128 among them, and scales of a model's
// size.
func (f format) source(r *rand.Rand, rows, k int) []byte {
	src := make([]byte, rows*k/32*f.srcBlock)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for b := 0; b < len(src); b += f.srcBlock {
		binary.LittleEndian.PutUint16(src[b:], F16FromF32(float32(r.NormFloat64()*0.01)))
		if f.name == "Q4_1" {
			binary.LittleEndian.PutUint16(src[b+2:], F16FromF32(float32(r.NormFloat64()*0.1)))
		}
	}
	return src
}

func (f format) row(src []byte, row, k int) []float64 {
	w := make([]float64, k)
	for i := range w {
		w[i] = f.weight(src[(row*k+i)/32*f.srcBlock:][:f.srcBlock], i%32)
	}
	return w
}

// unpack reads one weight from the packed form by the layout in the package's
// documentation.
func (f format) unpack(packed []byte, row, i, k int) float64 {
	if f.name == "Q8_0" {
		block := packed[(row/16*(k/32)+i/32)*544:][:544]
		return halfAt(block[512+row%16*2:]) * float64(int8(block[i%32/4*64+row%16*4+i%4]))
	}
	block := packed[(row/16*(k/32)+i/32)*320:][:320]
	q := block[i%32/8*64+row%16*4+i%4]
	if i%8 >= 4 {
		q >>= 4
	}
	return halfAt(block[256+row%16*2:])*float64(q&15) + halfAt(block[288+row%16*2:])
}

func TestPack(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			r := random()
			for _, shape := range [][2]int{{1, 32}, {15, 64}, {16, 32}, {17, 96}, {33, 160}, {0, 32}, {3, 0}} {
				rows, k := shape[0], shape[1]
				src := f.source(r, rows, k)
				dst := bytes.Repeat([]byte{0xa5}, f.packed(rows, k)+1)
				if err := f.pack(dst[:len(dst)-1], src, rows, k); err != nil {
					t.Fatal(err)
				}
				if dst[len(dst)-1] != 0xa5 {
					t.Fatalf("%d × %d: wrote beyond the end", rows, k)
				}
				for row := range Groups(rows) * 16 {
					want := make([]float64, k)
					if row < rows {
						want = f.row(src, row, k)
					}
					for i := range k {
						if got := f.unpack(dst, row, i, k); got != want[i] {
							t.Fatalf("%d × %d: row %d, column %d: got %g, want %g", rows, k, row, i, got, want[i])
						}
					}
				}
			}
		})
	}
}

func TestPackRefuses(t *testing.T) {
	block := func(n int, halves ...uint16) []byte {
		b := make([]byte, n)
		for i, h := range halves {
			binary.LittleEndian.PutUint16(b[2*i:], h)
		}
		return b
	}
	dst := make([]byte, 544)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"short source", PackQ4_0(dst, make([]byte, 17), 1, 32), "source of 17 bytes holds 0 rows"},
		{"short destination", PackQ8_0(dst[:543], make([]byte, 34), 1, 32), "destination of 543 bytes holds 0 groups"},
		{"odd columns", PackQ8_0(dst, make([]byte, 34), 1, 33), "multiple of 32"},
		{"negative", PackQ4_1(dst, nil, -1, 32), "-1 rows"},
		{"huge", PackQ4_1(dst, make([]byte, 20), math.MaxInt, 32), "holds 1 rows"},
		{"huge columns", PackQ4_1(dst, make([]byte, 20), 1, math.MaxInt-31), "holds 0 rows"},
		{"Q4_0 scale too large", PackQ4_0(dst, block(18, F16FromF32(8192)), 1, 32), "row 0, block 0: scale 8192"},
		{"Q4_0 infinite scale", PackQ4_0(dst, block(18, 0x7c00), 1, 32), "scale +Inf"},
		{"Q4_1 infinite minimum", PackQ4_1(dst, block(20, 0x3c00, 0xfc00), 1, 32), "minimum -Inf"},
		{"Q8_0 NaN scale", PackQ8_0(dst, block(34, 0x7e00), 1, 32), "scale NaN"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, c.err, c.want)
		}
	}
	if err := PackQ4_0(dst, block(18, F16FromF32(8188)), 1, 32); err != nil {
		t.Errorf("largest scale of Q4_0: %v", err)
	}
}

// FuzzPack gives any bytes and counts to the packers: they refuse, or the packed form has
// the source's weights.
func FuzzPack(f *testing.F) {
	f.Add(uint8(0), []byte("\x00\x3c0123456789abcdef"), 1, 32)
	f.Add(uint8(1), make([]byte, 20*34), 17, 64)
	f.Add(uint8(2), bytes.Repeat([]byte{0x80}, 34*2), 2, 32)
	f.Add(uint8(2), []byte{}, 1<<62, 1<<62)
	f.Fuzz(func(t *testing.T, kind uint8, src []byte, rows, k int) {
		f := formats[int(kind)%len(formats)]
		dst := make([]byte, 1<<16)
		if err := f.pack(dst, src, rows, k); err != nil || k == 0 {
			return
		}
		for row := range rows {
			for i, want := range f.row(src, row, k) {
				if got := f.unpack(dst, row, i, k); got != want {
					t.Fatalf("%s %d × %d: row %d, column %d: got %g, want %g", f.name, rows, k, row, i, got, want)
				}
			}
		}
	})
}
