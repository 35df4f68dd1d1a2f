package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// The format's limits and constants.
const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	maxKeyBytes      = 65535 // gguf.md: keys are at most 2^16-1 bytes long
	maxNameBytes     = 64    // gguf.md: tensor names are at most 64 bytes long
	maxDims          = 4     // gguf.md: "currently at most 4"
)

// File is one parsed model file. It is not changed after Open or Parse, so any
// number of goroutines may read it until Close.
type File struct {
	// Version is the format's version, 2 or 3.
	Version uint32
	// Tensors lists the tensors in the file's order. The Data of each is a view
	// of the file that ends with Close.
	Tensors []Tensor

	keys    []string         // in the file's order
	values  map[string]value // views of data
	tensors map[string]int   // name → index in Tensors

	data  []byte
	unmap func([]byte) error // nil when data belongs to the caller or is closed

	mapped bool // data is of Open, not of a caller
}

// Open maps the file at path read-only and parses it. Its pages are read on first
// use: see Guard for what happens if the file is truncated before.
func Open(path string) (*File, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	var f *File
	err = Guard(func() (err error) {
		f, err = Parse(data)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
		if e := unmap(data); e != nil {
			err = fmt.Errorf("%w (then unmapping it: %w)", err, e)
		}
		return nil, err
	}
	f.unmap, f.mapped = unmap, true
	return f, nil
}

// Close ends the mapping. Tensor data must not be touched afterwards; strings
// and slices returned by the metadata methods are copies and stay valid.
// Further calls do nothing.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap, data := f.unmap, f.data
	f.unmap, f.data = nil, nil
	if err := unmap(data); err != nil {
		return fmt.Errorf("unmap model file: %w", err)
	}
	return nil
}

// Unload gives back the memory of a tensor's pages if its Data is the mapped file's:
// call it when Data has been copied. It may be read again later.
func (f *File) Unload(t Tensor) {
	if !f.mapped || len(t.Data) == 0 || len(f.data) == 0 {
		return
	}
	// Data that was quantised or assembled is elsewhere, and would be lost.
	start, at := uintptr(unsafe.Pointer(&f.data[0])), uintptr(unsafe.Pointer(&t.Data[0]))
	if at >= start && at-start < uintptr(len(f.data)) {
		Forget(t.Data)
	}
}

// Parse reads a whole file held in memory. The File keeps views of data.
func Parse(data []byte) (*File, error) {
	f := &File{
		data:    data,
		values:  make(map[string]value),
		tensors: make(map[string]int),
	}
	c := &cursor{data: data}
	numTensors, numKeys, err := f.parseHeader(c)
	if err != nil {
		return nil, err
	}
	for i := range numKeys {
		if err := f.parseKey(c); err != nil {
			return nil, fmt.Errorf("metadata key %d of %d: %w", i+1, numKeys, err)
		}
	}
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	infos, err := f.parseTensorInfos(c, numTensors)
	if err != nil {
		return nil, err
	}
	if err := f.placeTensors(c.pos, alignment, infos); err != nil {
		return nil, err
	}
	return f, nil
}

// parseHeader checks magic and version and returns the two counts. Counts are
// not trusted further than the loops that read the entries one by one.
func (f *File) parseHeader(c *cursor) (numTensors, numKeys uint64, err error) {
	b, err := c.take(uint64(len(magic)), "the magic")
	if err != nil {
		return 0, 0, err
	}
	if string(b) != magic {
		return 0, 0, fmt.Errorf("byte 0: not a GGUF file: it starts with %q, want %q; is it the model itself, and not a web page, a Git LFS pointer or another format", b, magic)
	}
	b, err = c.take(4, "the version")
	if err != nil {
		return 0, 0, err
	}
	f.Version = binary.LittleEndian.Uint32(b)
	switch {
	case f.Version == 2 || f.Version == 3:
	case f.Version&0xffff == 0 && f.Version != 0:
		return 0, 0, fmt.Errorf("byte 4: big-endian GGUF version %d; only little-endian files are supported, convert it", binary.BigEndian.Uint32(b))
	default:
		return 0, 0, fmt.Errorf("byte 4: GGUF version %d; versions 2 and 3 are supported, convert the file", f.Version)
	}
	if numTensors, err = c.u64("the tensor count"); err != nil {
		return 0, 0, err
	}
	if numKeys, err = c.u64("the metadata count"); err != nil {
		return 0, 0, err
	}
	return numTensors, numKeys, nil
}

func (f *File) parseKey(c *cursor) error {
	at := c.pos
	b, err := c.text("the key", maxKeyBytes)
	if err != nil {
		return err
	}
	key := string(b)
	if key == "" {
		return fmt.Errorf("byte %d: the key is empty: the file is damaged, download it again", at)
	}
	if _, ok := f.values[key]; ok {
		return fmt.Errorf("byte %d: key %q appears twice", at, key)
	}
	v, err := parseValue(c)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	f.keys = append(f.keys, key)
	f.values[key] = v
	return nil
}

// alignment returns the distance in bytes to which tensor data is aligned.
func (f *File) alignment() (uint64, error) {
	v, ok := f.values[alignmentKey]
	if !ok {
		return defaultAlignment, nil
	}
	n, ok := v.uint()
	if !ok {
		return 0, fmt.Errorf("key %q: found %s, want an unsigned integer", alignmentKey, v)
	}
	if n == 0 || n&(n-1) != 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("key %q: %d is not a power of two below 2^31", alignmentKey, n)
	}
	return n, nil
}
