// Package wasm reads the WebAssembly binary format, front to back and without
// trusting it. What the numbers mean is left to its users: the load checks of
// package plugin and the fuel meter.
//
// Source of the format: WebAssembly Core Specification 2.0, chapter 5.
package wasm

import (
	"fmt"
	"unicode/utf8"
)

// Reader reads a stretch of a module. After its first error every read gives
// zero.
type Reader struct {
	bytes []byte // what is left
	at    int    // offset of bytes[0] in the file
	err   error
}

// NewReader reads bytes, which stand at offset at of their file.
func NewReader(bytes []byte, at int) *Reader { return &Reader{bytes: bytes, at: at} }

// Err gives the first error.
func (r *Reader) Err() error { return r.err }

// More reports whether there is something left to read.
func (r *Reader) More() bool { return len(r.bytes) > 0 }

// Offset tells where in the file the next byte stands.
func (r *Reader) Offset() int { return r.at }

// Rest gives what is left, without reading it.
func (r *Reader) Rest() []byte { return r.bytes }

// Fail ends the reading with an error that names the place.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s", r.at, fmt.Sprintf(format, args...))
		r.bytes = nil
	}
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.bytes) == 0 {
		r.Fail("the file is cut off")
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	r.at++
	return b
}

// Uint reads an unsigned LEB128 number of at most bits bits.
func (r *Reader) Uint(bits int) uint64 {
	var v uint64
	for shift := 0; shift < bits; shift += 7 {
		b := r.Byte()
		if r.err != nil {
			return 0
		}
		if left := bits - shift; left < 7 && b&0x7f>>left != 0 {
			break
		}
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
	r.Fail("number of more than %d bits", bits)
	return 0
}

// U32 reads an unsigned number of 32 bits: an index, a count or a size.
func (r *Reader) U32() uint32 { return uint32(r.Uint(32)) }

// Int reads a signed LEB128 number of at most bits bits.
func (r *Reader) Int(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.Byte()
		if r.err != nil {
			return 0
		}
		v |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			continue
		}
		// The sign bit is the last one read; what stands above the number's
		// width repeats it.
		if end := shift + 7; end < 64 {
			v = v << (64 - end) >> (64 - end)
		} else if last := b & 0x7f; last != 0 && last != 0x7f {
			break
		}
		if v>>(bits-1) != 0 && v>>(bits-1) != -1 {
			break
		}
		return v
	}
	r.Fail("number of more than %d bits", bits)
	return 0
}

// Skip passes over n bytes.
func (r *Reader) Skip(n uint32) { r.Sub(n) }

// Sub splits off the next n bytes as a reader of their own.
func (r *Reader) Sub(n uint32) *Reader {
	if int64(n) > int64(len(r.bytes)) {
		r.Fail("%d bytes are announced, %d are left; the file is cut off", n, len(r.bytes))
		return &Reader{at: r.at, err: r.err}
	}
	s := &Reader{bytes: r.bytes[:n:n], at: r.at}
	r.bytes = r.bytes[n:]
	r.at += int(n)
	return s
}

// Each calls read once for each entry of a vector. An entry takes at least
// size bytes, so a count that the section can't hold is refused before
// anything is allocated for it.
func (r *Reader) Each(size int, read func()) {
	n := r.U32()
	if int64(n)*int64(size) > int64(len(r.bytes)) {
		r.Fail("%d entries are announced, %d bytes are left", n, len(r.bytes))
	}
	for range n {
		if r.err != nil {
			return
		}
		read()
	}
}

// Name reads a UTF-8 string.
func (r *Reader) Name() string {
	s := r.Sub(r.U32())
	if s.err == nil && !utf8.Valid(s.bytes) {
		r.Fail("a name is not UTF-8: %q", s.bytes)
	}
	return string(s.bytes)
}

// ValueType reads the type of a value as a letter: i for i32, I for i64, f
// for f32, F for f64, v for a vector, r for a reference.
func (r *Reader) ValueType() byte {
	t := r.Byte()
	if letter := ValueTypeLetter(t); letter != 0 {
		return letter
	}
	r.Fail("value type %#x", t)
	return 0
}

// ValueTypeLetter gives the letter of an encoded value type, 0 for none.
func ValueTypeLetter(t byte) byte {
	switch t {
	case 0x7f:
		return 'i'
	case 0x7e:
		return 'I'
	case 0x7d:
		return 'f'
	case 0x7c:
		return 'F'
	case 0x7b:
		return 'v'
	case 0x70, 0x6f:
		return 'r'
	}
	return 0
}

// FunctionType reads the parameters and results of a function, one letter
// for each.
func (r *Reader) FunctionType() (params, results string) {
	if form := r.Byte(); r.err == nil && form != 0x60 {
		r.Fail("type form %#x; function types (0x60) are supported, build without garbage collection", form)
	}
	return r.valueTypes(), r.valueTypes()
}

func (r *Reader) valueTypes() string {
	var letters []byte
	r.Each(1, func() { letters = append(letters, r.ValueType()) })
	return string(letters)
}

// Limits of a memory in pages, or of a table in entries.
type Limits struct {
	Min    uint64
	Max    uint64 // if Capped
	Capped bool
	Shared bool
	Wide   bool // 64-bit addresses
}

// Limits reads the limits of a memory.
func (r *Reader) Limits() Limits {
	flags := r.Byte()
	if flags > 7 {
		r.Fail("limits with flags %#x", flags)
	}
	l := Limits{Capped: flags&1 != 0, Shared: flags&2 != 0, Wide: flags&4 != 0}
	bits := 32
	if l.Wide {
		bits = 64
	}
	l.Min = r.Uint(bits)
	if l.Capped {
		l.Max = r.Uint(bits)
	}
	return l
}

// Table reads the type of a table: that of its entries and its limits.
func (r *Reader) Table() (entry byte, limits Limits) {
	entry = r.Byte()
	if r.err == nil && entry != 0x70 && entry != 0x6f {
		r.Fail("table of type %#x", entry)
	}
	return entry, r.Limits()
}
