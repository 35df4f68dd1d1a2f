// Package cublaslt multiplies matrices with NVIDIA's cuBLASLt, where a host has that
// library: it is loaded when somebody asks for it, and nothing is linked with it.
//
// Its functions are declared by hand in api.h, which check.c compares with NVIDIA's
// header. One operation is offered, that of a step's larger products:
//
//	Y = alpha·X·Wᵀ + beta·Y (+ bias)
//
// with W [rows, cols] and X [x, cols] of bfloat16 or float16, Y [x, rows] of float32,
// all row-major, and sums in float32. For cuBLASLt matrices are column-major, and a
// row-major matrix is its transpose: it is asked for Yᵀ = alpha·(Wᵀ)ᵀ·Xᵀ + beta·Yᵀ, so W
// is its A, transposed, and X its B.
//
// Which of the library's kernels computes a shape is asked once for each and kept.
// Like the device, a Library belongs to one goroutine, and every call lies between the
// device's Enter and Leave.
package cublaslt
