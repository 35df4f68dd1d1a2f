package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestErrorSaysAll(t *testing.T) {
	e := newError("cuMemAlloc", OutOfMemory)
	e.Text, e.Found = "out of memory", "5 bytes asked"
	want := "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory): 5 bytes asked; " + e.Advice
	if got := e.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if errors.Is(e, ErrLost) {
		t.Error("no memory is no lost device")
	}
	if got := newError("cuFoo", 12345).Error(); got != "cuFoo: CUDA result 12345" {
		t.Errorf("got %q of a result that nobody knows", got)
	}
}

// TestLostResults: those that cuda.h says leave the context unusable are lost, and
// those after which one can go on are not. Source: the comments at cudaError_enum
// in cuda.h ("This leaves the process in an inconsistent state ...").
func TestLostResults(t *testing.T) {
	for _, lost := range []Result{700, 702, 710, 714, 715, 716, 717, 718, 719, 721} {
		err := fmt.Errorf("step 3: %w", newError("cuStreamSynchronize", lost))
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "restart") {
			t.Errorf("%v: %q is not ErrLost, or does not say what to do", lost, err)
		}
	}
	for _, r := range []Result{0, 1, OutOfMemory, 200, 201, NotFound, NotReady, 701, 720, 900, 999} {
		if errors.Is(newError("cuLaunchKernel", r), ErrLost) {
			t.Errorf("%v is ErrLost", r)
		}
	}
}
