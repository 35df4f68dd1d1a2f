// Package cuda holds the kernels of the CUDA backend: their sources (*.cu), the
// image that nvcc makes of them, and Kernels, with one method for each, which
// knows its grid, its shared memory and the order of its arguments. It knows
// addresses and integers only; models, sequences and memory belong to its
// callers.
//
// All of the Go code that needs the driver has the build tag cuda.
//
// # Layouts
//
// Activations are float32, [rows, cols] row-major. The cache of a layer is two
// arrays of float16, keys and values, each [blocks, kvHeads, blockSize, dim]. A
// slot is block·blockSize + offset in the block.
//
// # Steps that run again
//
// A decode step is captured once for each number of rows and launched again and
// again, so its arguments are fixed. What changes from step to step is read from
// device memory: positions, slots, contexts, block tables. Rows that pad a step
// have slot -1 and context 0: nothing is stored for them, and their attention is
// zeros.
//
// # Results
//
// Sums have a fixed order for a fixed launch: the same step computes the same
// bits. No kernel adds floats with atomics.
package cuda
