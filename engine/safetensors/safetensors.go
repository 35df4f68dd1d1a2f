// Package safetensors reads the container of Hugging Face weights: a header of
// names, types, shapes and places, and the bytes of the tensors.
//
// A file is hostile until proven otherwise: the header's length is bounded, and
// every tensor must lie inside the file with the size that its type and shape
// need, one after the other, without gap or overlap. The format is that of
// https://github.com/huggingface/safetensors, section "Format".
package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The format's limits, and some that no writer comes near.
const (
	maxHeader = 100_000_000 // bytes, as the reference implementation has it
	maxName   = 1024        // bytes
	maxDims   = 8
)

// metadataKey is the one key of the header that is no tensor.
const metadataKey = "__metadata__"

// File is a parsed file. It is not changed after Parse.
type File struct {
	// Metadata are the strings that the writer added, mostly {"format": "pt"}.
	Metadata map[string]string
	// Tensors are in the order of their bytes.
	Tensors []Tensor
}

// Tensor is a named tensor.
type Tensor struct {
	Name string
	// Type is the format's word: F32, F16, BF16, …
	Type string
	// Shape has the outermost dimension first. A single value has none.
	Shape []uint64
	// Data are the elements in row-major order, little-endian: a view of what
	// Parse was given.
	Data []byte
}

// info is what the header says of a tensor.
type info struct {
	Type    string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"` // from and to, after the header
	name    string
}

// Parse reads a whole file held in memory. The File keeps views of data.
func Parse(data []byte) (*File, error) {
	header, body, err := split(data)
	if err != nil {
		return nil, err
	}
	var entries map[string]jsontext.Value
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("the header is damaged: %w", err)
	}
	f := &File{}
	if meta, ok := entries[metadataKey]; ok {
		if err := json.Unmarshal(meta, &f.Metadata); err != nil {
			return nil, fmt.Errorf("%s: %w", metadataKey, err)
		}
		delete(entries, metadataKey)
	}
	infos := make([]info, 0, len(entries))
	for name, entry := range entries {
		i, err := parseInfo(name, entry)
		if err != nil {
			return nil, fmt.Errorf("tensor %.80q: %w", name, err)
		}
		infos = append(infos, i)
	}
	// Empty tensors share a place; the name makes the order one.
	slices.SortFunc(infos, func(a, b info) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]), cmp.Compare(a.name, b.name))
	})
	return f, f.place(infos, body)
}

// split cuts a file into header and body.
func split(data []byte) (header, body []byte, err error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("%d bytes are no safetensors file: it is truncated, download it again", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	switch {
	case n > maxHeader:
		return nil, nil, fmt.Errorf("the header has %d bytes, at most %d are allowed: not a safetensors file, or a damaged one; is it a web page or a Git LFS pointer", n, maxHeader)
	case n > uint64(len(data)-8):
		return nil, nil, fmt.Errorf("the header has %d bytes, but the file ends at byte %d: it is truncated, download it again", n, len(data))
	case n == 0 || data[8] != '{':
		return nil, nil, errors.New("the header is not a JSON object: not a safetensors file, or a damaged one")
	}
	return data[8 : 8+n], data[8+n:], nil
}

func parseInfo(name string, entry jsontext.Value) (i info, err error) {
	if name == "" || len(name) > maxName {
		return i, fmt.Errorf("the name has %d bytes, want 1 to %d", len(name), maxName)
	}
	if err := json.Unmarshal(entry, &i); err != nil {
		return i, err
	}
	i.name = name
	if len(i.Shape) > maxDims {
		return i, fmt.Errorf("%d dimensions, at most %d are allowed", len(i.Shape), maxDims)
	}
	if len(i.Offsets) != 2 || i.Offsets[0] > i.Offsets[1] {
		return i, fmt.Errorf("data_offsets are %d, want a beginning and an end", i.Offsets)
	}
	want, err := byteSize(i.Type, i.Shape)
	if err != nil {
		return i, err
	}
	if got := i.Offsets[1] - i.Offsets[0]; got != want {
		return i, fmt.Errorf("data_offsets hold %d bytes, shape %d of %s needs %d", got, i.Shape, i.Type, want)
	}
	return i, nil
}

// place gives each tensor its bytes.
func (f *File) place(infos []info, body []byte) error {
	end := uint64(0)
	for _, i := range infos {
		switch {
		case i.Offsets[0] < end:
			return fmt.Errorf("tensor %q overlaps the one before it: the file is damaged", i.name)
		case i.Offsets[0] > end:
			return fmt.Errorf("%d bytes before tensor %q belong to no tensor: the file is damaged", i.Offsets[0]-end, i.name)
		case i.Offsets[1] > uint64(len(body)):
			return fmt.Errorf("tensor %q ends %d bytes after the file: it is truncated, download it again", i.name, i.Offsets[1]-uint64(len(body)))
		}
		end = i.Offsets[1]
		f.Tensors = append(f.Tensors, Tensor{i.name, i.Type, i.Shape, body[i.Offsets[0]:end:end]})
	}
	if end != uint64(len(body)) {
		return fmt.Errorf("%d bytes at the end belong to no tensor: the file is damaged", uint64(len(body))-end)
	}
	return nil
}

// byteSize returns the bytes of a tensor.
func byteSize(dtype string, shape []uint64) (uint64, error) {
	n := elementBytes(dtype)
	if n == 0 {
		return 0, fmt.Errorf("dtype %.40q is not known", dtype)
	}
	for _, d := range shape {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 {
			return 0, fmt.Errorf("shape %d has more bytes than can be addressed", shape)
		}
		n = lo
	}
	return n, nil
}

// elementBytes is the size of a type, 0 of one that is not known: those of less
// than a byte are not.
func elementBytes(dtype string) uint64 {
	switch dtype {
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0":
		return 1
	case "U16", "I16", "F16", "BF16":
		return 2
	case "U32", "I32", "F32":
		return 4
	case "U64", "I64", "F64", "C64":
		return 8
	}
	return 0
}
