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
// definition (ggml-common.h, block_q4_0 and so on, with the dequantize functions of
// ggml-quants.c).
type format struct {
	name     string
	srcBlock int
	form     Form
	pack     func(dst, src []byte, rows, k int) error
	scaleAt  int // of the f16 scale in a source block
	minAt    int // of the f16 minimum, or of its factor; 0: none
	// weight is column i of one source block.
	weight func(block []byte, i int) float64
}

var formats = []format{
	{"Q4_0", 18, FormQ4_1, PackQ4_0, 0, 0, func(b []byte, i int) float64 {
		return halfAt(b) * (nibble(b[2:], i) - 8)
	}},
	{"Q4_1", 20, FormQ4_1, PackQ4_1, 0, 2, func(b []byte, i int) float64 {
		return halfAt(b)*nibble(b[4:], i) + halfAt(b[2:])
	}},
	{"Q5_0", 22, FormQ5_0, PackQ5_0, 0, 0, func(b []byte, i int) float64 {
		return halfAt(b) * (nibble(b[6:], i) + 16*bit(b[2:], i) - 16)
	}},
	{"Q5_1", 24, FormQ5_1, PackQ5_1, 0, 2, func(b []byte, i int) float64 {
		return halfAt(b)*(nibble(b[8:], i)+16*bit(b[4:], i)) + halfAt(b[2:])
	}},
	{"Q4_K", 144, FormQ4_K, PackQ4_K, 0, 2, func(b []byte, i int) float64 {
		scale, minimum := scaleMin(b[4:], i/32)
		return halfAt(b)*scale*nibbleK(b[16:], i) - halfAt(b[2:])*minimum
	}},
	{"Q5_K", 176, FormQ5_K, PackQ5_K, 0, 2, func(b []byte, i int) float64 {
		scale, minimum := scaleMin(b[4:], i/32)
		fifth := float64(b[16+i%32] >> (i / 32) & 1)
		return halfAt(b)*scale*(nibbleK(b[48:], i)+16*fifth) - halfAt(b[2:])*minimum
	}},
	{"Q6_K", 210, FormQ6_K, PackQ6_K, 208, 0, func(b []byte, i int) float64 {
		// ggml's loop, for one column: l counts the columns of a run of 32.
		half, run, l := i/128, i%128/32, i%32
		low := b[64*half+l+32*(run&1)]
		if run >= 2 {
			low >>= 4
		}
		q := int(low&15 | b[128+32*half+l]>>(2*run)&3<<4)
		return halfAt(b[208:]) * float64(int8(b[192+8*half+l/16+2*run])) * float64(q-32)
	}},
	{"Q8_0", 34, FormQ8_0, PackQ8_0, 0, 0, func(b []byte, i int) float64 {
		return halfAt(b) * float64(int8(b[2+i]))
	}},
}

func formatNamed(name string) format {
	for _, f := range formats {
		if f.name == name {
			return f
		}
	}
	panic("no format " + name)
}

func halfAt(b []byte) float64 { return halfValue(binary.LittleEndian.Uint16(b)) }

func nibble(b []byte, i int) float64 {
	if i < 16 {
		return float64(b[i] & 15)
	}
	return float64(b[i-16] >> 4)
}

func bit(b []byte, i int) float64 { return float64(b[i/8] >> (i % 8) & 1) }

// nibbleK is column i of 256: 32 bytes have the nibbles of 64 columns.
func nibbleK(b []byte, i int) float64 {
	q := b[i/64*32+i%32]
	if i%64 >= 32 {
		return float64(q >> 4)
	}
	return float64(q & 15)
}

// scaleMin is ggml's get_scale_min_k4.
func scaleMin(q []byte, j int) (scale, minimum float64) {
	if j < 4 {
		return float64(q[j] & 63), float64(q[j+4] & 63)
	}
	return float64(q[j+4]&15 | q[j-4]>>6<<4), float64(q[j+4]>>4 | q[j]>>6<<4)
}

// columns is the number of a source block, of which rows are multiples.
func (f format) columns() int {
	if strings.HasSuffix(f.name, "K") {
		return 256
	}
	return 32
}

// wide returns a number of columns at least as large that the format has.
func (f format) wide(k int) int { return (k + f.columns() - 1) / f.columns() * f.columns() }

// source makes rows of blocks with any quants, -128 among them, and scales of a model's
// size.
func (f format) source(r *rand.Rand, rows, k int) []byte {
	src := make([]byte, rows*k/f.columns()*f.srcBlock)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for b := 0; b < len(src); b += f.srcBlock {
		f.setFactors(src[b:], float32(r.NormFloat64()*0.01), float32(r.NormFloat64()*0.1))
	}
	return src
}

// setFactors puts the f16 factors of a source block.
func (f format) setFactors(block []byte, scale, minimum float32) {
	binary.LittleEndian.PutUint16(block[f.scaleAt:], F16FromF32(scale))
	if f.minAt > 0 {
		binary.LittleEndian.PutUint16(block[f.minAt:], F16FromF32(minimum))
	}
}

func (f format) row(src []byte, row, k int) []float64 {
	w := make([]float64, k)
	for i := range w {
		w[i] = f.weight(src[(row*k+i)/f.columns()*f.srcBlock:][:f.srcBlock], i%f.columns())
	}
	return w
}

// unpack reads one weight from the packed form by the layouts in the package's
// documentation.
func (f format) unpack(packed []byte, row, i, k int) float64 {
	r, column, lane := row%16, i%32, row%16*4+i%4
	runBytes := map[Form]int{FormQ4_1: 320, FormQ4_K: 64 + 8*288, FormQ5_0: 352, FormQ5_1: 384, FormQ5_K: 64 + 8*352, FormQ6_K: 32 + 8*416, FormQ8_0: 544}[f.form]
	run := packed[(row/16*(k/f.columns())+i/f.columns())*runBytes:][:runBytes]
	b := i % 256 / 32
	low := func(block []byte) float64 { return float64(block[column/8*64+lane] >> (column % 8 / 4 * 4) & 15) }
	fifth := func(block []byte) float64 { return 16 * float64(block[256+lane]>>(column/4)&1) }
	switch f.form {
	case FormQ4_1:
		return halfAt(run[256+2*r:])*low(run) + halfAt(run[288+2*r:])
	case FormQ4_K:
		block := run[64+288*b:]
		return halfAt(run[2*r:])*float64(block[256+r])*low(block) + halfAt(run[32+2*r:])*float64(block[272+r])
	case FormQ5_0:
		return halfAt(run[320+2*r:]) * (low(run) + fifth(run) - 16)
	case FormQ5_1:
		return halfAt(run[320+2*r:])*(low(run)+fifth(run)) + halfAt(run[352+2*r:])
	case FormQ5_K:
		block := run[64+352*b:]
		return halfAt(run[2*r:])*float64(block[320+r])*(low(block)+fifth(block)) + halfAt(run[32+2*r:])*float64(block[336+r])
	case FormQ6_K:
		block := run[32+416*b:]
		upper := float64(block[256+column/16*64+lane] >> (column % 16 / 4 * 2) & 3)
		return halfAt(run[2*r:]) * float64(int8(block[384+column/16*16+r])) * (low(block) + 16*upper - 32)
	}
	return halfAt(run[512+2*r:]) * float64(int8(run[column/4*64+lane]))
}

func TestPack(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			r := random()
			for _, shape := range [][2]int{{1, 32}, {15, 64}, {16, 32}, {17, 96}, {33, 160}, {0, 32}, {3, 0}} {
				rows, k := shape[0], f.wide(shape[1])
				src := f.source(r, rows, k)
				dst := bytes.Repeat([]byte{0xa5}, f.form.Bytes(rows, k)+1)
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
					unpacked := make([]float32, k)
					f.form.UnpackRow(unpacked, dst[row/16*f.form.Bytes(1, k):], row%16)
					for i := range k {
						// Read back, a weight is rounded to f32 before and after its minimum.
						if math.Abs(float64(unpacked[i])-want[i]) > 0x1p-24*(math.Abs(want[i])+16*math.Abs(float64(unpacked[i]))+1) {
							t.Fatalf("%d × %d: row %d, column %d: read back %g, want %g", rows, k, row, i, unpacked[i], want[i])
						}
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
	dst := make([]byte, FormQ6_K.Bytes(1, 256))
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
		{"Q5_0 infinite scale", PackQ5_0(dst, block(22, 0xfc00), 1, 32), "scale -Inf"},
		{"Q5_1 NaN minimum", PackQ5_1(dst, block(24, 0x3c00, 0x7e01), 1, 32), "minimum NaN"},
		{"Q4_K NaN scale", PackQ4_K(dst, block(144, 0x7e00), 1, 256), "scale NaN"},
		{"Q5_K infinite scale of minimums", PackQ5_K(dst, block(176, 0, 0x7c00), 1, 256), "minimums +Inf"},
		{"Q6_K infinite scale", PackQ6_K(dst, append(block(208), 0, 0x7c), 1, 256), "scale +Inf"},
		{"Q4_K odd columns", PackQ4_K(dst, block(144), 1, 32), "multiple of 256"},
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
	f.Add(uint8(7), bytes.Repeat([]byte{0x80}, 34*2), 2, 32)
	f.Add(uint8(7), []byte{}, 1<<62, 1<<62)
	f.Add(uint8(4), bytes.Repeat([]byte{0x35}, 144*3), 3, 256)
	f.Add(uint8(6), bytes.Repeat([]byte{0x2a}, 210*2), 1, 512)
	f.Fuzz(func(t *testing.T, kind uint8, src []byte, rows, k int) {
		f := formats[int(kind)%len(formats)]
		dst := bytes.Repeat([]byte{0xa5}, 1<<16)
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
