package cpu

import (
	"syscall"
	"testing"
	"unsafe"
)

// atPageEnd gives memory that ends where a page begins that cannot be read.
func atPageEnd[T any](t *testing.T, n int) []T {
	t.Helper()
	var x T
	size, page := n*int(unsafe.Sizeof(x)), syscall.Getpagesize()
	whole := (size + page - 1) / page * page
	mapped, err := syscall.Mmap(-1, 0, whole+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mapped); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(mapped[whole:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mapped[whole-size])), n)
}

// Weights, values and scales end where their slices do: assembly that reads on faults.
func TestAccumQ8AtTheEndOfMemory(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, n := range []int{1, 5, 16, 21} {
			const heads, dim = 2, 64
			p, v := atPageEnd[float32](t, heads*n), atPageEnd[int8](t, n*dim)
			scales := atPageEnd[uint16](t, dim/32*n)
			copy(p, normals(r, len(p)))
			codes, halves, _ := quantizedValues(r, n, dim, n)
			copy(v, codes)
			copy(scales, halves)
			got, want := make([]float32, heads*dim), make([]float32, heads*dim)
			o.AccumQ8(got, p, n, v, scales, n, heads, n, dim, nil)
			accumQ8Generic(want, p, n, v, scales, n, heads, n, dim, nil)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("%d positions: %v", n, err)
			}
		}
	})
}
