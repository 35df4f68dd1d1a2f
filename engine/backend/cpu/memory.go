package cpu

import (
	"errors"
	"unsafe"
)

// memory is the large allocations of a backend: weights and caches. They come
// from the operating system, so that they do not count in the garbage
// collector's goal, which would let the heap grow by as much again. All are
// zeroed, begin at a page and live until release.
type memory struct {
	regions [][]byte
}

// dense returns n bytes for what is written whole, on huge pages where the
// system has them.
func (m *memory) dense(n int) ([]byte, error) { return m.allocate(n, true) }

// sparse returns n bytes that take memory as they are written, page by small
// page.
func (m *memory) sparse(n int) ([]byte, error) { return m.allocate(n, false) }

func (m *memory) allocate(n int, huge bool) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
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
	m.regions = nil
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
