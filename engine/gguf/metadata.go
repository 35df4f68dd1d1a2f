package gguf

import (
	"fmt"
	"math"
	"slices"
)

// Keys returns the metadata keys in the file's order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Describe prints the value of a key for a person: a string quoted, an array
// by its first elements and its length, an absent key as the empty string.
func (f *File) Describe(key string) string {
	v, ok := f.values[key]
	if !ok {
		return ""
	}
	return v.text()
}

// Text returns a string value.
func (f *File) Text(key string) (string, error) {
	v, err := f.value(key)
	if err != nil {
		return "", err
	}
	if v.typ != typeString {
		return "", wrongType(key, v, "string")
	}
	return string(v.raw), nil
}

// Uint returns a value of any integer type that is not negative.
func (f *File) Uint(key string) (uint64, error) {
	v, err := f.value(key)
	if err != nil {
		return 0, err
	}
	n, ok := v.uint()
	if !ok {
		return 0, wrongType(key, v, "integer that is not negative")
	}
	return n, nil
}

// Float returns a value of either float type.
func (f *File) Float(key string) (float64, error) {
	v, err := f.value(key)
	if err != nil {
		return 0, err
	}
	x, ok := float(v.typ, v.raw)
	if !ok {
		return 0, wrongType(key, v, "float32 or float64")
	}
	return x, nil
}

// Bool returns a boolean value.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.value(key)
	if err != nil {
		return false, err
	}
	if v.typ != typeBool {
		return false, wrongType(key, v, "bool")
	}
	return v.raw[0] != 0, nil
}

// Texts returns an array of strings.
func (f *File) Texts(key string) ([]string, error) {
	v, err := f.array(key, "strings")
	if err != nil {
		return nil, err
	}
	if v.elem != typeString {
		return nil, wrongType(key, v, "array of strings")
	}
	return v.texts(), nil
}

// Ints returns an array of any integer type whose values all fit into int32.
func (f *File) Ints(key string) ([]int32, error) {
	v, err := f.array(key, "integers")
	if err != nil {
		return nil, err
	}
	if !v.elem.integer() {
		return nil, wrongType(key, v, "array of integers")
	}
	out := make([]int32, v.count)
	size := valueTypes[v.elem].size
	for i := range out {
		bits, negative, _ := integer(v.elem, v.raw[uint64(i)*size:])
		n := int64(bits)
		if n != int64(int32(n)) || (n < 0) != negative {
			return nil, fmt.Errorf("key %q: element %d does not fit into 32 bits", key, i)
		}
		out[i] = int32(n)
	}
	return out, nil
}

// Floats returns an array of either float type as float32.
func (f *File) Floats(key string) ([]float32, error) {
	v, err := f.array(key, "floats")
	if err != nil {
		return nil, err
	}
	if v.elem != typeFloat32 && v.elem != typeFloat64 {
		return nil, wrongType(key, v, "array of floats")
	}
	out := make([]float32, v.count)
	size := valueTypes[v.elem].size
	for i := range out {
		x, _ := float(v.elem, v.raw[uint64(i)*size:])
		if math.Abs(x) > math.MaxFloat32 && !math.IsInf(x, 0) {
			return nil, fmt.Errorf("key %q: element %d, %g, does not fit into a float32", key, i, x)
		}
		out[i] = float32(x)
	}
	return out, nil
}

func (f *File) value(key string) (value, error) {
	v, ok := f.values[key]
	if !ok {
		return value{}, fmt.Errorf("key %q: %w", key, ErrNoKey)
	}
	return v, nil
}

func (f *File) array(key, of string) (value, error) {
	v, err := f.value(key)
	if err == nil && v.typ != typeArray {
		err = wrongType(key, v, "array of "+of)
	}
	return v, err
}

func wrongType(key string, v value, want string) error {
	if n, negative, ok := integer(v.typ, v.raw); ok && negative {
		return fmt.Errorf("key %q: found %s %d, want %s", key, v, int64(n), want)
	}
	return fmt.Errorf("key %q: found %s, want %s", key, v, want)
}
