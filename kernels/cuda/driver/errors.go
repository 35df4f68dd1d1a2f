package driver

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrLost is in the chain of errors after which a device computes nothing any
	// more: a kernel went wrong in a way that ends the context, or the hardware did.
	ErrLost = errors.New("the device is lost to this process; restart it")
	// ErrNotBuilt is what a command answers that needs CUDA in a binary without it.
	ErrNotBuilt = errors.New("this build has no CUDA; build with -tags cuda (make cuda-build)")
)

// Result is what a function of the driver returns, a CUresult.
type Result int

// Results that callers or this package tell apart. Source: cuda.h, cudaError_enum.
const (
	OutOfMemory    Result = 2
	NoDevice       Result = 100
	NoBinaryForGPU Result = 209
	NotFound       Result = 500
	NotReady       Result = 600
)

// known holds the results that have more to say than their name.
var known = map[Result]struct {
	name string
	// lost is set where the context is of no use afterwards.
	lost   bool
	advice string
}{
	1:              {name: "CUDA_ERROR_INVALID_VALUE"},
	OutOfMemory:    {name: "CUDA_ERROR_OUT_OF_MEMORY", advice: "ask for less, or free memory of the device: other processes may hold it"},
	3:              {name: "CUDA_ERROR_NOT_INITIALIZED", advice: "the driver is not usable: see nvidia-smi and the kernel's log"},
	4:              {name: "CUDA_ERROR_DEINITIALIZED", lost: true},
	34:             {name: "CUDA_ERROR_STUB_LIBRARY", advice: "this libcuda is the CUDA toolkit's stub for linking: take its folder out of LD_LIBRARY_PATH, and install the driver"},
	46:             {name: "CUDA_ERROR_DEVICE_UNAVAILABLE", advice: "another process holds the device in exclusive mode: see nvidia-smi"},
	NoDevice:       {name: "CUDA_ERROR_NO_DEVICE", advice: "the driver sees no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; a container needs the GPU given to it"},
	101:            {name: "CUDA_ERROR_INVALID_DEVICE"},
	200:            {name: "CUDA_ERROR_INVALID_IMAGE", advice: "the image is damaged, or made for a newer driver"},
	201:            {name: "CUDA_ERROR_INVALID_CONTEXT", advice: "the call is not between Device.Enter and Leave of this goroutine"},
	NoBinaryForGPU: {name: "CUDA_ERROR_NO_BINARY_FOR_GPU"},
	214:            {name: "CUDA_ERROR_ECC_UNCORRECTABLE", lost: true, advice: "the device's memory is damaged: reset or replace it"},
	218:            {name: "CUDA_ERROR_INVALID_PTX", advice: "the image is damaged, or made for a newer driver"},
	220:            {name: "CUDA_ERROR_NVLINK_UNCORRECTABLE", lost: true, advice: "the link between devices failed: reset them"},
	221:            {name: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", advice: "the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed"},
	222:            {name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", advice: "the driver is older than the image: update it"},
	226:            {name: "CUDA_ERROR_CONTAINED", lost: true},
	NotFound:       {name: "CUDA_ERROR_NOT_FOUND"},
	NotReady:       {name: "CUDA_ERROR_NOT_READY", advice: "the device has not come that far: Sync first"},
	700:            {name: "CUDA_ERROR_ILLEGAL_ADDRESS", lost: true},
	701:            {name: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", advice: "the block asks for more threads, registers or shared memory than the device has"},
	702:            {name: "CUDA_ERROR_LAUNCH_TIMEOUT", lost: true, advice: "the device has a time limit for kernels, as one with a display does"},
	709:            {name: "CUDA_ERROR_CONTEXT_IS_DESTROYED", lost: true},
	710:            {name: "CUDA_ERROR_ASSERT", lost: true},
	714:            {name: "CUDA_ERROR_HARDWARE_STACK_ERROR", lost: true},
	715:            {name: "CUDA_ERROR_ILLEGAL_INSTRUCTION", lost: true},
	716:            {name: "CUDA_ERROR_MISALIGNED_ADDRESS", lost: true},
	717:            {name: "CUDA_ERROR_INVALID_ADDRESS_SPACE", lost: true},
	718:            {name: "CUDA_ERROR_INVALID_PC", lost: true},
	719:            {name: "CUDA_ERROR_LAUNCH_FAILED", lost: true},
	721:            {name: "CUDA_ERROR_TENSOR_MEMORY_LEAK", lost: true},
	802:            {name: "CUDA_ERROR_SYSTEM_NOT_READY", advice: "a service of the system does not run yet: on machines with NVSwitch, the fabric manager"},
	803:            {name: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", advice: "libcuda and the kernel's module are of different versions: restart the machine after an update, or rebuild the container"},
	804:            {name: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", advice: "this device takes no forward-compatible libcuda: install the driver that belongs to it"},
	810:            {name: "CUDA_ERROR_MPS_CLIENT_TERMINATED", lost: true},
	999:            {name: "CUDA_ERROR_UNKNOWN", advice: "often the module nvidia_uvm is not loaded, or the machine slept: see the kernel's log"},
}

// String is the result's name in cuda.h, or its number.
func (r Result) String() string {
	if k, ok := known[r]; ok {
		return k.name
	}
	return fmt.Sprintf("CUDA result %d", int(r))
}

// Lost reports whether the context is of no use after this result.
func (r Result) Lost() bool { return known[r].lost }

// Error is a call of the driver that failed.
type Error struct {
	// Call is the driver's function.
	Call   string
	Result Result
	// Name is the result's name, and Text what the driver says about it.
	Name, Text string
	// Found is what was asked for and what there was, Advice what to do; both may
	// be empty.
	Found, Advice string
}

// newError fills in what is known of the result itself.
func newError(call string, result Result) *Error {
	return &Error{Call: call, Result: result, Name: result.String(), Advice: known[result].advice}
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Call, e.Name)
	if e.Text != "" {
		fmt.Fprintf(&b, " (%s)", e.Text)
	}
	if e.Found != "" {
		b.WriteString(": " + e.Found)
	}
	if e.Advice != "" {
		b.WriteString("; " + e.Advice)
	}
	if e.Result.Lost() {
		b.WriteString("; " + ErrLost.Error())
	}
	return b.String()
}

// Unwrap gives ErrLost if the device is.
func (e *Error) Unwrap() error {
	if e.Result.Lost() {
		return ErrLost
	}
	return nil
}
