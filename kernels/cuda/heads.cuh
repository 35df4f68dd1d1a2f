#pragma once
// What becomes of a head of queries or keys before attention: norm and rotary position embedding.
#include "common.cuh"

// sincos_of computes sine and cosine of position·freq to about 1e-7, at any position below 2^24. The angle is taken as the
// exact product of its two float32 factors: near position 32768 a rounded product would be wrong by up to 0.002.
// Reduction by π/2 in two parts (Cody and Waite); polynomials of Cephes' sinf and cosf (Moshier) for [-π/4, π/4].
__device__ __forceinline__ void sincos_of(int position, float freq, float* sine, float* cosine) {
  const float p = (float)position, product = p * freq, rest = fmaf(p, freq, -product);
  const float turns = rintf(product * 0.636619772f);  // quarter turns
  float r = fmaf(-turns, 1.57079637050628662f, product);  // exact: both are multiples of 2^-23 and nearly equal
  r = fmaf(turns, 4.37113900018624283e-8f, r) + rest;
  const float z = r * r;
  const float s = fmaf(fmaf(fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, r, r);
  const float c = fmaf(fmaf(fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z, z, fmaf(-0.5f, z, 1.f));
  const int quarter = (int)turns;
  *sine = quarter & 1 ? c : s;
  *cosine = quarter & 1 ? s : c;
  if (quarter & 2) *sine = -*sine;
  if ((quarter + 1) & 2) *cosine = -*cosine;
}

// A head's values are handled as dim/2 pairs, four a lane at most: the rotated pairs first, then the values that stay as
// they are, two by two.
constexpr int head_pairs = 4;

// A rotary position embedding: the first dims values of a head are rotated, by freqs [dims/2] per position.
struct Rotation {
  const float* freqs;
  int dims, neox;  // neox pairs value i with value i + dims/2, otherwise 2i with 2i+1
};

// finish_head norms a head by norm (unless null), rotates it to a position, and gives put(i, x) its value i. A warp calls
// it; a lane puts what it alone has read, so that put may write to in.
template <class Put>
__device__ __forceinline__ void finish_head(const float* in, int dim, const float* norm, float eps, Rotation rotation, int position, Put put) {
  const int lane = threadIdx.x & 31, dims = rotation.dims;
  int first[head_pairs], second[head_pairs];
  float a[head_pairs], b[head_pairs], squares = 0.f;
#pragma unroll
  for (int i = 0; i < head_pairs; i++) {
    const int pair = lane + 32 * i;
    const bool split = rotation.neox && pair < dims / 2;
    first[i] = split ? pair : 2 * pair;
    second[i] = split ? pair + dims / 2 : 2 * pair + 1;
    a[i] = b[i] = 0.f;
    if (pair < dim / 2) {
      a[i] = in[first[i]];
      b[i] = in[second[i]];
      squares += a[i] * a[i] + b[i] * b[i];
    }
  }
  const float scale = norm ? rsqrtf(warp_sum(squares) / dim + eps) : 1.f;
#pragma unroll
  for (int i = 0; i < head_pairs; i++) {
    const int pair = lane + 32 * i;
    if (pair >= dim / 2) continue;
    float x = a[i], y = b[i];
    if (norm) {
      x *= scale * norm[first[i]];
      y *= scale * norm[second[i]];
    }
    if (pair < dims / 2) {
      float sine, cosine;
      sincos_of(position, rotation.freqs[pair], &sine, &cosine);
      const float u = x;
      x = u * cosine - y * sine;
      y = u * sine + y * cosine;
    }
    put(first[i], x);
    put(second[i], y);
  }
}
