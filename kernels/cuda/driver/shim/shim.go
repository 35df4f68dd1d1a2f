//go:build cuda && cgo && linux

package shim

/*
#cgo LDFLAGS: -L${SRCDIR}/lib -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

//go:generate go run ./_gen

// loaded is the path that Open loaded, "" before.
var loaded struct {
	sync.Mutex
	path string
}

// LoadError says that there is no such library.
type LoadError struct {
	Path string
	// Why is the dynamic loader's answer.
	Why string
}

func (e *LoadError) Error() string { return fmt.Sprintf("load %s: %s", e.Path, e.Why) }

// InitError says that the driver is there and did not start.
type InitError struct {
	Path string
	// Result is what cuInit returned, a CUresult.
	Result int
}

func (e *InitError) Error() string { return fmt.Sprintf("%s: cuInit returned %d", e.Path, e.Result) }

// Open loads the driver and initialises it. A process has one driver: a second
// Open of the same path does nothing, and one of another path is refused.
func Open(path string) error {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.path != "" && loaded.path != path {
		return fmt.Errorf("load %s: the process uses %s already, and can use one driver only", path, loaded.path)
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const size = 1024
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	switch result := C.wasmeter_cuda_open(name, text, size); {
	case result < 0:
		return &LoadError{Path: path, Why: C.GoString(text)}
	case result > 0:
		return &InitError{Path: path, Result: int(result)}
	}
	loaded.path = path
	return nil
}

// Lacking lists the functions that the loaded driver does not have. Each returns
// CUDA_ERROR_NOT_FOUND when it is called, and Absent then tells its name.
func Lacking() []string {
	loaded.Lock()
	defer loaded.Unlock()
	var names []string
	var from C.int
	for name := C.wasmeter_cuda_lacking(&from); name != nil; name = C.wasmeter_cuda_lacking(&from) {
		names = append(names, C.GoString(name))
	}
	return names
}

// Absent gives the name of the function that this thread called last though the
// driver lacks it, and forgets it; "" if there is none.
func Absent() string {
	if name := C.wasmeter_cuda_absent(); name != nil {
		return C.GoString(name)
	}
	return ""
}
