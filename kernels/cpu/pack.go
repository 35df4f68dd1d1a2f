package cpu

import (
	"encoding/binary"
	"fmt"
)

// PackQ4_0 repacks rows of GGUF Q4_0 blocks (f16 d, 16 bytes whose low nibbles are
// columns 0…15 and high nibbles 16…31; a weight is d·(q-8)) into FormQ4_1.
//
// The minimum is m = -8·d. Multiplying by a power of two only moves the exponent
// of a half, and upwards, so it is exact, subnormals included, until it
// overflows: a block with |d| > 8188 has weights of 65504 and beyond, which no
// trained model holds, and is refused.
func PackQ4_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ4_1, srcBlock: 18, place: func(s slot, src []byte) error {
		d := binary.LittleEndian.Uint16(src)
		m := F16FromF32(-8 * F32FromF16(d))
		if !finiteF16(m) {
			return fmt.Errorf("scale %g is beyond ±8188", F32FromF16(d))
		}
		for i := range BlockColumns {
			s.code(i, nibbleAt(src[2:18], i))
		}
		s.half(s.scales, d)
		s.half(s.minimums, m)
		return nil
	}})
}

// PackQ4_1 repacks rows of GGUF Q4_1 blocks (f16 d, f16 m, 16 bytes of nibbles as in
// Q4_0; a weight is d·q + m) into FormQ4_1.
func PackQ4_1(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ4_1, srcBlock: 20, place: func(s slot, src []byte) error {
		for i := range BlockColumns {
			s.code(i, nibbleAt(src[4:20], i))
		}
		return s.scaleMinimum(src)
	}})
}

// PackQ5_0 repacks rows of GGUF Q5_0 blocks (f16 d, the fifth bits of 32 columns, 16
// bytes of nibbles as in Q4_0; a weight is d·(q-16)) into FormQ5_0.
func PackQ5_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ5_0, srcBlock: 22, place: func(s slot, src []byte) error {
		fifths := binary.LittleEndian.Uint32(src[2:])
		for i := range BlockColumns {
			s.code(i, nibbleAt(src[6:22], i)|byte(fifths>>i&1)<<4)
		}
		return s.scale(src)
	}})
}

// PackQ5_1 repacks rows of GGUF Q5_1 blocks (f16 d, f16 m, then as Q5_0; a weight is
// d·q + m) into FormQ5_1.
func PackQ5_1(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ5_1, srcBlock: 24, place: func(s slot, src []byte) error {
		fifths := binary.LittleEndian.Uint32(src[4:])
		for i := range BlockColumns {
			s.code(i, nibbleAt(src[8:24], i)|byte(fifths>>i&1)<<4)
		}
		return s.scaleMinimum(src)
	}})
}

// PackQ8_0 repacks rows of GGUF Q8_0 blocks (f16 d, 32 int8; a weight is d·q) into
// FormQ8_0.
func PackQ8_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ8_0, srcBlock: 34, place: func(s slot, src []byte) error {
		for i := range BlockColumns {
			s.code(i, src[2+i])
		}
		return s.scale(src)
	}})
}

// packing says how one GGUF block becomes a row of a packed block, or of all blocks
// with one header.
type packing struct {
	form     Form
	srcBlock int
	place    func(s slot, src []byte) error
}

// slot is one row of a packed block, which is zero before the first of its rows is
// placed.
type slot struct {
	*layout
	block, header    []byte
	row              int
	scales, minimums int // where they begin in the block
}

// code puts the code of a column.
func (s slot) code(column int, q byte) {
	four, i := column/4, 4*s.row+column%4
	if s.bits == 8 {
		s.block[64*four+i] = q
		return
	}
	s.block[64*(four/2)+i] |= q & 15 << (4 * (four % 2))
	if width := s.bits - 4; width > 0 {
		bit := four * width
		s.block[256+64*(bit/8)+i] |= q >> 4 << (bit % 8)
	}
}

// half puts the row's f16 into the scales or minimums.
func (s slot) half(at int, h uint16) { binary.LittleEndian.PutUint16(s.block[at+2*s.row:], h) }

// scale puts the f16 scale that a source block begins with.
func (s slot) scale(src []byte) error {
	d := binary.LittleEndian.Uint16(src)
	if !finiteF16(d) {
		return fmt.Errorf("scale %g is not finite", F32FromF16(d))
	}
	s.half(s.scales, d)
	return nil
}

// scaleMinimum puts the f16 scale and minimum that a source block begins with.
func (s slot) scaleMinimum(src []byte) error {
	d, m := binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
	if !finiteF16(d) || !finiteF16(m) {
		return fmt.Errorf("scale %g with minimum %g is not finite", F32FromF16(d), F32FromF16(m))
	}
	s.half(s.scales, d)
	s.half(s.minimums, m)
	return nil
}

// next is the slot of the same row in the block that follows under the header.
func (s slot) next(i int) slot {
	size := s.blockBytes()
	s.block = s.block[i*size : (i+1)*size]
	return s
}

// pack moves row-major blocks into groups of rows. Sizes are checked against the
// given counts by division, so that hostile counts cannot overflow.
func pack(dst, src []byte, rows, k int, p packing) error {
	l := &layouts[p.form]
	if columns := p.form.Columns(); rows < 0 || k < 0 || k%columns != 0 {
		return fmt.Errorf("pack %d rows of %d columns: columns must be a multiple of %d", rows, k, columns)
	}
	runs := k / p.form.Columns() // of blocks with one header, or of one block
	if rows == 0 || runs == 0 {
		return nil
	}
	if have := len(src) / p.srcBlock / runs; have < rows {
		return fmt.Errorf("pack %d rows of %d columns: the source of %d bytes holds %d rows", rows, k, len(src), have)
	}
	groups, runBytes := Groups(rows), l.groupBytes(l.headerBlocks())
	if have := len(dst) / runBytes / runs; have < groups {
		return fmt.Errorf("pack %d rows of %d columns: the destination of %d bytes holds %d groups of 16 rows, %d are needed", rows, k, len(dst), have, groups)
	}
	clear(dst[:groups*runs*runBytes])
	for row := range rows {
		for i := range runs {
			run := dst[(row/GroupRows*runs+i)*runBytes:][:runBytes]
			s := slot{layout: l, header: run[:l.headerBytes()], block: run[l.headerBytes():], row: row % GroupRows,
				scales: l.scalesAt(), minimums: l.minimumsAt()}
			if err := p.place(s, src[(row*runs+i)*p.srcBlock:][:p.srcBlock]); err != nil {
				return fmt.Errorf("pack row %d, block %d: %w", row, i, err)
			}
		}
	}
	return nil
}

// nibbleAt returns column i of 16 bytes, which have columns 0…15 in their low halves.
func nibbleAt(nibbles []byte, i int) byte { return nibbles[i%16] >> (i / 16 * 4) & 15 }

func finiteF16(h uint16) bool {
	return h&0x7c00 != 0x7c00
}
