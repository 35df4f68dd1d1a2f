// Package suite checks the CUDA kernels on whatever driver is there: an emulated
// one in tests, a GPU in `wasmeter selftest --device cuda`. Each Case runs a
// kernel on random values of odd sizes and compares with a twin in float64 that
// is written to be read; each Speed times one at a size that a model has.
//
// Its Go code needs the driver and so the build tag cuda.
package suite
