package cuda

import (
	"encoding/binary"
	"math"
)

// How each format's blocks are divided into planes, and put together again. Blocks
// are GGUF's: ggml/src/ggml-common.h.

func init() {
	whole := func(f Format, codes, scales int) {
		at := forms[f].bytes - codes
		forms[f].pack = func(p Planes, block []byte) {
			copy(p[2], block[:scales])
			copy(p[1], block[scales:at]) // the fifth bits, if there are any
			copy(p[0], block[at:forms[f].bytes])
		}
		forms[f].unpack = func(p Planes, block []byte) {
			copy(block[:scales], p[2])
			copy(block[scales:at], p[1])
			copy(block[at:forms[f].bytes], p[0])
		}
	}
	// Blocks of 32 columns are scales, fifth bits and codes, in this order.
	whole(Q8_0, 32, 2)
	whole(Q4_0, 16, 2)
	whole(Q4_1, 16, 4)
	whole(Q5_0, 16, 2)
	whole(Q5_1, 16, 4)

	forms[Q4_K].pack = func(p Planes, b []byte) { copy(p[2], b[:16]); codes4K(p[0], b[16:144]) }
	forms[Q4_K].unpack = func(p Planes, b []byte) { copy(b[:16], p[2]); codes4KBack(b[16:144], p[0]) }
	forms[Q5_K].pack = func(p Planes, b []byte) { copy(p[2], b[:16]); fifths(p[1], b[16:48]); codes4K(p[0], b[48:176]) }
	forms[Q5_K].unpack = func(p Planes, b []byte) { copy(b[:16], p[2]); unfifths(b[16:48], p[1]); codes4KBack(b[48:176], p[0]) }
	forms[Q6_K].pack, forms[Q6_K].unpack = packQ6K, unpackQ6K
}

// regroup divides codes whose 32 bytes hold two runs of 32 columns, one in the low halves
// and one in the high ones, into 16 bytes for each of the two runs: a transposition of
// half bytes, and so its own inverse. Runs lie at dst and at dst[apart:].
func regroup(dst []byte, apart int, src []byte) {
	const low = 0x0f0f0f0f0f0f0f0f
	for i := 0; i < 16; i += 8 {
		a, b := binary.LittleEndian.Uint64(src[i:]), binary.LittleEndian.Uint64(src[16+i:])
		binary.LittleEndian.PutUint64(dst[i:], a&low|b&low<<4)
		binary.LittleEndian.PutUint64(dst[apart+i:], a>>4&low|b&^uint64(low))
	}
}

// ungroup is regroup's inverse.
func ungroup(dst, src []byte, apart int) {
	var both [32]byte
	copy(both[:16], src)
	copy(both[16:], src[apart:apart+16])
	regroup(dst, 16, both[:])
}

// codes4K moves the 128 bytes of codes of Q4_K or Q5_K, codes4KBack back.
func codes4K(dst, src []byte) {
	for i := 0; i < 128; i += 32 {
		regroup(dst[i:], 16, src[i:])
	}
}

func codes4KBack(dst, src []byte) {
	for i := 0; i < 128; i += 32 {
		ungroup(dst[i:], src[i:], 16)
	}
}

// fifths transposes Q5_K's fifth bits: bit run of byte c becomes bit c of word run.
func fifths(dst, src []byte) {
	for run := range 8 {
		var word uint32
		for c := range 32 {
			word |= uint32(src[c]>>run&1) << c
		}
		binary.LittleEndian.PutUint32(dst[4*run:], word)
	}
}

func unfifths(dst, src []byte) {
	clear(dst[:32])
	for run := range 8 {
		word := binary.LittleEndian.Uint32(src[4*run:])
		for c := range 32 {
			dst[c] |= byte(word>>c&1) << run
		}
	}
}

// A block of Q6_K is 128 bytes of low 4 bits, 64 of high 2 bits, 16 int8 scales and a
// half. Each half of its columns has 64 low and 32 high bytes for four runs of 32: runs
// 0 and 1 lie in the low halves of the first and second 32 low bytes, runs 2 and 3 in
// their high halves; run r's high bits are at 2r of the high bytes.

func packQ6K(p Planes, b []byte) {
	copy(p[2], b[192:210])
	for half := range 2 {
		for i := range 2 { // runs i and i+2
			regroup(p[0][64*half+16*i:], 32, b[64*half+32*i:])
		}
		for run := range 4 {
			for word := range 2 {
				var bits uint32
				for c, high := range b[128+32*half+16*word:][:16] {
					bits |= uint32(high>>(2*run)&3) << (2 * c)
				}
				binary.LittleEndian.PutUint32(p[1][32*half+8*run+4*word:], bits)
			}
		}
	}
}

func unpackQ6K(p Planes, b []byte) {
	clear(b[128:192])
	copy(b[192:210], p[2])
	for half := range 2 {
		for i := range 2 {
			ungroup(b[64*half+32*i:], p[0][64*half+16*i:], 32)
		}
		for run := range 4 {
			for word := range 2 {
				bits := binary.LittleEndian.Uint32(p[1][32*half+8*run+4*word:])
				high := b[128+32*half+16*word:][:16]
				for c := range high {
					high[c] |= byte(bits>>(2*c)&3) << (2 * run)
				}
			}
		}
	}
}

// halfBits are the bits of a binary16 number as float32.
func halfBits(h uint32) uint32 {
	sign, exponent, fraction := h&0x8000<<16, h>>10&0x1f, h&0x3ff
	switch exponent {
	case 0: // zero or subnormal: units of 2⁻²⁴, exact in float32
		return sign | math.Float32bits(float32(fraction)*(1.0/(1<<24)))
	case 0x1f: // infinity, or NaN with its payload
		return sign | 0xff<<23 | fraction<<13
	}
	return sign | (exponent+127-15)<<23 | fraction<<13
}
