package cpu

import (
	"encoding/binary"
	"fmt"
)

const (
	// GroupRows is the number of rows interleaved in a packed group.
	GroupRows = 16
	// BlockColumns is the number of columns of a block and of a Meta.
	BlockColumns = 32

	// superBlocks is the number of blocks that share a header.
	superBlocks = 8
)

// Form is a packed form of quantised matrices. It is named after the GGUF type
// whose weights it holds exactly; the package's documentation has the layouts.
type Form int

// The forms. FormQ4_1 takes Q4_0 too.
const (
	FormQ4_1 Form = iota
	FormQ4_K
	FormQ5_0
	FormQ5_1
	FormQ5_K
	FormQ6_K
	FormQ8_0
	numForms
)

// layout describes a form, as _gen's form does for the assembly.
type layout struct {
	name    string
	bits    int  // of a code; 8 are signed
	zero    int  // the code of 0 where there is no minimum
	minimum bool // a weight is d·code + m
	super   bool // superBlocks blocks share a header of factors
	halves  bool // each half of the columns has a scale
}

var layouts = [numForms]layout{
	FormQ4_1: {name: "Q4_1", bits: 4, minimum: true},
	FormQ4_K: {name: "Q4_K", bits: 4, minimum: true, super: true},
	FormQ5_0: {name: "Q5_0", bits: 5, zero: 16},
	FormQ5_1: {name: "Q5_1", bits: 5, minimum: true},
	FormQ5_K: {name: "Q5_K", bits: 5, minimum: true, super: true},
	FormQ6_K: {name: "Q6_K", bits: 6, zero: 32, super: true, halves: true},
	FormQ8_0: {name: "Q8_0", bits: 8},
}

// Forms returns all forms.
func Forms() []Form {
	forms := make([]Form, numForms)
	for i := range forms {
		forms[i] = Form(i)
	}
	return forms
}

// String returns the name of the GGUF type.
func (f Form) String() string {
	if f < 0 || f >= numForms {
		return fmt.Sprintf("Form(%d)", int(f))
	}
	return layouts[f].name
}

// Columns is the number that the columns of a matrix must be a multiple of: 32 or
// 256.
func (f Form) Columns() int { return BlockColumns * layouts[f].headerBlocks() }

// Bytes returns the size of a packed matrix of rows × k.
func (f Form) Bytes(rows, k int) int { return Groups(rows) * layouts[f].groupBytes(k/BlockColumns) }

// Groups returns the number of 16-row groups that hold the given rows.
func Groups(rows int) int { return (rows + GroupRows - 1) / GroupRows }

// headerBlocks is the number of blocks for each header.
func (l *layout) headerBlocks() int {
	if l.super {
		return superBlocks
	}
	return 1
}

// scalesAt is where the scales of a block begin: after 16·32 codes.
func (l *layout) scalesAt() int { return GroupRows * BlockColumns / 8 * l.bits }

// minimumsAt is where the minimums of a block begin.
func (l *layout) minimumsAt() int { return l.scalesAt() + l.parts()*l.factorBytes() }

// factorBytes is the size of 16 scales or minimums: bytes, or f16.
func (l *layout) factorBytes() int {
	if l.super {
		return GroupRows
	}
	return 2 * GroupRows
}

func (l *layout) blockBytes() int {
	if l.minimum {
		return l.minimumsAt() + l.factorBytes()
	}
	return l.minimumsAt()
}

func (l *layout) headerBytes() int {
	switch {
	case l.super && l.minimum:
		return 4 * GroupRows
	case l.super:
		return 2 * GroupRows
	}
	return 0
}

// groupBytes is the size of a group of so many blocks, headers included.
func (l *layout) groupBytes(blocks int) int {
	return blocks*l.blockBytes() + blocks/l.headerBlocks()*l.headerBytes()
}

// blockAt is where block b of a group begins, and the header that it belongs to.
func (l *layout) blockAt(b int) (block, header int) {
	n := l.headerBlocks()
	header = b / n * (n*l.blockBytes() + l.headerBytes())
	return header + l.headerBytes() + b%n*l.blockBytes(), header
}

// parts is the number of scales that a row has in a block.
func (l *layout) parts() int {
	if l.halves {
		return 2
	}
	return 1
}

// block is one block of a group, unpacked: a weight is scale·code + minimum.
type block struct {
	codes    [BlockColumns * GroupRows]int16 // [columns/4, rows, 4], less their zero
	scales   [2][GroupRows]float32           // of the parts
	minimums [GroupRows]float32
}

// unpack reads block b of a group.
func (l *layout) unpack(out *block, group []byte, b int) {
	at, header := l.blockAt(b)
	src := group[at : at+l.blockBytes()]
	for column := range BlockColumns / 4 {
		l.column(out.codes[64*column:][:64], src, column)
	}
	for part := range l.parts() {
		for r := range GroupRows {
			out.scales[part][r] = l.factor(src, l.scalesAt()+part*GroupRows, group[header:], 0, r)
		}
	}
	if l.minimum {
		for r := range GroupRows {
			out.minimums[r] = l.factor(src, l.minimumsAt(), group[header:], 2*GroupRows, r)
		}
	}
}

// column reads the codes of four columns of all rows.
func (l *layout) column(out []int16, src []byte, column int) {
	if l.bits == 8 {
		for i, b := range src[64*column:][:64] {
			out[i] = int16(int8(b))
		}
		return
	}
	shift := 4 * (column % 2)
	for i, b := range src[64*(column/2):][:64] {
		out[i] = int16(b>>shift&15) - int16(l.zero)
	}
	width := l.bits - 4 // of the upper bits, which lie in planes after the nibbles
	if width == 0 {
		return
	}
	bit, mask := column*width, byte(1)<<width-1
	for i, b := range src[256+64*(bit/8):][:64] {
		out[i] += int16(b>>(bit%8)&mask) << 4
	}
}

// factor reads row r of the scales or minimums at an offset of the block; at is
// the place of their factors in the header.
func (l *layout) factor(src []byte, offset int, header []byte, at, r int) float32 {
	if !l.super {
		return F32FromF16(binary.LittleEndian.Uint16(src[offset+2*r:]))
	}
	factor := F32FromF16(binary.LittleEndian.Uint16(header[at+2*r:]))
	if l.halves {
		return float32(int8(src[offset+r])) * factor
	}
	return float32(src[offset+r]) * factor
}

// UnpackRow sets dst to row r of a packed group, in f32: as exact as its type, whose
// scale times code is rounded before the minimum is added.
func (f Form) UnpackRow(dst []float32, group []byte, r int) {
	l := &layouts[f]
	for b := range len(dst) / BlockColumns {
		l.unpackRow(dst[b*BlockColumns:][:BlockColumns], group, b, r)
	}
}

// unpackRow reads row r of block b.
func (l *layout) unpackRow(dst []float32, group []byte, b, r int) {
	at, header := l.blockAt(b)
	src := group[at : at+l.blockBytes()]
	var minimum float32
	if l.minimum {
		minimum = l.factor(src, l.minimumsAt(), group[header:], 2*GroupRows, r)
	}
	for i := range dst {
		scale := l.factor(src, l.scalesAt()+i*l.parts()/BlockColumns*GroupRows, group[header:], 0, r)
		w := scale * float32(l.code(src, i/4, 4*r+i%4)-l.zero)
		if l.minimum {
			w = float32(w) + minimum
		}
		dst[i] = w
	}
}

// code reads the code at byte i of a line of four columns.
func (l *layout) code(src []byte, column, i int) int {
	if l.bits == 8 {
		return int(int8(src[64*column+i]))
	}
	q := int(src[64*(column/2)+i]) >> (4 * (column % 2)) & 15
	if width := l.bits - 4; width > 0 {
		bit := column * width
		q |= int(src[256+64*(bit/8)+i]) >> (bit % 8) & (1<<width - 1) << 4
	}
	return q
}
