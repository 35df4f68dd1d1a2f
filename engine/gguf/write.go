package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
)

// KeyValue is one metadata entry to be written. Value is one of string, bool,
// the sized integers and floats, or a slice of these types.
type KeyValue struct {
	Key   string
	Value any
}

// Write writes a GGUF file of version 3 with the given metadata and tensors, in
// their order, each tensor aligned to 32 bytes. It serves small files: tests of
// the packages that read models make theirs with it.
func Write(w io.Writer, metadata []KeyValue, tensors []Tensor) error {
	head := []byte(magic)
	head = binary.LittleEndian.AppendUint32(head, 3)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(metadata)))
	for _, kv := range metadata {
		if kv.Key == alignmentKey {
			return fmt.Errorf("write key %q: the alignment is always %d; leave the key out", kv.Key, defaultAlignment)
		}
		var ok bool
		if head, ok = appendValue(appendText(head, kv.Key), kv.Value); !ok {
			return fmt.Errorf("write key %q: a value of Go type %T has no GGUF type", kv.Key, kv.Value)
		}
	}
	var offset uint64
	for _, t := range tensors {
		size, err := byteSize(t.Type, t.Shape)
		if err != nil {
			return fmt.Errorf("write tensor %q: %w", t.Name, err)
		}
		if size != uint64(len(t.Data)) {
			return fmt.Errorf("write tensor %q: %d bytes of data, shape %d of %s needs %d", t.Name, len(t.Data), t.Shape, t.Type, size)
		}
		head = binary.LittleEndian.AppendUint32(appendText(head, t.Name), uint32(len(t.Shape)))
		for _, d := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, d)
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, offset)
		offset += size + uint64(len(padding(size)))
	}
	if _, err := w.Write(append(head, padding(uint64(len(head)))...)); err != nil {
		return fmt.Errorf("write GGUF head: %w", err)
	}
	for _, t := range tensors {
		for _, b := range [][]byte{t.Data, padding(uint64(len(t.Data)))} {
			if _, err := w.Write(b); err != nil {
				return fmt.Errorf("write tensor %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// padding returns the zeros from n to the next aligned byte.
func padding(n uint64) []byte {
	return make([]byte, (defaultAlignment-n%defaultAlignment)%defaultAlignment)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue appends a value's type and bytes; ok is false for Go types that
// the format has no type for.
func appendValue(b []byte, v any) (out []byte, ok bool) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		t, ok := typeOf(r.Kind())
		if !ok {
			return b, false
		}
		return appendElements(binary.LittleEndian.AppendUint32(b, uint32(t)), v)
	}
	elem, ok := typeOf(r.Type().Elem().Kind())
	if !ok {
		return b, false
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(typeArray))
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Len()))
	return appendElements(b, v)
}

// appendElements appends a scalar or the elements of a slice, without type.
func appendElements(b []byte, v any) (out []byte, ok bool) {
	switch v := v.(type) {
	case string:
		return appendText(b, v), true
	case []string:
		for _, s := range v {
			b = appendText(b, s)
		}
		return b, true
	}
	out, err := binary.Append(b, binary.LittleEndian, v)
	return out, err == nil
}

func typeOf(k reflect.Kind) (t valueType, ok bool) {
	switch k {
	case reflect.Uint8:
		return typeUint8, true
	case reflect.Int8:
		return typeInt8, true
	case reflect.Uint16:
		return typeUint16, true
	case reflect.Int16:
		return typeInt16, true
	case reflect.Uint32:
		return typeUint32, true
	case reflect.Int32:
		return typeInt32, true
	case reflect.Uint64:
		return typeUint64, true
	case reflect.Int64:
		return typeInt64, true
	case reflect.Float32:
		return typeFloat32, true
	case reflect.Float64:
		return typeFloat64, true
	case reflect.Bool:
		return typeBool, true
	case reflect.String:
		return typeString, true
	}
	return 0, false
}
