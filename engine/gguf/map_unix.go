//go:build unix && !aix

package gguf

import (
	"fmt"
	"os"

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
