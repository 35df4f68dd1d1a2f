package gguf

// The types of 256 elements a block ("K"): 8 sub-blocks of 32 elements (16 of
// 16 in Q6_K), whose own scales are integers times the block's f16 scale.

// dequantQ4_K: scale f16, scale of minima f16, 12 bytes of 6-bit scales and
// minima, 256 × 4 bits. 32 bytes of codes hold two sub-blocks, one in the low
// halves and the next in the high halves.
func dequantQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[144:] {
		d, dmin, scales, q := half(src), half(src[2:]), src[4:16], src[16:144]
		for sub := 0; sub < 8; sub += 2 {
			scale1, min1 := scaleMin(scales, sub, d, dmin)
			scale2, min2 := scaleMin(scales, sub+1, d, dmin)
			out, codes := dst[32*sub:], q[16*sub:16*sub+32]
			for j, b := range codes {
				out[j] = float32(scale1*float32(b&0xf)) - min1
				out[j+32] = float32(scale2*float32(b>>4)) - min2
			}
		}
	}
}

// dequantQ5_K is Q4_K with a fifth bit: bit s of byte j of the 32 bytes after
// the scales belongs to element j of sub-block s.
func dequantQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[176:] {
		d, dmin, scales, high, q := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
		for sub := 0; sub < 8; sub += 2 {
			scale1, min1 := scaleMin(scales, sub, d, dmin)
			scale2, min2 := scaleMin(scales, sub+1, d, dmin)
			out, codes := dst[32*sub:], q[16*sub:16*sub+32]
			for j, b := range codes {
				out[j] = float32(scale1*float32(b&0xf|high[j]>>sub&1<<4)) - min1
				out[j+32] = float32(scale2*float32(b>>4|high[j]>>(sub+1)&1<<4)) - min2
			}
		}
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block j. Those of 0 to 3
// are the low 6 bits of bytes 0 to 3 and 4 to 7; those of 4 to 7 have their low
// 4 bits in bytes 8 to 11 and their high 2 in the top of the former.
func scaleMin(packed []byte, j int, d, dmin float32) (scale, minimum float32) {
	var s, m byte
	if j < 4 {
		s, m = packed[j]&63, packed[j+4]&63
	} else {
		s = packed[j+4]&0xf | packed[j-4]>>6<<4
		m = packed[j+4]>>4 | packed[j]>>6<<4
	}
	return d * float32(s), dmin * float32(m)
}

// dequantQ6_K: 128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 int8
// scales, scale f16; zero at 32. Each half of the block has 64 low and 32 high
// bytes for four runs of 32 elements: runs 0 and 1 lie in the low halves of the
// first and second 32 low bytes, runs 2 and 3 in their high halves; run r's
// high bits are at 2r of the high bytes.
func dequantQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[210:] {
		d := half(src[208:])
		for part := range 2 {
			low, high, scales := src[64*part:64*part+64], src[128+32*part:160+32*part], src[192+8*part:200+8*part]
			for run := range 4 {
				out, codes, shift := dst[128*part+32*run:], low[32*(run&1):32*(run&1)+32], 4*(run>>1)
				for j, b := range codes {
					q := int(b>>shift&0xf|high[j]>>(2*run)&3<<4) - 32
					out[j] = float32(d*float32(int8(scales[2*run+j/16]))) * float32(q)
				}
			}
		}
	}
}
