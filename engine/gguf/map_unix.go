//go:build unix && !aix

package gguf

import (
	"fmt"
	"math"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps the file at path read-only. Pages are shared with every other
// process that maps the same model.
func mapFile(path string) (data []byte, unmap func([]byte) error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() // the mapping outlives the descriptor; nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file; give the path of a .gguf file", path)
	}
	size := info.Size()
	if size == 0 { // cannot be mapped; Parse names the fault
		return nil, func([]byte) error { return nil }, nil
	}
	if int64(int(size)) != size {
		return nil, nil, fmt.Errorf("%s: %d bytes do not fit this machine's address space", path, size)
	}
	data, err = unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, unix.Munmap, nil
}

// Memory takes n bytes of zeros from the system. The garbage collector does not
// count them: a model on its heap would let as much garbage pile up beside it.
// The mapping is shared, with no one, so that Forget leaves its bytes alone.
func Memory(n uint64) (data []byte, release func() error, err error) {
	if n == 0 || n > math.MaxInt {
		return nil, nil, fmt.Errorf("take %d bytes of memory", n)
	}
	data, err = unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("take %d bytes of memory: %w", n, err)
	}
	return data, sync.OnceValue(func() error { return unix.Munmap(data) }), nil
}

// Forget tells the system that data, a view of what Open, Map or Memory gave, is
// not read soon: pages of a file that lie whole in it leave this process's memory,
// and come back when they are read.
func Forget(data []byte) {
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	from := (start+page-1)&^(page-1) - start
	to := (start+uintptr(len(data)))&^(page-1) - start
	if from < to && to <= uintptr(len(data)) {
		_ = unix.Madvise(data[from:to], unix.MADV_DONTNEED) // it was only advice
	}
}
