//go:build !unix || aix

package gguf

import "os"

// mapFile reads the whole file: these systems have no mmap in x/sys/unix.
func mapFile(path string) (data []byte, unmap func([]byte) error, err error) {
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	return data, func([]byte) error { return nil }, nil
}
