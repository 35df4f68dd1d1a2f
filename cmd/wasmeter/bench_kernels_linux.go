package main

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for huge pages below b, before it is written. A system without them
// refuses, and the memory is as good.
func adviseHuge(b []byte) {
	const page = 4096
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page)
	if n := (len(b) - skip) &^ (page - 1); n > 0 {
		_ = syscall.Madvise(b[skip:skip+n], syscall.MADV_HUGEPAGE)
	}
}
