package cpu

import (
	"encoding/binary"
	"fmt"
)

// PackQ4_K repacks rows of GGUF Q4_K blocks into FormQ4_K. A block has 256 columns: f16 d,
// f16 dmin, 12 bytes of 6-bit scales and minimums for each 32 columns, 128 bytes
// of nibbles; a weight is d·scale·q - dmin·minimum. The header keeps -dmin.
func PackQ4_K(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ4_K, srcBlock: 144, place: func(s slot, src []byte) error {
		nibbles := src[16:144]
		for b := range superBlocks {
			var q codes
			q.add(nibbles[b/2*32:], b%2*4, 15, 0)
			s.next(b).codes(&q)
		}
		return s.scalesMinimums(src)
	}})
}

// PackQ5_K repacks rows of GGUF Q5_K blocks into FormQ5_K. After the scales of Q4_K
// come 32 bytes of fifth bits: bit b of byte i belongs to column 32·b + i.
func PackQ5_K(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ5_K, srcBlock: 176, place: func(s slot, src []byte) error {
		fifths, nibbles := src[16:48], src[48:176]
		for b := range superBlocks {
			var q codes
			q.add(nibbles[b/2*32:], b%2*4, 15, 0)
			q.add(fifths, b, 1, 4)
			s.next(b).codes(&q)
		}
		return s.scalesMinimums(src)
	}})
}

// PackQ6_K repacks rows of GGUF Q6_K blocks into FormQ6_K. A block has 256 columns: 128
// bytes of low nibbles, 64 of upper bits, an int8 scale for each 16 columns, f16 d;
// a weight is d·scale·(q-32). Each half of the columns has 64 low and 32 upper
// bytes; its runs of 32 columns are the low halves of the first and second 32 low
// bytes, then the high halves, and run r has bits 2r of the upper bytes.
func PackQ6_K(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ6_K, srcBlock: 210, place: func(s slot, src []byte) error {
		scales, d := src[192:208], binary.LittleEndian.Uint16(src[208:])
		if !finiteF16(d) {
			return fmt.Errorf("scale %g is not finite", F32FromF16(d))
		}
		for b := range superBlocks {
			half, run := b/4, b%4
			low, upper := src[64*half+run%2*32:], src[128+32*half:]
			var q codes
			q.add(low, run/2*4, 15, 0)
			q.add(upper, 2*run, 3, 4)
			block := s.next(b)
			block.codes(&q)
			for part := range 2 {
				block.block[s.scales+GroupRows*part+s.row] = scales[2*b+part]
			}
		}
		binary.LittleEndian.PutUint16(s.header[2*s.row:], d)
		return nil
	}})
}

// scalesMinimums puts the factors and the 6-bit scales and minimums that a Q4_K or Q5_K
// block begins with. Those of blocks 0 to 3 are the low 6 bits of bytes 0 to 3 and
// 4 to 7 after the factors; those of 4 to 7 have their low 4 bits in bytes 8 to 11
// and their upper 2 at the top of the former.
func (s slot) scalesMinimums(src []byte) error {
	d, dmin := binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
	if !finiteF16(d) || !finiteF16(dmin) {
		return fmt.Errorf("scale %g with scale of minimums %g is not finite", F32FromF16(d), F32FromF16(dmin))
	}
	binary.LittleEndian.PutUint16(s.header[2*s.row:], d)
	binary.LittleEndian.PutUint16(s.header[2*GroupRows+2*s.row:], dmin^0x8000)
	packed := src[4:16]
	for b := range superBlocks {
		scale, minimum := packed[b%4]&63, packed[4+b%4]&63
		if b >= 4 {
			scale = packed[4+b]&15 | packed[b-4]>>6<<4
			minimum = packed[4+b]>>4 | packed[b]>>6<<4
		}
		block := s.next(b)
		block.block[s.scales+s.row] = scale
		block.block[s.minimums+s.row] = minimum
	}
	return nil
}
