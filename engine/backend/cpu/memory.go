package cpu

import (
	"errors"
	"unsafe"
)

// memory is the large allocations of a backend: weights and caches. They come
// from the operating system, so that they do not count in the garbage
// collector's goal, which would let the heap grow by as much again. All are
// zeroed, take memory as they are written, and live until release.
//
// They take it by huge pages where the system has them: a Zen 4 core reads 30
// GB/s from those and 20 from small ones, at whose ends its prefetching stops.
type memory struct {
	regions [][]byte
	rest    []byte // of the last region that is shared
}

// sharedBytes is the size of the regions that small allocations share: most
// matrices of a small model are below the size of a huge page.
const sharedBytes = 64 << 20

// share returns n bytes, perhaps of a region that holds others. They begin at a
// cache line.
func (m *memory) share(n int) ([]byte, error) {
	if n > sharedBytes {
		return m.allocate(n)
	}
	const line = 64
	size := (n + line - 1) / line * line
	if size > len(m.rest) {
		region, err := m.allocate(sharedBytes)
		if err != nil {
			return nil, err
		}
		m.rest = region
	}
	b := m.rest[:n:n]
	m.rest = m.rest[size:]
	return b, nil
}

// allocate returns a region of n bytes, which begins at a page.
func (m *memory) allocate(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	region, err := mapMemory(n)
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
func viewAs[T int8 | uint16 | float32](b []byte) (view []T, ok bool) {
	var t T
	size := unsafe.Sizeof(t)
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%size != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))/size), true
}
