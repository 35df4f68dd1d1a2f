package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	// A kernel without huge pages refuses the advice; the memory is as good.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	return b, nil
}

func unmapMemory(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("unmap memory: %w", err)
	}
	return nil
}
