// RMS norm. Source: Zhang and Sennrich, https://arxiv.org/abs/1910.07467.
#include "common.cuh"

// rms_row is a block's row: y = x / sqrt(mean(x²) + eps) · w, or y += that. y may be x: a thread writes what it alone reads.
template <bool ADD>
__device__ __forceinline__ void rms_row(float* y, const float* x, const float* w, int cols, float eps) {
  __shared__ float partial[32];
  y += (size_t)blockIdx.x * cols;
  x += (size_t)blockIdx.x * cols;
  const bool wide = cols % 4 == 0 && aligned16(y, x, w);
  float squares = 0.f;
  if (wide) {
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
      const float4 v = ((const float4*)x)[i];
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
  } else {
    for (int i = threadIdx.x; i < cols; i += blockDim.x) squares += x[i] * x[i];
  }
  const float scale = rsqrtf(block_sum(squares, partial) / cols + eps);
  if (wide) {
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
      const float4 v = ((const float4*)x)[i], g = ((const float4*)w)[i];
      float4 out = {v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w};
      if (ADD) {
        const float4 old = ((const float4*)y)[i];
        out = {old.x + out.x, old.y + out.y, old.z + out.z, old.w + out.w};
      }
      ((float4*)y)[i] = out;
    }
  } else {
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
      const float out = x[i] * scale * w[i];
      y[i] = ADD ? y[i] + out : out;
    }
  }
}

// Grid: rows. Block: any multiple of 32 threads.
KERNEL rms_norm(float* y, const float* x, const float* w, int cols, float eps) { rms_row<false>(y, x, w, cols, eps); }

KERNEL rms_norm_add(float* y, const float* x, const float* w, int cols, float eps) { rms_row<true>(y, x, w, cols, eps); }

// rms_norm_add of x to y, and then z = rms_norm of y with the weights next. z may be x or y.
KERNEL rms_norm_add_norm(float* z, float* y, const float* x, const float* w, const float* next, int cols, float eps) {
  rms_row<true>(y, x, w, cols, eps);
  __syncthreads();  // a thread may read what another has written: which are its columns depends on the addresses
  rms_row<false>(z, y, next, cols, eps);
}

EMU_KERNELS(rms_norm, rms_norm_add, rms_norm_add_norm)
