package plugin

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryImage is address space for one linear memory whose content can be put
// back at the price of the pages that a call wrote: the memory is a private
// mapping of a file in memory, and what was written is dropped.
type memoryImage struct{ space []byte }

// newMemoryImage reserves limit bytes; those that are never touched take no
// memory.
func newMemoryImage(limit uint64) (*memoryImage, error) {
	space, err := unix.Mmap(-1, 0, int(limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", limit, err)
	}
	return &memoryImage{space}, nil
}

// grow gives the first size bytes of the space, where old stands already.
func (i *memoryImage) grow(_ []byte, size int) []byte { return i.space[:size:size] }

// keep maps a copy of memory over memory itself.
func (i *memoryImage) keep(memory []byte) error {
	if len(memory) == 0 {
		return nil
	}
	file, err := unix.MemfdCreate("wasmeter-plugin", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a file in memory: %w", err)
	}
	// The mapping outlives the descriptor.
	defer unix.Close(file)
	for rest := memory; len(rest) > 0; {
		n, err := unix.Write(file, rest)
		if err != nil {
			return fmt.Errorf("write %d bytes to a file in memory: %w", len(rest), err)
		}
		rest = rest[n:]
	}
	// Over the space's own first bytes, which no other mapping shares: the
	// slice stays what it was, in place and in content.
	start := unsafe.Pointer(unsafe.SliceData(i.space))
	if _, err := unix.MmapPtr(file, 0, start, uintptr(len(memory)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		return fmt.Errorf("map %d bytes: %w", len(memory), err)
	}
	return nil
}

// restore drops what was written to memory since keep.
func (i *memoryImage) restore(memory []byte) error {
	if len(memory) == 0 {
		return nil
	}
	return unix.Madvise(memory, unix.MADV_DONTNEED)
}

// close gives the address space back. The kernel refuses it only for a range
// that was never mapped.
func (i *memoryImage) close() {
	_ = unix.Munmap(i.space)
	i.space = nil
}
