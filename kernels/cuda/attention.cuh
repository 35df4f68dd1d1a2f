#pragma once
// Attention over the paged cache, on the tensor cores: scores and weights of 16 queries are fragments of mma.m16n8k16, keys
// and values come from shared memory by ldmatrix. The softmax is computed as positions arrive (Milakov and Gimelshein,
// https://arxiv.org/abs/1805.02867; Dao, FlashAttention-2, https://arxiv.org/abs/2307.08691).
//
// This is what attend_decode.cu and attend_prefill.cu share. Both are compiled for some head dimensions DIM and serve each dim <= DIM that is a multiple of 8; what is missing up to
// DIM is zeros in shared memory. All addresses are aligned to 16 bytes.
#include "common.cuh"

// Where a row of the grid finds its keys and values.
struct Pages {
  const f16 *keys, *values;  // [blocks, kv_heads, block_size, dim]
  const int* table;          // block i of the table holds positions i·block_size …
  int kv_heads, kv_head, dim, block_shift;  // block_size is 1 << block_shift

  // The first element of a position's key, and of its value.
  __device__ __forceinline__ size_t at(int position) const {
    const size_t block = table[position >> block_shift];
    const int offset = position & ((1 << block_shift) - 1);
    return (((block * kv_heads + kv_head) << block_shift) + offset) * dim;
  }
};

// The scores' scale, and the exponent of 2 that a product of queries, already scaled by scale(), and keys becomes.
struct Softcap {
  float cap;  // 0: none
  __device__ __forceinline__ float scale(float s) const { return cap > 0.f ? s / cap : s * 1.44269504f; }
  __device__ __forceinline__ float score(float x) const { return cap > 0.f ? tanhf(x) * cap * 1.44269504f : x; }
};

// Below every score, and not infinite: the difference of two of them is 0. What a query that sees none of a tile adds up
// with such weights counts nothing when it sees its first position, as its own at last: 2^(no_score - score) is 0.
constexpr float no_score = -1e30f;

// A tile of keys (or values) in shared memory is made of pieces of 16 bytes, 8 values of one position. The pieces of eight
// neighbouring positions for the same values lie side by side, the 128 bytes that ldmatrix reads at once: no bank
// conflicts, and a warp's copies are a run of shared memory and 64 whole bytes of each of 8 positions.
template <int DIM>
__device__ __forceinline__ int piece(int position, int part) {
  return (((position >> 3) * (DIM / 8) + part) * 8 + (position & 7)) * 8;
}

// load_tile begins to copy POSITIONS keys and values from first on; the values' tile follows the keys'. The groups of 8
// positions are shared by WARPS warps. Positions outside low … high-1 are replaced by the nearest inside: nothing is read
// that no row has stored, and what is not visible is finite.
template <int DIM, int POSITIONS, int WARPS>
__device__ __forceinline__ void load_tile(f16* tile, const Pages& pages, int first, int low, int high, int warp) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int group = 0; group < POSITIONS / 8; group += WARPS) {
    const int position = (group + warp) * 8 + (lane & 7);
    const size_t from = pages.at(min(max(first + position, low), high - 1));
#pragma unroll
    for (int part = lane >> 3; part < DIM / 8; part += 4) {
      const int to = piece<DIM>(position, part);
      const bool inside = part * 8 < pages.dim;
      const size_t source = from + (inside ? part * 8 : 0);
      cp_async16_zfill(tile + to, pages.keys + source, inside);
      cp_async16_zfill(tile + POSITIONS * DIM + to, pages.values + source, inside);
    }
  }
}

// Query is a warp's 16 queries as fragments. Those of wide heads wait in shared memory, in space for DIM/16 words of four a
// lane, because the sums take half of the registers: a lane reads what it wrote itself.
template <int DIM, bool SHARED = (DIM > 128)>
struct Query {
  static constexpr int bytes = 0;
  uint32_t words[DIM / 16][4];
  __device__ __forceinline__ explicit Query(void*) {}
  __device__ __forceinline__ void set(int k, uint4 w) { words[k][0] = w.x, words[k][1] = w.y, words[k][2] = w.z, words[k][3] = w.w; }
  __device__ __forceinline__ void get(int k, uint32_t w[4]) const { w[0] = words[k][0], w[1] = words[k][1], w[2] = words[k][2], w[3] = words[k][3]; }
};
template <int DIM>
struct Query<DIM, true> {
  static constexpr int bytes = DIM / 16 * 32 * sizeof(uint4);
  uint4* words;  // 32 apart
  __device__ __forceinline__ explicit Query(void* space) : words((uint4*)space + (threadIdx.x & 31)) {}
  __device__ __forceinline__ void set(int k, uint4 w) { words[32 * k] = w; }
  __device__ __forceinline__ void get(int k, uint32_t w[4]) const {
    const uint4 v = words[32 * k];
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  }
};

// scores computes queries · keys of 16 positions from at on: s[0] for the first eight, s[1] for the rest.
template <int DIM>
__device__ __forceinline__ void scores(float s[2][4], const Query<DIM>& query, const f16* keys, int at) {
  const int lane = threadIdx.x & 31, position = at + (lane >> 4) * 8 + (lane & 7), half = lane >> 3 & 1;
#pragma unroll
  for (int i = 0; i < 4; i++) s[0][i] = s[1][i] = 0.f;
#pragma unroll
  for (int k = 0; k < DIM / 16; k++) {
    uint32_t a[4], b[4];
    query.get(k, a);
    ldmatrix4(b, keys + piece<DIM>(position, 2 * k + half));
    mma_f16(s[0], a, b);
    mma_f16(s[1], a, b + 2);
  }
}

// accumulate adds weights · values of 16 positions from at on to sums[i], values 8i … 8i+7.
template <int DIM>
__device__ __forceinline__ void accumulate(float sums[DIM / 8][4], const uint32_t weights[4], const f16* values, int at) {
  const int lane = threadIdx.x & 31, position = at + (lane & 15), half = lane >> 4;
#pragma unroll
  for (int i = 0; i < DIM / 16; i++) {
    uint32_t b[4];
    ldmatrix4_trans(b, values + piece<DIM>(position, 2 * i + half));
    mma_f16(sums[2 * i], weights, b);
    mma_f16(sums[2 * i + 1], weights, b + 2);
  }
}

constexpr unsigned all_lanes = 0xffffffffu;

// The sum and the maximum over the four lanes that share a row of a fragment.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}
