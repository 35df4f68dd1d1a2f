// What is done to single heads: norm, rotary position embedding, and the store into the paged cache.
#include "heads.cuh"

// Grid: one warp for each head of q, k and v of each row, in blocks of 128 threads. Heads of q are normed by q_norm (unless
// null), rotated (unless dims is 0) and written back; those of k alike and stored in the cache; those of v are stored.
// q [rows, heads, dim]; k, v [rows, kv_heads, dim]; keys, values [blocks, kv_heads, block_size, dim]; slots[row] -1 stores
// nothing. Of q, k and v those without heads may be null.
KERNEL __launch_bounds__(128, 8) finish_heads(float* q, const float* k, const float* v, const float* q_norm, const float* k_norm, const float* freqs,
                                           const int* positions, const int* slots, f16* keys, f16* values, int rows, int heads, int kv_heads,
                                           int dim, int dims, int neox, int block_size, float eps) {
  const int unit = blockIdx.x * 4 + (threadIdx.x >> 5), all = heads + 2 * kv_heads;
  const int row = unit / all, which = unit % all;
  if (row >= rows) return;
  const Rotation rotation = {freqs, dims, neox};
  if (which < heads) {
    float* head = q + ((size_t)row * heads + which) * dim;
    finish_head(head, dim, q_norm, eps, rotation, dims ? positions[row] : 0, [=](int i, float x) { head[i] = x; });
    return;
  }
  const int slot = slots[row], head = (which - heads) % kv_heads;
  if (slot < 0) return;
  const size_t in = ((size_t)row * kv_heads + head) * dim;
  const size_t out = (((size_t)(slot / block_size) * kv_heads + head) * block_size + slot % block_size) * dim;
  if (which < heads + kv_heads) {
    finish_head(k + in, dim, k_norm, eps, rotation, dims ? positions[row] : 0, [=](int i, float x) { keys[out + i] = f2h(x); });
  } else {
    finish_head(v + in, dim, nullptr, eps, Rotation{}, 0, [=](int i, float x) { values[out + i] = f2h(x); });
  }
}

EMU_KERNELS(finish_heads)
