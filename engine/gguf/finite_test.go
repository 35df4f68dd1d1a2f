package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestCheckFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	for _, c := range []struct {
		name string
		typ  DType
		at   int // in bytes, of the damage
		bits uint32
		size int
		want string // of the error; empty: none
	}{
		{"F32 NaN", F32, 4 * 17, math.Float32bits(float32(nan)), 4, "element 17 is NaN"},
		{"F32 infinity", F32, 4 * 255, math.Float32bits(float32(inf)), 4, "element 255 is -Inf"},
		{"F32 first", F32, 0, 0x7f800001, 4, "element 0 is NaN"},
		{"F32 largest", F32, 4 * 3, math.Float32bits(-math.MaxFloat32), 4, ""},
		{"F32 negative zero", F32, 4 * 4, 1 << 31, 4, ""},
		{"F16 infinity", F16, 2 * 33, 0x7c00, 2, "element 33 is +Inf"},
		{"F16 NaN", F16, 2 * 254, 0xfe00, 2, "element 254 is NaN"},
		{"F16 largest", F16, 2 * 6, 0xfbff, 2, ""},
		{"BF16 NaN", BF16, 2 * 35, 0x7fc0, 2, "element 35 is NaN"},
		{"BF16 largest", BF16, 2 * 35, 0xff7f, 2, ""},
		{"Q8_0", Q8_0, 34 * 2, 0x7c00, 2, "a scale of block 2, elements 64 to 95, is +Inf"},
		{"Q8_0 quants", Q8_0, 34*2 + 2, 0x7c00, 2, ""},
		{"Q4_0", Q4_0, 18 * 7, 0xfc01, 2, "a scale of block 7"},
		{"Q4_1 minimum", Q4_1, 20 + 2, 0x7e00, 2, "a scale of block 1"},
		{"Q5_0", Q5_0, 22, 0x7e00, 2, "a scale of block 1"},
		{"Q5_1 minimum", Q5_1, 24 + 2, 0x7e00, 2, "a scale of block 1"},
		{"Q4_K", Q4_K, 0, 0x7e00, 2, "a scale of block 0, elements 0 to 255, is NaN"},
		{"Q5_K minimum", Q5_K, 2, 0x7e00, 2, "a scale of block 0"},
		{"Q6_K", Q6_K, 208, 0x7c00, 2, "a scale of block 0"},
		{"Q6_K quants", Q6_K, 0, 0x7c00, 2, ""},
	} {
		tensor := Tensor{Type: c.typ, Shape: []uint64{256}, Data: make([]byte, c.typ.RowBytes(256))}
		if err := tensor.CheckFinite(); err != nil {
			t.Errorf("%s: zeros give %v", c.name, err)
		}
		bits := binary.LittleEndian.AppendUint32(nil, c.bits)
		copy(tensor.Data[c.at:], bits[:c.size])
		if err := fmt.Sprint(tensor.CheckFinite()); c.want == "" && err != "<nil>" || !strings.Contains(err, c.want) {
			t.Errorf("%s: got error %s, want one with %q", c.name, err, c.want)
		}
	}
}

// All halves and the truth of package math about each.
func TestCheckFiniteHalves(t *testing.T) {
	for _, typ := range []DType{F16, BF16} {
		for bits := range 1 << 16 {
			for place := range 5 { // within eight bytes, and after them
				tensor := Tensor{Type: typ, Shape: []uint64{5}, Data: make([]byte, 10)}
				binary.LittleEndian.PutUint16(tensor.Data[2*place:], uint16(bits))
				var value [1]float32
				if err := Dequantize(value[:], tensor.Data[2*place:2*place+2], typ); err != nil {
					t.Fatal(err)
				}
				x := float64(value[0])
				if bad := math.IsNaN(x) || math.IsInf(x, 0); bad != (tensor.CheckFinite() != nil) {
					t.Fatalf("%s %#04x, %g, at %d: error %v", typ, bits, x, place, tensor.CheckFinite())
				}
			}
		}
	}
}

func BenchmarkCheckFinite(b *testing.B) {
	for _, typ := range []DType{F32, BF16, Q8_0, Q4_K} {
		b.Run(typ.String(), func(b *testing.B) {
			const n = 1 << 24
			tensor := Tensor{Type: typ, Shape: []uint64{n}, Data: make([]byte, typ.RowBytes(n))}
			b.SetBytes(int64(len(tensor.Data)))
			for b.Loop() {
				if err := tensor.CheckFinite(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
