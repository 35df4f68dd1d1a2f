//go:build !linux

package plugin

import "slices"

// memoryImage is a copy of one linear memory, to put its content back.
type memoryImage struct{ copied []byte }

func newMemoryImage(uint64) (*memoryImage, error) { return &memoryImage{}, nil }

// grow gives a memory of size bytes that begins with old.
func (i *memoryImage) grow(old []byte, size int) []byte {
	return slices.Grow(old, size-len(old))[:size]
}

func (i *memoryImage) keep(memory []byte) error {
	i.copied = slices.Clone(memory)
	return nil
}

func (i *memoryImage) restore(memory []byte) error {
	copy(memory, i.copied)
	return nil
}

func (i *memoryImage) close() { i.copied = nil }
