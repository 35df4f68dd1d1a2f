// Package shim defines every function of the CUDA driver that the program may
// call as a jump through a slot, so that a program which uses the driver is
// linked without it and starts on hosts that have none. Open loads the library
// and fills the slots; until then every function returns CUDA_ERROR_NO_DEVICE.
//
// The stubs are written by _gen from symbols.txt. lib/libcuda.a is an empty
// archive: gorgonia.org/cu asks the linker for -lcuda, and what it refers to is
// defined here. See RATIONALE.md: why a shim in front of the CUDA driver?
package shim
