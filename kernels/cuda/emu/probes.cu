// Kernels that test the emulator itself: for each diagnostic one that provokes it and a twin that is right, and the
// collective instructions alone. Compiled into the emulator only.
#include "../common.cuh"
KERNEL probe_add(int* y, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
EMU_KERNELS(probe_add)
