// All kernels, as one translation unit: this is what nvcc makes kernels.fatbin of, and what the emulator is built with.
#include "norm.cu"
#include "rope.cu"
#include "attention.cu"
#include "copy.cu"
