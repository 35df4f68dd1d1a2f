//go:build cuda && cgo && linux

package cublaslt

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "library.h"

// Results come back by value: a pointer to a Go variable would move it to the heap.
typedef struct { lt_outcome outcome; lt_handle handle; } created;

static created create(lt_library *l) {
	created c = {{0}};
	c.outcome = wasmeter_lt_create(l, &c.handle);
	return c;
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// names are the library's names for the dynamic loader, by preference.
var names = []string{"libcublasLt.so.13", "libcublasLt.so.12"}

// minVersion is the oldest library whose functions are declared here, as it counts:
// 10000 for a major version, 100 for a minor one.
const minVersion = 120000

// maxPlans bounds the shapes that are kept. A model has some seven kinds of products,
// and steps up to max_num_batched_tokens numbers of rows.
const maxPlans = 1024

// Library is a loaded cuBLASLt with a handle for the context that was current.
type Library struct {
	library *C.lt_library
	handle  C.lt_handle
	path    string
	version int
	// workspace is memory that products may use, one after the other.
	workspace      driver.Ptr
	workspaceBytes int64

	plans map[Shape]*plan
	order []Shape // of plans; next is the oldest once they are maxPlans
	next  int
}

// plan is a shape's description and kernel, or why there is none.
type plan struct {
	c   C.lt_plan
	err error
}

// Open loads the library at path, or where path is empty the first of the ordinary
// names that can be used, and makes a handle. The error is a *NotFoundError where no
// library can be used.
func Open(path string) (*Library, error) {
	candidates := names
	if path != "" {
		candidates = []string{path}
	}
	missing := &NotFoundError{}
	for _, name := range candidates {
		l, err := load(name)
		if err != nil {
			missing.Tried = append(missing.Tried, err.Error())
			continue
		}
		made := C.create(l.library)
		if err := l.failed(made.outcome, Shape{}); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		l.handle = made.handle
		return l, nil
	}
	return nil, missing
}

// load finds the functions of one library, and its version.
func load(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const size = 1024
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	l := &Library{path: path, plans: make(map[Shape]*plan)}
	if l.library = C.wasmeter_lt_load(name, text, size); l.library == nil {
		return nil, fmt.Errorf("%s: %s", path, C.GoString(text))
	}
	if l.version = int(C.wasmeter_lt_version(l.library)); l.version < minVersion {
		C.free(unsafe.Pointer(l.library))
		return nil, fmt.Errorf("%s is too old: it is version %s, and %s or later is needed", path, versionText(l.version), versionText(minVersion))
	}
	return l, nil
}

// versionText writes 120804 as 12.8.4.
func versionText(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// Version is the library's: "12.8.4".
func (l *Library) Version() string { return versionText(l.version) }

// Path is what was loaded.
func (l *Library) Path() string { return l.path }

// Close gives the handle and all plans back. What was queued still runs.
func (l *Library) Close() error {
	if l.library == nil {
		return nil
	}
	for _, p := range l.plans {
		C.wasmeter_lt_forget(l.library, &p.c)
	}
	err := l.failed(C.wasmeter_lt_destroy(l.library, l.handle), Shape{})
	C.free(unsafe.Pointer(l.library))
	l.library, l.plans = nil, nil
	return err
}

// UseWorkspace gives the library memory of the device for its products, aligned to 256.
// Products on different streams must not overlap from here on. The kernels of shapes
// are chosen again, as they depend on its size.
func (l *Library) UseWorkspace(p driver.Ptr, bytes int64) {
	for _, p := range l.plans {
		C.wasmeter_lt_forget(l.library, &p.c)
	}
	clear(l.plans)
	l.order, l.next = l.order[:0], 0
	l.workspace, l.workspaceBytes = p, bytes
}

// Prepare asks for a kernel, unless the shape is known. An error with ErrUnsupported
// in its chain is that of the shape, and stays.
func (l *Library) Prepare(s Shape) error {
	return l.plan(s).err
}

func (l *Library) plan(s Shape) *plan {
	if p := l.plans[s]; p != nil {
		return p
	}
	if len(l.order) < maxPlans {
		l.order = append(l.order, s)
	} else {
		C.wasmeter_lt_forget(l.library, &l.plans[l.order[l.next]].c)
		delete(l.plans, l.order[l.next])
		l.order[l.next] = s
		l.next = (l.next + 1) % maxPlans
	}
	p := &plan{}
	l.plans[s] = p
	if p.err = s.check(); p.err != nil {
		return p
	}
	shape := C.lt_shape{_type: C.LT_R_16BF, rows: C.int64_t(s.Rows), cols: C.int64_t(s.Cols), x: C.int64_t(s.X)}
	if s.Type == F16 {
		shape._type = C.LT_R_16F
	}
	if s.Biased {
		shape.biased = 1
	}
	p.err = l.failed(C.wasmeter_lt_plan(l.library, l.handle, shape, C.size_t(l.workspaceBytes), &p.c), s)
	return p
}

// Operands are a product's addresses, each aligned to 256.
type Operands struct {
	W, X driver.Ptr // of the shape's type
	Y    driver.Ptr // float32
	Bias driver.Ptr // float32 [rows], where the shape is biased
	// Alpha and Beta are the factors of X·Wᵀ and of what Y held. A Beta of 0 does not
	// read Y.
	Alpha, Beta float32
}

// Multiply queues Y = Alpha·X·Wᵀ + Beta·Y (+ Bias). For shapes that are known it
// allocates nothing.
func (l *Library) Multiply(s *driver.Stream, shape Shape, o Operands) error {
	if (o.W|o.X|o.Y|o.Bias)%alignment != 0 || shape.Biased != (o.Bias != 0) {
		return fmt.Errorf("%v: operands at %#x, %#x, %#x and bias at %#x: they must be aligned to %d, and a bias be there where the shape has one",
			shape, o.W, o.X, o.Y, o.Bias, alignment)
	}
	p := l.plan(shape)
	if p.err != nil {
		return p.err
	}
	operands := C.lt_operands{w: C.uint64_t(o.W), x: C.uint64_t(o.X), y: C.uint64_t(o.Y), bias: C.uint64_t(o.Bias), alpha: C.float(o.Alpha), beta: C.float(o.Beta)}
	return l.failed(C.wasmeter_lt_multiply(l.library, l.handle, &p.c, operands, C.uint64_t(l.workspace), C.size_t(l.workspaceBytes), s.Handle()), shape)
}

// alignment is what the library takes for granted where nobody says less
// (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES and the others).
const alignment = 256

// failed makes an error of a status.
func (l *Library) failed(o C.lt_outcome, s Shape) error {
	if o.status == C.LT_SUCCESS {
		return nil
	}
	return &Error{Shape: s, Call: C.GoString(o.call), Status: int(o.status), Name: C.GoString(C.wasmeter_lt_status_name(l.library, o.status))}
}

// check refuses what is no product.
func (s Shape) check() error {
	if s.Rows < 1 || s.Cols < 1 || s.X < 1 || s.Type != BF16 && s.Type != F16 {
		return fmt.Errorf("%v: there is nothing to multiply", s)
	}
	return nil
}
