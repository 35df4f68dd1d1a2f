// What is done to single heads: norm, rotary position embedding, and the store into the paged cache.
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

// Grid: one warp for each head of q, k and v of each row, in blocks of 128 threads. Heads of q are normed by q_norm (unless
// null), rotated (unless dims is 0) and written back; those of k alike and stored in the cache; those of v are stored.
// q [rows, heads, dim]; k, v [rows, kv_heads, dim]; keys, values [blocks, kv_heads, block_size, dim]; slots[row] -1 stores
// nothing. Of q, k and v those without heads may be null.
KERNEL __launch_bounds__(128, 8) finish_heads(float* q, const float* k, const float* v, const float* q_norm, const float* k_norm, const float* freqs,
                                           const int* positions, const int* slots, f16* keys, f16* values, int rows, int heads, int kv_heads,
                                           int dim, int dims, int neox, int block_size, float eps) {
  const int lane = threadIdx.x & 31, unit = blockIdx.x * 4 + (threadIdx.x >> 5), all = heads + 2 * kv_heads;
  const int row = unit / all, which = unit % all;
  if (row >= rows) return;
  const bool query = which < heads, value = which >= heads + kv_heads;
  const int head = query ? which : (which - heads) % kv_heads;
  const float* in = query ? q + ((size_t)row * heads + head) * dim : (value ? v : k) + ((size_t)row * kv_heads + head) * dim;
  f16* out = nullptr;
  if (!query) {
    const int slot = slots[row];
    if (slot < 0) return;
    out = (value ? values : keys) + (((size_t)(slot / block_size) * kv_heads + head) * block_size + slot % block_size) * dim;
  }
  int first[head_pairs], second[head_pairs];
  float a[head_pairs], b[head_pairs], squares = 0.f;
#pragma unroll
  for (int i = 0; i < head_pairs; i++) {
    const int pair = lane + 32 * i;
    const bool split = neox && pair < dims / 2;
    first[i] = split ? pair : 2 * pair;
    second[i] = split ? pair + dims / 2 : 2 * pair + 1;
    a[i] = b[i] = 0.f;
    if (pair < dim / 2) {
      a[i] = in[first[i]];
      b[i] = in[second[i]];
      squares += a[i] * a[i] + b[i] * b[i];
    }
  }
  const float* norm = query ? q_norm : value ? nullptr : k_norm;
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
    if (!value && pair < dims / 2) {
      float sine, cosine;
      sincos_of(positions[row], freqs[pair], &sine, &cosine);
      const float u = x;
      x = u * cosine - y * sine;
      y = u * sine + y * cosine;
    }
    if (query) {
      float* back = q + ((size_t)row * heads + head) * dim;
      back[first[i]] = x;
      back[second[i]] = y;
    } else {
      out[first[i]] = f2h(x);
      out[second[i]] = f2h(y);
    }
  }
}

EMU_KERNELS(finish_heads)
