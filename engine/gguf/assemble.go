package gguf

import (
	"bytes"
	"fmt"
	"sync"
)

// Assemble makes a File of metadata and tensors that come from another format,
// for those who read model files: their tensors are views of what the caller
// has, and Close calls release, once.
func Assemble(metadata []KeyValue, tensors []Tensor, release func() error) (*File, error) {
	var head bytes.Buffer
	if err := Write(&head, metadata, nil); err != nil {
		return nil, err
	}
	f, err := Parse(head.Bytes())
	if err != nil {
		return nil, fmt.Errorf("metadata of another format: %w", err)
	}
	for _, t := range tensors {
		size, err := byteSize(t.Type, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if size != uint64(len(t.Data)) {
			return nil, fmt.Errorf("tensor %q: %d bytes of data, shape %d of %s needs %d", t.Name, len(t.Data), t.Shape, t.Type, size)
		}
		if _, ok := f.tensors[t.Name]; ok || t.Name == "" || len(t.Name) > maxNameBytes {
			return nil, fmt.Errorf("tensor %.80q: the name is taken, empty or too long", t.Name)
		}
		f.tensors[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	f.unmap = func([]byte) error { return release() }
	return f, nil
}

// Map maps a file read-only, as Open does, for formats whose tensors are views
// of their file too. The data is valid until unmap is called.
func Map(path string) (data []byte, unmap func() error, err error) {
	data, end, err := mapFile(path)
	if err != nil {
		return nil, nil, err
	}
	return data, sync.OnceValue(func() error { return end(data) }), nil
}
