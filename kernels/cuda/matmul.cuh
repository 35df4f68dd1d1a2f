#pragma once
// What the matrix products share: which rows of which matrix a block computes, how blocks that divide the columns of a row
// put their parts together, and what becomes of a result.
#include "formats.cuh"

// What becomes of a product. The numbers are productMode's in launch_product.go.
enum Mode {
  SET,        // y = x·Wᵀ (+ bias)
  ADD,        // y += x·Wᵀ (+ bias)
  SILU_GATED, // y = silu(x·W₀ᵀ) ⊙ (x·W₁ᵀ)
  GELU_GATED,
  SILU_BY_Y,  // y = silu(y) ⊙ (x·Wᵀ)
  GELU_BY_Y,
};

// What a product for many rows knows of norms: of the one before it, which is done but for the division by its root, and of
// the one behind it, which it does as far. Only whole rows know their root; the sums of their squares are left in parts, of
// the columns of a block each.
struct Norms {
  const float* squares;  // [rows of x, num_squares], of x before it was scaled by the norm's weights; null: no norm before
  int num_squares;
  const float* next;  // [rows of the only matrix]: the weights of the norm of y; null: no norm behind
  float* scaled;      // [rows of x, rows]: y ⊙ next
  float* parts;       // [rows of x, blocks of the matrix]: what squares is for the product behind
};

// A launch's arguments, the same for all products.
#define PRODUCT_PARAMETERS                                                                                            \
  const Mat *mats, int num_mats, /* the matrices; the gate and up of a gated mode */                                  \
      const float *x, const int *row_list, int num_rows, int cols, /* x[row_list[i]], or x[i], for i < num_rows */     \
      const float *norm, float eps,  /* RMS norm of x, or null */                                                     \
      int mode, float softcap, int *not_finite, /* see Mode; softcap of 0: none; not_finite null: nobody asks */      \
      float *partials, int *counters /* of blocks that divide columns; counters are 0 before and after a launch */
#define PRODUCT_ARGUMENTS mats, num_mats, x, row_list, num_rows, cols, norm, eps, mode, softcap, not_finite, partials, counters
// Those of matmul_tile beside.
#define NORM_PARAMETERS const float *squares, int num_squares, const float *next, float *scaled, float *parts
#define NORM_ARGUMENTS \
  Norms { squares, num_squares, next, scaled, parts }

__device__ __forceinline__ bool is_gated(int mode) { return mode == SILU_GATED || mode == GELU_GATED; }

// The matrix of a block, and its first row: blocks of the matrices follow one another. Sizes are in rows.
__device__ __forceinline__ const Mat* find_rows(const Mat* mats, int num_mats, int block, int size, int& row) {
  int i = 0;
  for (; i < num_mats - 1; i++) {
    int blocks = (mats[i].rows + size - 1) / size;
    if (block < blocks) break;
    block -= blocks;
  }
  row = block * size;
  return &mats[i];
}

// The row of x that stands at place i of the list; -1: none.
__device__ __forceinline__ int row_of(const int* row_list, int i, int num_rows) {
  if (i >= num_rows) return -1;
  return row_list ? row_list[i] : i;
}

// The steps of columns, from … to-1, of this block's part.
__device__ __forceinline__ void share_steps(int cols, int step, int& from, int& to) {
  int steps = (cols + step - 1) / step;
  from = (int)((long long)steps * blockIdx.y / gridDim.y);
  to = (int)((long long)steps * (blockIdx.y + 1) / gridDim.y);
}

// Sums the values of the blocks that divide columns: the last to come adds all parts, in the order of the columns, so that
// the sum does not depend on who is last. It returns whether this block is it, with the sums in v. All threads call it.
template <int N>
__device__ __forceinline__ bool sum_parts(float (&v)[N], float* partials, int* counters) {
  if (gridDim.y == 1) return true;
  __shared__ bool last;
  unsigned group = blockIdx.z * gridDim.x + blockIdx.x;
  float* parts = partials + (size_t)group * gridDim.y * N * blockDim.x + threadIdx.x;
  size_t part = (size_t)N * blockDim.x;
#pragma unroll
  for (int i = 0; i < N; i++) parts[blockIdx.y * part + i * blockDim.x] = v[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&counters[group], 1) == (int)gridDim.y - 1;
    if (last) counters[group] = 0;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < N; i++) v[i] = 0;
  for (unsigned s = 0; s < gridDim.y; s++) {
#pragma unroll
    for (int i = 0; i < N; i++) v[i] += __ldcg(&parts[s * part + i * blockDim.x]);
  }
  return true;
}

// NaN or infinity: all bits of the exponent are set.
__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

// silu(g) = g·sigmoid(g). gelu(g) is its tanh approximation: with 1 + tanh(u) = 2·sigmoid(2u) it is g·sigmoid(2u),
// u = √(2/π)·(g + 0.044715·g³) (Hendrycks and Gimpel, 2016, section 2).
__device__ __forceinline__ float gate(float g, bool gelu) {
  float u = gelu ? g * (1.59576912160573071f + 0.07135481627260025f * g * g) : g;
  return g / (1.f + __expf(-u));
}

// Writes the product of a row of W with row i of the list, and returns what it wrote. up is the second matrix's, where the
// mode is gated.
__device__ __forceinline__ float finish(const Mat* m, int row, int i, float v, float up, int mode, float softcap, int* not_finite) {
  float* y = m->y + (size_t)i * m->rows + row;
  if (m->bias && !is_gated(mode)) v += m->bias[row];
  switch (mode) {
    case ADD: v += *y; break;
    case SILU_GATED:
    case GELU_GATED: v = gate(v, mode == GELU_GATED) * up; break;
    case SILU_BY_Y:
    case GELU_BY_Y: v *= gate(*y, mode == GELU_BY_Y); break;
  }
  if (not_finite && !is_finite(v)) *not_finite = 1;  // any number of threads write the same
  if (softcap > 0) v = softcap * tanhf(v / softcap);
  *y = v;
  return v;
}
