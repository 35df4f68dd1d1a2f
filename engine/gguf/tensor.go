package gguf

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Tensor is one named tensor of the file.
type Tensor struct {
	Name string
	Type DType
	// Shape has 1 to 4 dimensions in GGUF's order: Shape[0] is the length of a
	// row, whose elements lie side by side. A matrix that maps k inputs to n
	// outputs has the shape [k, n].
	Shape []uint64
	// Data holds the rows one after the other, Type.RowBytes(Shape[0]) bytes
	// each. It is a view of the file: read only, and only until Close.
	Data []byte
}

// Elements returns the number of elements.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.tensors[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// A tensorInfo is what the head of the file says of a tensor.
type tensorInfo struct {
	offset uint64 // from the start of the data section
	size   uint64 // in bytes
}

// parseTensorInfos fills f.Tensors except for Data.
func (f *File) parseTensorInfos(c *cursor, count uint64) ([]tensorInfo, error) {
	var infos []tensorInfo
	for i := range count {
		t, info, err := parseTensorInfo(c)
		if err != nil {
			return nil, fmt.Errorf("tensor %d of %d: %w", i+1, count, err)
		}
		if _, ok := f.tensors[t.Name]; ok {
			return nil, fmt.Errorf("tensor %d of %d: name %q appears twice", i+1, count, t.Name)
		}
		f.tensors[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
		infos = append(infos, info)
	}
	return infos, nil
}

func parseTensorInfo(c *cursor) (t Tensor, info tensorInfo, err error) {
	at := c.pos
	name, err := c.text("the name", maxNameBytes)
	if err != nil {
		return t, info, err
	}
	t.Name = string(name)
	fail := func(format string, args ...any) (Tensor, tensorInfo, error) {
		return t, info, fmt.Errorf("byte %d: tensor %q: %w", at, t.Name, fmt.Errorf(format, args...))
	}
	if t.Name == "" {
		return fail("the name is empty: the file is damaged, download it again")
	}
	numDims, err := c.u32("the number of dimensions")
	if err != nil {
		return fail("%w", err)
	}
	if numDims > maxDims { // byteSize has the other checks; this one is for make
		return fail("%d dimensions, want 1 to %d", numDims, maxDims)
	}
	t.Shape = make([]uint64, numDims)
	for i := range t.Shape {
		if t.Shape[i], err = c.u64("a dimension"); err != nil {
			return fail("%w", err)
		}
	}
	typ, err := c.u32("the type")
	if err != nil {
		return fail("%w", err)
	}
	t.Type = DType(typ)
	if info.size, err = byteSize(t.Type, t.Shape); err != nil {
		return fail("%w", err)
	}
	if info.offset, err = c.u64("the offset"); err != nil {
		return fail("%w", err)
	}
	return t, info, nil
}

// byteSize returns the bytes that a tensor takes, or an error where its shape
// is impossible.
func byteSize(t DType, shape []uint64) (uint64, error) {
	if len(shape) < 1 || len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, want 1 to %d", len(shape), maxDims)
	}
	if !t.known() {
		return 0, fmt.Errorf("unknown type %d: the file is damaged or newer than this reader", uint32(t))
	}
	elements := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(elements, d)
		if hi != 0 || lo > 1<<62 {
			return 0, fmt.Errorf("shape %d has more elements than can be addressed", shape)
		}
		elements = lo
	}
	if elements == 0 {
		return 0, fmt.Errorf("shape %d is empty", shape)
	}
	block := uint64(t.BlockLen())
	if shape[0]%block != 0 {
		return 0, fmt.Errorf("a row of %d elements is not whole blocks of %d, as type %s needs", shape[0], block, t)
	}
	hi, size := bits.Mul64(elements/block, uint64(t.BlockBytes()))
	if hi != 0 {
		return 0, fmt.Errorf("shape %d has more bytes than can be addressed", shape)
	}
	return size, nil
}

// placeTensors gives each tensor its Data, in the section that begins at the
// first aligned byte after the head.
func (f *File) placeTensors(head int, alignment uint64, infos []tensorInfo) error {
	if len(infos) == 0 {
		return nil
	}
	end := uint64(len(f.data))
	start := (uint64(head) + alignment - 1) &^ (alignment - 1)
	for i, info := range infos {
		t := &f.Tensors[i]
		if info.offset%alignment != 0 {
			return fmt.Errorf("tensor %q: offset %d is not a multiple of the alignment %d", t.Name, info.offset, alignment)
		}
		from, carry := bits.Add64(start, info.offset, 0)
		to, carry2 := bits.Add64(from, info.size, 0)
		if carry+carry2 != 0 {
			return fmt.Errorf("tensor %q: offset %d is beyond every file: the file is damaged, download it again", t.Name, info.offset)
		}
		if to > end {
			return fmt.Errorf("file ends at byte %d, tensor %q needs %d more: it is truncated, download it again", end, t.Name, to-end)
		}
		t.Data = f.data[from:to:to]
	}
	return f.checkOverlap(infos)
}

// checkOverlap refuses files in which two tensors share bytes: no writer makes
// them, and a small file could claim any number of tensors of its own size.
func (f *File) checkOverlap(infos []tensorInfo) error {
	order := make([]int, len(infos))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(infos[a].offset, infos[b].offset) })
	for i, at := range order[1:] {
		before := order[i]
		if infos[before].offset+infos[before].size > infos[at].offset {
			return fmt.Errorf("tensors %q and %q overlap: the file is damaged, download it again", f.Tensors[before].Name, f.Tensors[at].Name)
		}
	}
	return nil
}
