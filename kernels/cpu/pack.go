package cpu

import (
	"encoding/binary"
	"fmt"
)

const (
	// GroupRows is the number of rows interleaved in a packed group.
	GroupRows = 16
	// BlockColumns is the number of columns that share a scale.
	BlockColumns = 32

	q4BlockBytes = GroupRows * (BlockColumns/2 + 4)
	q8BlockBytes = GroupRows * (BlockColumns + 2)
)

// Groups returns the number of 16-row groups that hold the given rows.
func Groups(rows int) int { return (rows + GroupRows - 1) / GroupRows }

// PackedQ4Bytes returns the size of a packed 4-bit matrix of rows × k.
func PackedQ4Bytes(rows, k int) int { return Groups(rows) * (k / BlockColumns) * q4BlockBytes }

// PackedQ8Bytes returns the size of a packed 8-bit matrix of rows × k.
func PackedQ8Bytes(rows, k int) int { return Groups(rows) * (k / BlockColumns) * q8BlockBytes }

// PackQ4_0 repacks rows of GGUF Q4_0 blocks (f16 d, 16 bytes whose low nibbles are
// columns 0…15 and high nibbles 16…31; a weight is d·(q-8)) into the 4-bit form.
//
// The minimum is m = -8·d. Multiplying by a power of two only moves the exponent
// of a half, and upwards, so it is exact, subnormals included, until it
// overflows: a block with |d| > 8188 has weights of 65504 and beyond, which no
// trained model holds, and is refused.
func PackQ4_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{srcBlock: 18, dstBlock: q4BlockBytes, place: func(dst, src []byte, r int) error {
		d := binary.LittleEndian.Uint16(src)
		m := F16FromF32(-8 * F32FromF16(d))
		if !finiteF16(m) {
			return fmt.Errorf("scale %g is beyond ±8188", F32FromF16(d))
		}
		placeQ4(dst, r, d, m, src[2:18])
		return nil
	}})
}

// PackQ4_1 repacks rows of GGUF Q4_1 blocks (f16 d, f16 m, 16 bytes of nibbles as in
// Q4_0; a weight is d·q + m) into the 4-bit form.
func PackQ4_1(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{srcBlock: 20, dstBlock: q4BlockBytes, place: func(dst, src []byte, r int) error {
		d, m := binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
		if !finiteF16(d) || !finiteF16(m) {
			return fmt.Errorf("scale %g with minimum %g is not finite", F32FromF16(d), F32FromF16(m))
		}
		placeQ4(dst, r, d, m, src[4:20])
		return nil
	}})
}

// PackQ8_0 repacks rows of GGUF Q8_0 blocks (f16 d, 32 int8; a weight is d·q) into the
// 8-bit form.
func PackQ8_0(dst, src []byte, rows, k int) error {
	return pack(dst, src, rows, k, packing{srcBlock: 34, dstBlock: q8BlockBytes, place: func(dst, src []byte, r int) error {
		d := binary.LittleEndian.Uint16(src)
		if !finiteF16(d) {
			return fmt.Errorf("scale %g is not finite", F32FromF16(d))
		}
		for j := range 8 {
			copy(dst[64*j+4*r:64*j+4*r+4], src[2+4*j:])
		}
		binary.LittleEndian.PutUint16(dst[512+2*r:], d)
		return nil
	}})
}

// packing says how one GGUF block becomes row r of a packed block.
type packing struct {
	srcBlock, dstBlock int
	place              func(dst, src []byte, r int) error
}

// pack moves row-major blocks into groups of rows. Sizes are checked against the
// given counts by division, so that hostile counts cannot overflow.
func pack(dst, src []byte, rows, k int, p packing) error {
	if rows < 0 || k < 0 || k%BlockColumns != 0 {
		return fmt.Errorf("pack %d rows of %d columns: columns must be a multiple of %d", rows, k, BlockColumns)
	}
	blocks := k / BlockColumns
	if rows == 0 || blocks == 0 {
		return nil
	}
	if have := len(src) / p.srcBlock / blocks; have < rows {
		return fmt.Errorf("pack %d rows of %d columns: the source of %d bytes holds %d rows", rows, k, len(src), have)
	}
	groups := Groups(rows)
	if have := len(dst) / p.dstBlock / blocks; have < groups {
		return fmt.Errorf("pack %d rows of %d columns: the destination of %d bytes holds %d groups of 16 rows, %d are needed", rows, k, len(dst), have, groups)
	}
	if rows%GroupRows != 0 {
		clear(dst[(groups-1)*blocks*p.dstBlock : groups*blocks*p.dstBlock])
	}
	for row := range rows {
		for b := range blocks {
			s := src[(row*blocks+b)*p.srcBlock:][:p.srcBlock]
			d := dst[(row/GroupRows*blocks+b)*p.dstBlock:][:p.dstBlock]
			if err := p.place(d, s, row%GroupRows); err != nil {
				return fmt.Errorf("pack row %d, block %d: %w", row, b, err)
			}
		}
	}
	return nil
}

// placeQ4 writes one row of a 4-bit block. nibbles has column i in the low half of
// byte i and column 16+i in the high half.
func placeQ4(dst []byte, r int, d, m uint16, nibbles []byte) {
	for i := range 16 {
		column := 8*(i/4) + i%4 // the low nibble's column; the high one's is four further
		lo, hi := nibbles[column%16], nibbles[(column+4)%16]
		if column >= 16 {
			lo, hi = lo>>4, hi>>4
		}
		dst[64*(i/4)+4*r+i%4] = lo&15 | hi<<4
	}
	binary.LittleEndian.PutUint16(dst[256+2*r:], d)
	binary.LittleEndian.PutUint16(dst[288+2*r:], m)
}

func finiteF16(h uint16) bool {
	return h&0x7c00 != 0x7c00
}

// q4Scales reads the scales and minimums of a 4-bit block.
func q4Scales(block []byte) (d, m [GroupRows]float32) {
	for r := range GroupRows {
		d[r] = F32FromF16(binary.LittleEndian.Uint16(block[256+2*r:]))
		m[r] = F32FromF16(binary.LittleEndian.Uint16(block[288+2*r:]))
	}
	return d, m
}

// q8Scales reads the scales of an 8-bit block.
func q8Scales(block []byte) (d [GroupRows]float32) {
	for r := range GroupRows {
		d[r] = F32FromF16(binary.LittleEndian.Uint16(block[512+2*r:]))
	}
	return d
}
