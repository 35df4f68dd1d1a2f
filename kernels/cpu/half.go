package cpu

import "math"

// F32FromF16 widens an IEEE 754 half, exactly. A NaN keeps its payload and
// becomes quiet.
func F32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch {
	case exp == 0: // zero or subnormal: frac · 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case exp == 31 && frac == 0:
		return math.Float32frombits(sign | 0x7f800000)
	case exp == 31:
		return math.Float32frombits(sign | 0x7fc00000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// F16FromF32 rounds to the nearest half, ties to even; what is too large becomes
// infinite. A NaN stays a NaN and becomes quiet.
func F16FromF32(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits &^ (1 << 31)
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x3ff
	case abs >= 0x477ff000: // 65520, halfway between the largest half and 2¹⁶
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴ the unit is 2⁻²⁴, that of 0.5 in f32
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	}
	// Adding just under half a unit, or half if the last kept bit is odd, carries
	// into the exponent where it must.
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-(127-15)<<23)>>13)
}

// F16ToF32 widens halves, see F32FromF16.
func (o *Ops) F16ToF32(dst []float32, src []uint16) { o.f16ToF32(dst[:len(src)], src) }

// F32ToF16 rounds to halves, see F16FromF32.
func (o *Ops) F32ToF16(dst []uint16, src []float32) { o.f32ToF16(dst[:len(src)], src) }

func f16ToF32Generic(dst []float32, src []uint16) {
	for i, h := range src {
		dst[i] = F32FromF16(h)
	}
}

func f32ToF16Generic(dst []uint16, src []float32) {
	for i, f := range src {
		dst[i] = F16FromF32(f)
	}
}
