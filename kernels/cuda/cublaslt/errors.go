package cublaslt

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnsupported is in the chain of errors of shapes that the library has no kernel for.
var ErrUnsupported = errors.New("cuBLASLt has no kernel for this shape")

// NotFoundError says that no library could be used.
type NotFoundError struct {
	// Tried are the reasons, one for each name that was looked for.
	Tried []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("cuBLASLt can't be used: %s; install it (pip install nvidia-cublas, or a CUDA toolkit) and name its file in WASMETER_CUBLASLT if the loader does not find it, or leave it off (--cublaslt off)",
		strings.Join(e.Tried, "; "))
}

// Error is a call of the library that failed.
type Error struct {
	// Shape is what was to be multiplied; zero where it was nothing yet.
	Shape Shape
	// Call is the library's function.
	Call string
	// Status is a cublasStatus_t, and Name its name.
	Status int
	Name   string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (cuBLAS status %d)", e.Call, e.Name, e.Status)
	if e.Shape != (Shape{}) {
		return e.Shape.String() + ": " + text
	}
	return text
}

// statusNotSupported is CUBLAS_STATUS_NOT_SUPPORTED.
const statusNotSupported = 15

// Unwrap gives ErrUnsupported if another library may well compute the shape.
func (e *Error) Unwrap() error {
	if e.Status == statusNotSupported {
		return ErrUnsupported
	}
	return nil
}
