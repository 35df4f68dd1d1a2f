//go:build !linux

package plugin

import "slices"

// memorySpace is room for one linear memory on Go's heap, and a copy of it to
// put its content back.
type memorySpace struct{ bytes, copied []byte }

func newMemorySpace(uint64) (*memorySpace, error) { return &memorySpace{}, nil }

// grow gives a memory of size bytes that begins with what it was. Growing by
// pages doubles the room now and then.
func (s *memorySpace) grow(size int) []byte {
	s.bytes = slices.Grow(s.bytes, size-len(s.bytes))[:size]
	return s.bytes
}

func (s *memorySpace) keep(memory []byte) error {
	s.copied = slices.Clone(memory)
	return nil
}

func (s *memorySpace) restore(memory []byte) error {
	copy(memory, s.copied)
	return nil
}

func (s *memorySpace) close() { *s = memorySpace{} }
