//go:build !unix || aix

package gguf

import (
	"fmt"
	"math"
	"os"
)

// mapFile reads the whole file: these systems have no mmap in x/sys/unix.
func mapFile(path string) (data []byte, unmap func([]byte) error, err error) {
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	return data, func([]byte) error { return nil }, nil
}

// Memory takes n bytes of zeros.
func Memory(n uint64) (data []byte, release func() error, err error) {
	if n == 0 || n > math.MaxInt {
		return nil, nil, fmt.Errorf("take %d bytes of memory", n)
	}
	return make([]byte, n), func() error { return nil }, nil
}

// Forget does nothing here: nothing is mapped.
func Forget([]byte) {}
