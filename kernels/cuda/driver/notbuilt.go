//go:build !(cuda && cgo && linux)

package driver

// Built says whether this binary can use CUDA.
const Built = false
