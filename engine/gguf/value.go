package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrNoKey is wrapped by the metadata methods when the file lacks the key, so
// that callers can tell an absent key, which may have a default, from one of
// the wrong type, which is a fault.
var ErrNoKey = errors.New("no such metadata key")

// A valueType is the format's number for the type of a metadata value.
type valueType uint32

const (
	typeUint8 valueType = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
	numTypes
)

// valueTypes gives each type its name in gguf.md and its size in bytes; a
// string's size is that of its length, an array's that of its head.
var valueTypes = [numTypes]struct {
	name string
	size uint64
}{
	{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"int32", 4},
	{"float32", 4}, {"bool", 1}, {"string", 8}, {"array", 12}, {"uint64", 8}, {"int64", 8}, {"float64", 8},
}

func (t valueType) String() string {
	if t >= numTypes {
		return "type " + strconv.FormatUint(uint64(t), 10)
	}
	return valueTypes[t].name
}

func (t valueType) integer() bool {
	return t <= typeInt32 || t == typeUint64 || t == typeInt64
}

// A value is one metadata value, left in the file's bytes until it is asked
// for: a vocabulary is decoded only by the one who wants it.
type value struct {
	typ   valueType
	elem  valueType // element type of an array
	count uint64    // elements of an array
	raw   []byte    // the value; a string without its length, an array without its head
}

// String names the value's type for error messages.
func (v value) String() string {
	if v.typ == typeArray {
		return fmt.Sprintf("array of %d %s", v.count, v.elem)
	}
	return v.typ.String()
}

func parseValue(c *cursor) (value, error) {
	at := c.pos
	n, err := c.u32("the value's type")
	if err != nil {
		return value{}, err
	}
	v := value{typ: valueType(n)}
	switch {
	case v.typ >= numTypes:
		return value{}, fmt.Errorf("byte %d: unknown value type %d: the file is damaged or newer than this reader", at, n)
	case v.typ == typeArray:
		return parseArray(c)
	case v.typ == typeString:
		v.raw, err = c.text("the string", math.MaxUint64)
	default:
		at = c.pos
		v.raw, err = c.take(valueTypes[v.typ].size, v.typ.String())
		if err == nil && v.typ == typeBool && v.raw[0] > 1 {
			err = fmt.Errorf("byte %d: bool is %d, want 0 or 1: the file is damaged, download it again", at, v.raw[0])
		}
	}
	return v, err
}

func parseArray(c *cursor) (value, error) {
	at := c.pos
	n, err := c.u32("the array's element type")
	if err != nil {
		return value{}, err
	}
	v := value{typ: typeArray, elem: valueType(n)}
	if v.elem >= numTypes {
		return value{}, fmt.Errorf("byte %d: unknown array element type %d: the file is damaged or newer than this reader", at, n)
	}
	if v.elem == typeArray {
		return value{}, fmt.Errorf("byte %d: arrays of arrays are not supported", at)
	}
	if v.count, err = c.u64("the array's length"); err != nil {
		return value{}, err
	}
	size := valueTypes[v.elem].size
	if v.count > c.left()/size {
		return value{}, fmt.Errorf("byte %d: %s needs at least %d bytes each, but the file ends at byte %d: it is truncated or damaged, download it again",
			at, v, size, len(c.data))
	}
	start := c.pos
	if v.elem != typeString {
		v.raw, err = c.take(v.count*size, "the array")
		return v, err
	}
	for range v.count {
		if _, err := c.text("a string of the array", math.MaxUint64); err != nil {
			return value{}, err
		}
	}
	v.raw = c.data[start:c.pos:c.pos]
	return v, nil
}

// integer reads an integer of the given type as its 64 bits; negative tells
// whether they are to be read as a negative int64.
func integer(t valueType, raw []byte) (bits uint64, negative, ok bool) {
	var n int64
	switch t {
	case typeUint8:
		return uint64(raw[0]), false, true
	case typeUint16:
		return uint64(binary.LittleEndian.Uint16(raw)), false, true
	case typeUint32:
		return uint64(binary.LittleEndian.Uint32(raw)), false, true
	case typeUint64:
		return binary.LittleEndian.Uint64(raw), false, true
	case typeInt8:
		n = int64(int8(raw[0]))
	case typeInt16:
		n = int64(int16(binary.LittleEndian.Uint16(raw)))
	case typeInt32:
		n = int64(int32(binary.LittleEndian.Uint32(raw)))
	case typeInt64:
		n = int64(binary.LittleEndian.Uint64(raw))
	default:
		return 0, false, false
	}
	return uint64(n), n < 0, true
}

func float(t valueType, raw []byte) (float64, bool) {
	switch t {
	case typeFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case typeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}

// uint returns a value of any integer type that is not negative.
func (v value) uint() (uint64, bool) {
	bits, negative, ok := integer(v.typ, v.raw)
	return bits, ok && !negative
}

// texts decodes an array of strings. All strings share one copy of the array,
// so a vocabulary of 262,144 tokens costs two allocations.
func (v value) texts() []string {
	all := string(v.raw)
	out := make([]string, v.count)
	for i := range out {
		n := binary.LittleEndian.Uint64(v.raw[len(v.raw)-len(all):])
		out[i] = all[8 : 8+n]
		all = all[8+n:]
	}
	return out
}

// text prints the value for a person, an array by its first elements.
func (v value) text() string {
	if v.typ != typeArray {
		return scalarText(v.typ, v.raw)
	}
	const shown = 3
	var parts []string
	raw := v.raw
	for range min(v.count, shown) {
		size := valueTypes[v.elem].size
		if v.elem == typeString {
			n := binary.LittleEndian.Uint64(raw)
			raw, size = raw[8:], n
		}
		parts = append(parts, scalarText(v.elem, raw[:size]))
		raw = raw[size:]
	}
	if v.count > shown {
		parts = append(parts, "…")
	}
	return fmt.Sprintf("[%s] (%s)", strings.Join(parts, ", "), v)
}

func scalarText(t valueType, raw []byte) string {
	switch t {
	case typeString:
		return strconv.Quote(string(raw))
	case typeBool:
		return strconv.FormatBool(raw[0] != 0)
	}
	if f, ok := float(t, raw); ok {
		return strconv.FormatFloat(f, 'g', -1, 8*int(valueTypes[t].size))
	}
	bits, negative, _ := integer(t, raw)
	if negative {
		return strconv.FormatInt(int64(bits), 10)
	}
	return strconv.FormatUint(bits, 10)
}
