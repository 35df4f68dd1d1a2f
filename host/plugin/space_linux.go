package plugin

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memorySpace is address space for one linear memory, from its first byte to
// its limit. It is apart from Go's heap: a memory that grows stays where it
// is, and one that goes is no garbage to collect, however often instances are
// made. Pages are zero until they are written, and take no memory until they
// are touched. See RATIONALE.md: Why does a guest's memory lie outside Go's heap?
//
// The content can be put back at the price of the pages that a call wrote: the
// memory becomes a private mapping of a file in memory, and what was written is
// dropped.
type memorySpace struct{ bytes []byte }

// newMemorySpace reserves limit bytes.
func newMemorySpace(limit uint64) (*memorySpace, error) {
	bytes, err := unix.Mmap(-1, 0, int(limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", limit, err)
	}
	return &memorySpace{bytes}, nil
}

// grow gives the first size bytes of the space. They are never fewer than
// before, so what lies behind them was never written.
func (s *memorySpace) grow(size int) []byte { return s.bytes[:size:size] }

// keep maps a copy of memory, the beginning of the space, over itself.
func (s *memorySpace) keep(memory []byte) error {
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
	start := unsafe.Pointer(unsafe.SliceData(s.bytes))
	if _, err := unix.MmapPtr(file, 0, start, uintptr(len(memory)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		return fmt.Errorf("map %d bytes: %w", len(memory), err)
	}
	return nil
}

// restore drops what was written to memory since keep.
func (s *memorySpace) restore(memory []byte) error {
	if len(memory) == 0 {
		return nil
	}
	return unix.Madvise(memory, unix.MADV_DONTNEED)
}

// close gives the address space back. The kernel refuses it only for a range
// that was never mapped.
func (s *memorySpace) close() {
	_ = unix.Munmap(s.bytes)
	s.bytes = nil
}
