#pragma once
// What every kernel is written with: one source, two compilers. nvcc compiles this file's device half; g++ with -DCUDA_EMU
// takes the twin of the same names from emu/emu.h, which runs on the host. Inline PTX lives here and nowhere else.
// A name added here needs its twin in emu/emu.h.
#ifdef CUDA_EMU
#include "emu/emu.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

#define KERNEL extern "C" __global__ void
#define EMU_KERNELS(...)  // lists the kernels of a file for the emulator
#define DYN_SMEM(T, name)                                    \
  extern __shared__ __align__(16) unsigned char name##_raw[]; \
  T* name = (T*)name##_raw

__device__ __forceinline__ float bf2f(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ bf16 f2bf(float x) { return __float2bfloat16(x); }
__device__ __forceinline__ float h2f(f16 x) { return __half2float(x); }
__device__ __forceinline__ f16 f2h(float x) { return __float2half(x); }
// Two values in the 32 bits of an mma fragment, the first in the low half.
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
  __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return *(uint32_t*)&v;
}
__device__ __forceinline__ uint32_t pack_f16(float lo, float hi) {
  __half2 v = __floats2half2_rn(lo, hi);
  return *(uint32_t*)&v;
}

// Asynchronous copies from global to shared memory; both addresses aligned to the size.
// A copy may happen at any moment up to the wait for its group.
__device__ __forceinline__ void cp_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
// The same, or 16 zero bytes and no read where valid is false.
__device__ __forceinline__ void cp_async16_zfill(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_async4(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most N of this thread's groups are under way.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

// d[16x8] += a[16x16, row major] * b[16x8, column major], in the fragment layouts of mma.m16n8k16 (PTX ISA, "Matrix
// Fragments for mma.m16n8k16"): d 4 floats, a 4 and b 2 words a lane.
__device__ __forceinline__ void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_f16(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Loads 4 (or 2) 8x8 matrices of 16-bit values from shared memory: lane 8*i+j names row j of matrix i (16 bytes, aligned).
__device__ __forceinline__ void ldmatrix4(uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix2(uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
// The same, each matrix transposed.
__device__ __forceinline__ void ldmatrix4_trans(uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix2_trans(uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}

// Sum and maximum over the 32 lanes of a whole warp, the same in each lane. The emulator has them as one step.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int o = 16; o; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}
#endif

// Sum over the threads of a block, a multiple of 32, the same in each thread and in a fixed order. partial holds 32
// floats; it must not be touched again before a barrier.
__device__ __forceinline__ float block_sum(float x, float* partial) {
  x = warp_sum(x);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = x;
  __syncthreads();
  float sum = 0.f;
  for (int i = 0; i < (int)(blockDim.x >> 5); i++) sum += partial[i];
  return sum;
}

// Whether the addresses are all aligned for loads and stores of 16 bytes.
__device__ __forceinline__ bool aligned16(const void* a, const void* b, const void* c) {
  return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
}
