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
		var q codes
		q.nibbles(src[2:18])
		s.codes(&q)
		s.half(s.scales, d)
		s.half(s.minimums, m)
		return nil
	}})
}

// PackQ4_1 repacks rows of GGUF Q4_1 blocks (f16 d, f16 m, 16 bytes of nibbles as in
// Q4_0; a weight is d·q + m) into FormQ4_1.
func PackQ4_1(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ4_1, srcBlock: 20, place: func(s slot, src []byte) error {
		var q codes
		q.nibbles(src[4:20])
		s.codes(&q)
		return s.scaleMinimum(src)
	}})
}

// PackQ5_0 repacks rows of GGUF Q5_0 blocks (f16 d, the fifth bits of 32 columns, 16
// bytes of nibbles as in Q4_0; a weight is d·(q-16)) into FormQ5_0.
func PackQ5_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ5_0, srcBlock: 22, place: func(s slot, src []byte) error {
		var q codes
		q.nibbles(src[6:22])
		q.fifths(src[2:6])
		s.codes(&q)
		return s.scale(src)
	}})
}

// PackQ5_1 repacks rows of GGUF Q5_1 blocks (f16 d, f16 m, then as Q5_0; a weight is
// d·q + m) into FormQ5_1.
func PackQ5_1(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ5_1, srcBlock: 24, place: func(s slot, src []byte) error {
		var q codes
		q.nibbles(src[8:24])
		q.fifths(src[4:8])
		s.codes(&q)
		return s.scaleMinimum(src)
	}})
}

// PackQ8_0 repacks rows of GGUF Q8_0 blocks (f16 d, 32 int8; a weight is d·q) into
// FormQ8_0.
func PackQ8_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{form: FormQ8_0, srcBlock: 34, place: func(s slot, src []byte) error {
		s.codes((*codes)(src[2:]))
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

// codes puts the codes of all columns, four at a time.
func (s slot) codes(q *codes) {
	if s.bits == 8 {
		for column := range BlockColumns / 4 {
			copy(s.block[64*column+4*s.row:][:4], q[4*column:])
		}
		return
	}
	var upper [2]uint32 // the planes of upper bits
	width := s.bits - 4
	for column := range BlockColumns / 4 {
		four, bit := binary.LittleEndian.Uint32(q[4*column:]), column*width
		upper[bit/8] |= four >> 4 & (0x01010101 * (1<<width - 1)) << (bit % 8)
		four &= 0x0f0f0f0f
		at := s.block[64*(column/2)+4*s.row:]
		if column%2 == 1 {
			four = binary.LittleEndian.Uint32(at) | four<<4
		}
		binary.LittleEndian.PutUint32(at, four)
	}
	for plane := range width { // of 8 bits each
		binary.LittleEndian.PutUint32(s.block[256+64*plane+4*s.row:], upper[plane])
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

// codes are those of a row in one block, by column.
type codes [BlockColumns]byte

// every is a word with a 1 in each byte.
const every = 0x0101010101010101

// nibbles takes columns 0…15 from the low halves of 16 bytes and 16…31 from the high.
func (q *codes) nibbles(src []byte) {
	for i := 0; i < 16; i += 8 {
		eight := binary.LittleEndian.Uint64(src[i:])
		binary.LittleEndian.PutUint64(q[i:], eight&(15*every))
		binary.LittleEndian.PutUint64(q[16+i:], eight>>4&(15*every))
	}
}

// add adds the bits of mask from shift on of a byte for each column, at a bit of the
// codes.
func (q *codes) add(src []byte, shift int, mask uint64, at int) {
	for i := 0; i < BlockColumns; i += 8 {
		eight := binary.LittleEndian.Uint64(src[i:]) >> shift & (mask * every) << at
		binary.LittleEndian.PutUint64(q[i:], binary.LittleEndian.Uint64(q[i:])|eight)
	}
}

// fifths adds the fifth bits, of which bit i of 32 belongs to column i.
func (q *codes) fifths(src []byte) {
	for i, b := range src[:4] {
		// The product repeats the byte; each copy keeps the bit of its place, which the
		// sum carries to the top of its byte.
		bits := uint64(b) * every & 0x8040201008040201
		bits = (bits + 0x7f7f7f7f7f7f7f7f) & 0x8080808080808080
		binary.LittleEndian.PutUint64(q[8*i:], binary.LittleEndian.Uint64(q[8*i:])|bits>>3)
	}
}

func finiteF16(h uint16) bool {
	return h&0x7c00 != 0x7c00
}
