package cpu

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// memory is the large allocations of a backend: weights and caches. They come
// from the operating system, so that they do not count in the garbage
// collector's goal, which would let the heap grow by as much again. All are
// zeroed, begin at a multiple of 64 bytes and live until release.
type memory struct {
	regions [][]byte
	rest    []byte // of the last dense region
}

// denseRegion is the size of the regions that dense cuts its results from. One
// matrix alone is often smaller than a huge page.
const denseRegion = 32 << 20

// dense returns n bytes for what is written whole, on huge pages where the
// system has them.
func (m *memory) dense(n int) ([]byte, error) {
	const alignment = 64
	size := (n + alignment - 1) &^ (alignment - 1)
	if size > len(m.rest) {
		region, err := m.region(max(size, denseRegion), true)
		if err != nil {
			return nil, err
		}
		m.rest = region
	}
	result := m.rest[:n:n]
	m.rest = m.rest[size:]
	return result, nil
}

// sparse returns n bytes that take memory as they are written, page by small
// page.
func (m *memory) sparse(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	return m.region(n, false)
}

func (m *memory) region(n int, huge bool) ([]byte, error) {
	region, err := mapMemory(n, huge)
	if err != nil {
		return nil, err
	}
	m.regions = append(m.regions, region)
	return region, nil
}

// release gives all back. Nothing of it may be touched afterwards.
func (m *memory) release() error {
	var faults []error
	for _, region := range m.regions {
		faults = append(faults, unmapMemory(region))
	}
	m.regions, m.rest = nil, nil
	return errors.Join(faults...)
}

// viewAs returns the bytes as values of a numeric type in the machine's byte
// order; ok is false if they do not begin at the type's alignment. The view is
// safe: every bit pattern is a value of T, and it ends with the last whole
// element of b, which it keeps alive.
func viewAs[T uint16 | float32](b []byte) (view []T, ok bool) {
	var t T
	size := unsafe.Sizeof(t)
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%size != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))/size), true
}

// littleEndian tells whether views of a file's bytes have the file's byte order.
func littleEndian() bool {
	return binary.NativeEndian.Uint16([]byte{1, 0}) == 1
}
