package cuda

import (
	"encoding/binary"
	"fmt"
)

// Format is a type of matrix elements, in files and on the device. The numbers
// are those of formats.cuh.
type Format int32

// The formats, named as in GGUF. Source of the blocks: ggml/src/ggml-common.h.
const (
	F32 Format = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q4_K
	Q5_K
	Q6_K
	NumFormats
)

// form says how a format's blocks look in a file and its rows on the device.
type form struct {
	name             string
	elements, bytes  int // of a block in the file
	codes, high      int // bytes for 32 columns in the planes of the device
	scales, perScale int // bytes of a record of scales, and the columns that it is for
	pack, unpack     func(p Planes, block []byte)
}

var forms = [NumFormats]form{
	F32:  {name: "F32", elements: 1, bytes: 4, codes: 128},
	F16:  {name: "F16", elements: 1, bytes: 2, codes: 64},
	BF16: {name: "BF16", elements: 1, bytes: 2, codes: 64},
	Q8_0: {name: "Q8_0", elements: 32, bytes: 34, codes: 32, scales: 2, perScale: 32},
	Q4_0: {name: "Q4_0", elements: 32, bytes: 18, codes: 16, scales: 2, perScale: 32},
	Q4_1: {name: "Q4_1", elements: 32, bytes: 20, codes: 16, scales: 4, perScale: 32},
	Q5_0: {name: "Q5_0", elements: 32, bytes: 22, codes: 16, high: 4, scales: 2, perScale: 32},
	Q5_1: {name: "Q5_1", elements: 32, bytes: 24, codes: 16, high: 4, scales: 4, perScale: 32},
	Q4_K: {name: "Q4_K", elements: 256, bytes: 144, codes: 16, scales: 16, perScale: 256},
	Q5_K: {name: "Q5_K", elements: 256, bytes: 176, codes: 16, high: 4, scales: 16, perScale: 256},
	Q6_K: {name: "Q6_K", elements: 256, bytes: 210, codes: 16, high: 8, scales: 20, perScale: 256},
}

// String is GGUF's name of the format.
func (f Format) String() string {
	if f < 0 || f >= NumFormats {
		return fmt.Sprintf("format %d", int32(f))
	}
	return forms[f].name
}

// NumPlanes is the number of planes of a matrix: codes, high bits and scales.
const NumPlanes = 3

// Planes are the bytes of some rows of a matrix, plane by plane.
type Planes [NumPlanes][]byte

// Layout is a matrix on the device: one piece of memory with three planes, each
// with the rows one after the other. A warp reads 16 bytes a lane side by side
// from the first; what is needed less often is in the others. The codes are those
// of the file, in another order: no weight changes its value.
//
//	codes   F32, F16 and BF16: the elements. Q8_0: int8. The others: 16 bytes for
//	        32 columns; byte j has column j in its low half and column j+16 in its
//	        high half.
//	high    Q5: bit c of a word for each 32 columns is column c's fifth bit. Q6_K:
//	        two words for each 32 columns; bits 2c and 2c+1 of word w are the high
//	        bits of column 16w+c.
//	scales  Q8_0, Q4_0 and Q5_0: a half for 32 columns. Q4_1 and Q5_1: two halves,
//	        scale and minimum. Q4_K and Q5_K: the 16 bytes for 256 columns that the
//	        file has. Q6_K: 16 int8, a half and two bytes of nothing for 256
//	        columns.
type Layout struct {
	// Format is the device's, Source the file's. They differ for F16 and BF16 whose
	// rows are not whole runs of 32 columns: these are F32 on the device.
	Format, Source Format
	// Rows and Cols are those of W in y = W·x.
	Rows, Cols int
}

// NewLayout lays a matrix of a file's format out.
func NewLayout(source Format, rows, cols int) (Layout, error) {
	if source < 0 || source >= NumFormats {
		return Layout{}, fmt.Errorf("matrix of %v: use one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K", source)
	}
	const most = 1<<31 - 1
	if rows < 1 || cols < 1 || rows > most || cols > maxCols {
		return Layout{}, fmt.Errorf("matrix of %d rows and %d columns: 1 to %d rows and 1 to %d columns are supported", rows, cols, most, maxCols)
	}
	if n := forms[source].elements; cols%n != 0 {
		return Layout{}, fmt.Errorf("matrix of %v with %d columns: a row must be whole blocks of %d columns", source, cols, n)
	}
	l := Layout{Format: source, Source: source, Rows: rows, Cols: cols}
	if (source == F16 || source == BF16) && cols%unit != 0 {
		l.Format = F32
	}
	return l, nil
}

// maxCols keeps every offset within a row, in bytes, in an int32.
const maxCols = 1 << 24

// unit is the number of columns that the kernels of quantised formats treat as one.
const unit = 32

// RowBytes is what a row takes in a plane; 0 where the format has no such plane.
func (l Layout) RowBytes(plane int) int {
	f := &forms[l.Format]
	switch {
	case plane == 0 && l.Format == F32:
		return (l.Cols + 3) / 4 * 16 // lanes read 16 bytes
	case plane == 0:
		return l.Cols / unit * f.codes
	case plane == 1:
		return l.Cols / unit * f.high
	case f.scales == 0:
		return 0
	}
	return (l.Cols/f.perScale*f.scales + 3) &^ 3 // copied by 4 bytes
}

// Offset is where a plane begins in the matrix's memory: a multiple of 256, which is
// also what the memory itself must be aligned to.
func (l Layout) Offset(plane int) int64 {
	var at int64
	for p := range plane {
		at += (int64(l.Rows)*int64(l.RowBytes(p)) + 255) &^ 255
	}
	return at
}

// Bytes is the memory that the matrix takes.
func (l Layout) Bytes() int64 { return l.Offset(NumPlanes) }

// SourceRowBytes is what a row takes in the file.
func (l Layout) SourceRowBytes() int {
	f := &forms[l.Source]
	return l.Cols / f.elements * f.bytes
}

// StageBytes is the memory that Carve needs for some rows.
func (l Layout) StageBytes(rows int) int {
	return rows * (l.RowBytes(0) + l.RowBytes(1) + l.RowBytes(2))
}

// Carve divides a buffer of StageBytes(rows) into the planes of so many rows, one
// directly after the other. Plane p of rows from … then belongs at
// Offset(p) + from·RowBytes(p).
func (l Layout) Carve(buffer []byte, rows int) Planes {
	var p Planes
	for i := range p {
		n := rows * l.RowBytes(i)
		p[i], buffer = buffer[:n:n], buffer[n:]
	}
	return p
}

// Pack moves rows from the file's blocks into planes that Carve has divided for them.
func (l Layout) Pack(dst Planes, blocks []byte, rows int) error {
	if len(blocks) != rows*l.SourceRowBytes() {
		return fmt.Errorf("pack %d rows of %v: %d bytes of blocks, want %d", rows, l.Source, len(blocks), rows*l.SourceRowBytes())
	}
	for i := range dst {
		if len(dst[i]) != rows*l.RowBytes(i) {
			return fmt.Errorf("pack %d rows of %v: %d bytes for plane %d, want %d", rows, l.Source, len(dst[i]), i, rows*l.RowBytes(i))
		}
	}
	for row := range rows {
		l.packRow(l.row(dst, row), blocks[row*l.SourceRowBytes():][:l.SourceRowBytes()])
	}
	return nil
}

// Unpack is Pack's inverse: the blocks of rows in the format of the device, which is
// F32 where that of the file is not kept.
func (l Layout) Unpack(dst []byte, src Planes, rows int) error {
	l.Source = l.Format
	size := l.SourceRowBytes()
	if len(dst) != rows*size {
		return fmt.Errorf("unpack %d rows of %v: %d bytes for blocks, want %d", rows, l.Format, len(dst), rows*size)
	}
	for row := range rows {
		l.unpackRow(dst[row*size:][:size], l.row(src, row))
	}
	return nil
}

// row is one row's part of some rows' planes.
func (l Layout) row(p Planes, row int) Planes {
	for i := range p {
		n := l.RowBytes(i)
		p[i] = p[i][row*n : (row+1)*n]
	}
	return p
}

func (l Layout) packRow(dst Planes, src []byte) {
	switch {
	case l.Format != l.Source:
		widen(dst[0], src, l.Source)
	case l.Format <= BF16:
		clear(dst[0][copy(dst[0], src):])
	default:
		clear(dst[2]) // not all of it is used
		f := &forms[l.Format]
		for i := range l.Cols / f.elements {
			f.pack(f.at(dst, i), src[i*f.bytes:][:f.bytes])
		}
	}
}

func (l Layout) unpackRow(dst []byte, src Planes) {
	if l.Format <= BF16 {
		copy(dst, src[0])
		return
	}
	f := &forms[l.Format]
	for i := range l.Cols / f.elements {
		f.unpack(f.at(src, i), dst[i*f.bytes:][:f.bytes])
	}
}

// at is the part of a row's planes from block i on. A record of scales is for one block.
func (f *form) at(p Planes, i int) Planes {
	units := i * f.elements / unit
	return Planes{p[0][units*f.codes:], p[1][units*f.high:], p[2][i*f.scales:]}
}

// widen converts halves to float32, which holds each exactly, and clears what a row
// of whole 16 bytes has beyond them.
func widen(dst, src []byte, from Format) {
	n := 0
	for ; len(src) > 0; src, n = src[2:], n+4 {
		h := uint32(binary.LittleEndian.Uint16(src))
		bits := h << 16
		if from == F16 {
			bits = halfBits(h)
		}
		binary.LittleEndian.PutUint32(dst[n:], bits)
	}
	clear(dst[n:])
}
