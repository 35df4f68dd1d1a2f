// What clang's CUDA mode lacks of the functions that nvcc declares by itself, for
// build.sh --lint alone: loads with a hint for the caches, cg (past the first
// level) and cs (read once). Source: PTX ISA, "Cache Operators".
#pragma once

#define LOAD1(op, type, suffix, c)                                                          \
  __device__ inline type __ld##op(const type* p) {                                          \
    type v;                                                                                 \
    asm volatile("ld.global." #op "." suffix " %0, [%1];" : c(v) : "l"(p) : "memory");      \
    return v;                                                                               \
  }
#define LOAD2(op, type, suffix, c)                                                          \
  __device__ inline type __ld##op(const type* p) {                                          \
    type v;                                                                                 \
    asm volatile("ld.global." #op ".v2." suffix " {%0, %1}, [%2];"                          \
                 : c(v.x), c(v.y) : "l"(p) : "memory");                                     \
    return v;                                                                               \
  }
#define LOAD4(op, type, suffix, c)                                                          \
  __device__ inline type __ld##op(const type* p) {                                          \
    type v;                                                                                 \
    asm volatile("ld.global." #op ".v4." suffix " {%0, %1, %2, %3}, [%4];"                  \
                 : c(v.x), c(v.y), c(v.z), c(v.w) : "l"(p) : "memory");                     \
    return v;                                                                               \
  }
#define LOADS(op)               \
  LOAD1(op, float, "f32", "=f") \
  LOAD1(op, int, "s32", "=r")   \
  LOAD1(op, unsigned, "u32", "=r") \
  LOAD2(op, float2, "f32", "=f") \
  LOAD2(op, uint2, "u32", "=r") \
  LOAD4(op, float4, "f32", "=f") \
  LOAD4(op, uint4, "u32", "=r")
LOADS(cg)
LOADS(cs)
#undef LOADS
#undef LOAD1
#undef LOAD2
#undef LOAD4
