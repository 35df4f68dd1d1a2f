//go:build cuda && cgo && linux

package driver

/*
#include <cuda.h>

// Results come back by value: a pointer to a Go variable would move it to the heap.
typedef struct { CUresult result; void *handle; } handle_result;
typedef struct { CUresult result; float value; } float_result;

static handle_result host_alloc(size_t bytes) {
	handle_result r = {0};
	r.result = cuMemHostAlloc(&r.handle, bytes, CU_MEMHOSTALLOC_PORTABLE);
	return r;
}

static CUresult allow_shared(void *function, int bytes) {
	return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

// Thread-local: calls that could not be captured are refused on this thread, and
// other threads are left alone.
static CUresult begin_capture(void *stream) {
	return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static handle_result end_capture(void *stream) {
	CUgraph graph = NULL;
	handle_result r = {0};
	r.result = cuStreamEndCapture(stream, &graph);
	r.handle = graph;
	return r;
}

static handle_result instantiate(void *graph) {
	CUgraphExec exec = NULL;
	handle_result r = {0};
	r.result = cuGraphInstantiateWithFlags(&exec, graph, 0);
	r.handle = exec;
	return r;
}

static CUresult destroy_graph(void *graph) { return cuGraphDestroy(graph); }
static CUresult destroy_exec(void *exec) { return cuGraphExecDestroy(exec); }
static CUresult launch_graph(void *exec, void *stream) { return cuGraphLaunch(exec, stream); }

static float_result elapsed(void *from, void *to) {
	float_result r = {0};
	r.result = cuEventElapsedTime(&r.value, from, to);
	return r;
}

static const char *result_name(int result) {
	const char *text = NULL;
	return cuGetErrorName(result, &text) == CUDA_SUCCESS ? text : NULL;
}

static const char *result_text(int result) {
	const char *text = NULL;
	return cuGetErrorString(result, &text) == CUDA_SUCCESS ? text : NULL;
}
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// What gorgonia.org/cu lacks, on its handles: pinned memory, more than 48 KiB of
// shared memory, capture, and graphs that can be launched; and the time between
// events without its allocation.

// sharedOptin is an attribute that cu does not name.
const sharedOptin = C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN

// cu's types hold their handle in one word and do not show it. These lines fail to
// compile should that change.
var (
	_ [unsafe.Sizeof(cu.Function{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Function{})]struct{}
	_ [unsafe.Sizeof(cu.Stream{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Stream{})]struct{}
	_ [unsafe.Sizeof(cu.Event{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Event{})]struct{}
)

// handle gives the driver's handle in one of cu's types.
func handle[T cu.Function | cu.Stream | cu.Event](of T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&of))
}

// Handle is the driver's CUstream, for libraries that put work into the queue.
func (s *Stream) Handle() unsafe.Pointer { return handle(s.stream) }

func hostAlloc(bytes int) (unsafe.Pointer, Result) {
	r := C.host_alloc(C.size_t(bytes))
	return r.handle, Result(r.result)
}

func allowShared(f cu.Function, bytes int) Result {
	return Result(C.allow_shared(handle(f), C.int(bytes)))
}

func beginCapture(s cu.Stream) Result { return Result(C.begin_capture(handle(s))) }

// endCapture may give a graph with an error, nil without one.
func endCapture(s cu.Stream) (unsafe.Pointer, Result) {
	r := C.end_capture(handle(s))
	return r.handle, Result(r.result)
}

func instantiate(graph unsafe.Pointer) (unsafe.Pointer, Result) {
	r := C.instantiate(graph)
	return r.handle, Result(r.result)
}

func destroyGraph(graph unsafe.Pointer) Result { return Result(C.destroy_graph(graph)) }

func destroyExec(exec unsafe.Pointer) Result { return Result(C.destroy_exec(exec)) }

func launchGraph(exec unsafe.Pointer, s cu.Stream) Result {
	return Result(C.launch_graph(exec, handle(s)))
}

// elapsed is in milliseconds, as the driver gives it.
func elapsed(from, to cu.Event) (float32, Result) {
	r := C.elapsed(handle(from), handle(to))
	return float32(r.value), Result(r.result)
}

func resultName(r Result) string { return C.GoString(C.result_name(C.int(r))) }

func resultText(r Result) string { return C.GoString(C.result_text(C.int(r))) }
