package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize converts len(dst) elements of type t from src, which must be
// exactly the blocks of these elements. Results are bit for bit those of the
// reference (Python package gguf), NaN for NaN: products are rounded to
// float32 before they are added, on every machine.
func Dequantize(dst []float32, src []byte, t DType) error {
	var convert func(dst []float32, src []byte)
	switch t {
	case F32:
		convert = dequantF32
	case F16:
		convert = dequantF16
	case BF16:
		convert = dequantBF16
	case Q8_0:
		convert = dequantQ8_0
	case Q4_0:
		convert = dequantQ4_0
	case Q4_1:
		convert = dequantQ4_1
	case Q5_0:
		convert = dequantQ5_0
	case Q5_1:
		convert = dequantQ5_1
	case Q4_K:
		convert = dequantQ4_K
	case Q5_K:
		convert = dequantQ5_K
	case Q6_K:
		convert = dequantQ6_K
	default:
		return fmt.Errorf("convert tensor data: type %s is not supported; use F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K", t)
	}
	if len(dst)%t.BlockLen() != 0 || uint64(len(src)) != t.RowBytes(uint64(len(dst))) {
		return fmt.Errorf("convert tensor data: %d bytes are not %d elements of type %s, which has %d elements in %d bytes",
			len(src), len(dst), t, t.BlockLen(), t.BlockBytes())
	}
	convert(dst, src)
	return nil
}

func dequantF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func dequantF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func dequantBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// half reads an IEEE 754 binary16 number.
func half(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	sign := h & 0x8000 << 16
	exp := h >> 10 & 0x1f
	frac := h & 0x3ff
	switch exp {
	case 0: // zero or subnormal: frac units of 2^-24, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	case 0x1f: // infinity or NaN with its payload
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// The types of 32 elements a block. A byte of 4-bit codes holds element j in
// its low half and element j+16 in its high half.

// dequantQ8_0: scale f16, 32 × int8.
func dequantQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d, q := half(src), src[2:34]
		for j, b := range q {
			dst[j] = d * float32(int8(b))
		}
	}
}

// dequantQ4_0: scale f16, 32 × 4 bits with zero at 8.
func dequantQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d, q := half(src), src[2:18]
		for j, b := range q {
			dst[j] = d * float32(int(b&0xf)-8)
			dst[j+16] = d * float32(int(b>>4)-8)
		}
	}
}

// dequantQ4_1: scale f16, minimum f16, 32 × 4 bits.
func dequantQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m, q := half(src), half(src[2:]), src[4:20]
		for j, b := range q {
			dst[j] = float32(d*float32(b&0xf)) + m
			dst[j+16] = float32(d*float32(b>>4)) + m
		}
	}
}

// dequantQ5_0: scale f16, 32 fifth bits, 32 × 4 bits, zero at 16.
func dequantQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high, q := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22]
		for j, b := range q {
			dst[j] = d * float32(int(fifth(high, j)|b&0xf)-16)
			dst[j+16] = d * float32(int(fifth(high, j+16)|b>>4)-16)
		}
	}
}

// dequantQ5_1: scale f16, minimum f16, 32 fifth bits, 32 × 4 bits.
func dequantQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[24:] {
		d, m, high, q := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24]
		for j, b := range q {
			dst[j] = float32(d*float32(fifth(high, j)|b&0xf)) + m
			dst[j+16] = float32(d*float32(fifth(high, j+16)|b>>4)) + m
		}
	}
}

// fifth returns element j's fifth bit in its place, 16 or 0.
func fifth(high uint32, j int) byte { return byte(high>>j&1) << 4 }
