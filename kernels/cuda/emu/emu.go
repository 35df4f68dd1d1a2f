//go:build cuda && cgo && linux

package emu

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
	const char *(*configure)(const char *);
	const char *(*report)(void);
	void (*reset)(void);
	int (*checked)(void);
	uint64_t (*counter)(const char *);
} emu_calls;

// Returns what the dynamic loader says, or NULL.
static const char *emu_load(const char *path, emu_calls *c) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (h == NULL) return dlerror();
	c->configure = dlsym(h, "emu_configure");
	c->report = dlsym(h, "emu_report");
	c->reset = dlsym(h, "emu_reset");
	c->checked = dlsym(h, "emu_checked");
	c->counter = dlsym(h, "emu_counter");
	if (!c->configure || !c->report || !c->reset || !c->checked || !c->counter) return "it is not the emulator";
	return NULL;
}
static const char *emu_configure(emu_calls c, const char *s) { return c.configure(s); }
static const char *emu_report(emu_calls c) { return c.report(); }
static void emu_reset(emu_calls c) { c.reset(); }
static int emu_checked(emu_calls c) { return c.checked(); }
static uint64_t emu_counter(emu_calls c, const char *name) { return c.counter(name); }
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"
)

// Path is where build.sh puts the library, plain or checked. The error says how to
// make it.
func Path(checked bool) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the path of package emu's source is not in the program")
	}
	name := "libcuda_emu.so"
	if checked {
		name = "libcuda_emu_checked.so"
	}
	path := filepath.Join(filepath.Dir(file), "build", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the emulated CUDA driver is not built: %w; run kernels/cuda/emu/build.sh", err)
	}
	return path, nil
}

// Library is a loaded emulator. All programs of the process that load the same path
// share it.
type Library struct{ calls C.emu_calls }

// Load loads the emulator beside package driver, which loads it by the same path.
func Load(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	l := &Library{}
	if why := C.emu_load(name, &l.calls); why != nil {
		return nil, fmt.Errorf("load %s: %s", path, C.GoString(why))
	}
	return l, nil
}

// Checked says whether it is the build that checks each access.
func (l *Library) Checked() bool { return C.emu_checked(l.calls) != 0 }

// Configure sets what the environment's CUDA_EMU can set: "launch=3,memory=64M".
// README.md lists the keys.
func (l *Library) Configure(settings string) error {
	s := C.CString(settings)
	defer C.free(unsafe.Pointer(s))
	if wrong := C.GoString(C.emu_configure(l.calls, s)); wrong != "" {
		return fmt.Errorf("configure the emulator: %s", wrong)
	}
	return nil
}

// Report is what the emulator has found since the last Reset, a line each.
func (l *Library) Report() string { return C.GoString(C.emu_report(l.calls)) }

// Reset forgets the report and the failure that all calls return.
func (l *Library) Reset() { C.emu_reset(l.calls) }

// Counter is how often something has happened in the process: launches,
// graph_launches, kernels (both of these ran), copies, synchronous_copies, fills,
// allocations, frees, pinned_allocations, synchronizations, captures, graph_nodes,
// bytes_to_host, library_calls.
// It panics for another name.
func (l *Library) Counter(name string) uint64 {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	n := uint64(C.emu_counter(l.calls, s))
	if n == math.MaxUint64 {
		panic("emu: no counter " + name)
	}
	return n
}

// LibraryPath is the path of the cuBLASLt for a driver: where that is the emulated
// one, the one beside it; else "", the system's.
func LibraryPath(driver string) (path string, emulated bool) {
	path = filepath.Join(filepath.Dir(driver), "libcublasLt_emu.so")
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	return path, true
}
