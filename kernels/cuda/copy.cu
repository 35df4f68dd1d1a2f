// Operations of single elements, and copies.
#include "common.cuh"

__device__ __forceinline__ float silu(float x) { return x / (1.f + expf(-x)); }

// The tanh approximation, with 0.5·(1+tanh(u)) = 1/(1+e^(-2u)): no digits are lost where tanh(u) is nearly -1.
// Source: Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415.
__device__ __forceinline__ float gelu(float x) { return x / (1.f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x))); }

// each calls f(y, a, b) for n elements, four at a time where the addresses are aligned. y may be a or b.
template <class F>
__device__ __forceinline__ void each(float* y, const float* a, const float* b, int n, F f) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  const int wide = aligned16(y, a, b) ? n / 4 : 0;
  for (int i = at; i < wide; i += step) {
    const float4 u = ((const float4*)a)[i], v = ((const float4*)b)[i];
    ((float4*)y)[i] = {f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w)};
  }
  for (int i = 4 * wide + at; i < n; i += step) y[i] = f(a[i], b[i]);
}

// y = act(gate) ⊙ up, n values. Grid: any, of any blocks.
KERNEL silu_up(float* y, const float* gate, const float* up, int n) {
  each(y, gate, up, n, [](float g, float u) { return silu(g) * u; });
}

KERNEL gelu_up(float* y, const float* gate, const float* up, int n) {
  each(y, gate, up, n, [](float g, float u) { return gelu(g) * u; });
}

// y += x, n values.
KERNEL add(float* y, const float* x, int n) {
  each(y, y, x, n, [](float a, float b) { return a + b; });
}

// y = value, n values.
KERNEL fill(float* y, float value, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = value;
}

// y = x·scale rounded to bfloat16, or to float16 where half is set, n values. What multiplies with libraries takes such x.
// y is aligned to 8 and x to 16.
KERNEL narrow(uint16_t* y, const float* x, float scale, int half, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x, wide = n / 4;
  for (int i = at; i < wide; i += step) {
    const float4 v = ((const float4*)x)[i];
    const float a = v.x * scale, b = v.y * scale, c = v.z * scale, d = v.w * scale;
    ((uint2*)y)[i] = half ? uint2{pack_f16(a, b), pack_f16(c, d)} : uint2{pack_bf16(a, b), pack_bf16(c, d)};
  }
  for (int i = 4 * wide + at; i < n; i += step) y[i] = (uint16_t)(half ? pack_f16(x[i] * scale, 0.f) : pack_bf16(x[i] * scale, 0.f));
}

// Copies block pairs[i][0] to block pairs[i][1] in every layer of both caches. Grid: pairs, layers, 2.
KERNEL copy_blocks(uint4* keys, uint4* values, const int* pairs, int blocks, int block_words) {
  uint4* cache = (blockIdx.z ? values : keys) + (size_t)blockIdx.y * blocks * block_words;
  const uint4* from = cache + (size_t)pairs[2 * blockIdx.x] * block_words;
  uint4* to = cache + (size_t)pairs[2 * blockIdx.x + 1] * block_words;
  for (int i = threadIdx.x; i < block_words; i += blockDim.x) to[i] = from[i];
}

EMU_KERNELS(silu_up, gelu_up, add, fill, narrow, copy_blocks)
