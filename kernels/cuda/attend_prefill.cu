// Attention of runs of rows.
#include "attention.cuh"

constexpr int prefill_warps = 4;
constexpr int prefill_queries = 16 * prefill_warps;

// Grid: tiles of 64 queries, kv_heads. The queries of a run are its rows' heads of one group, row by row: query i is head
// i % group of row i / group, so keys are read once for the whole group, whatever its size. There may be more blocks than
// tiles. A tile's positions come in steps of the softmax. seqs [num_seqs]: first row, rows, context of the last row, number of the table. dst may be q.
template <int DIM, int TILE, int STEP>
__device__ __forceinline__ void attend_prefill(float* dst, const float* q, const f16* keys, const f16* values, const int* tables, const int4* seqs,
                                               int num_seqs, int heads, int kv_heads, int dim, int block_shift, int max_blocks, int window,
                                               float scale, float softcap) {
  constexpr int tile_size = 2 * TILE * DIM;
  DYN_SMEM(f16, shared);  // two tiles, then queries
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3, group = heads / kv_heads, kv_head = blockIdx.y;
  // Find the run that this tile is of: each lane counts the tiles of one, and the sums through it are compared.
  int4 seq;  // row, rows, context, table
  int tile = blockIdx.x, tiles;
  for (int at = 0;; at += 32) {
    if (at >= num_seqs) return;
    const int4 mine = at + lane < num_seqs ? seqs[at + lane] : int4{0, 0, 0, 0};
    const int count = (mine.y * group + prefill_queries - 1) / prefill_queries;
    int through = count;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      const int below = __shfl_up_sync(all_lanes, through, o);
      if (lane >= o) through += below;
    }
    const unsigned beyond = __ballot_sync(all_lanes, tile < through);
    if (beyond) {
      const int from = __ffs(beyond) - 1;
      seq = {__shfl_sync(all_lanes, mine.x, from), __shfl_sync(all_lanes, mine.y, from), __shfl_sync(all_lanes, mine.z, from),
             __shfl_sync(all_lanes, mine.w, from)};
      tiles = __shfl_sync(all_lanes, count, from);
      tile -= __shfl_sync(all_lanes, through, from) - tiles;
      break;
    }
    tile -= __shfl_sync(all_lanes, through, 31);
  }
  tile = tiles - 1 - tile;  // those that see most begin first
  const int queries = seq.y * group, before = seq.z - seq.y;  // positions before the run
  const int block_first = tile * prefill_queries, block_last = min(block_first + prefill_queries, queries) - 1;
  const int low = window > 0 ? max(0, before + block_first / group + 1 - window) : 0, high = before + block_last / group + 1;

  // This lane's two queries are rows g and g+8 of the warp's fragments. Of those beyond the last, the last's positions hold.
  const int warp_first = block_first + warp * 16;
  const Softcap cap = {softcap};
  int place[2];          // which head of dst and q, counted over all rows
  int start[2], end[2];  // positions that the query sees
  bool exists[2];
  const float s = cap.scale(scale);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int mine = warp_first + g + 8 * r, i = min(mine, queries - 1);
    exists[r] = mine < queries;
    place[r] = (seq.x + i / group) * heads + kv_head * group + i % group;
    end[r] = before + i / group + 1;
    start[r] = window > 0 ? max(0, end[r] - window) : 0;
  }
  Query<DIM> query((char*)(shared + 2 * tile_size) + warp * Query<DIM>::bytes);
#pragma unroll
  for (int k = 0; k < DIM / 16; k++) {
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int r = i & 1, d = k * 16 + (i >> 1) * 8 + 2 * t;
      const bool inside = exists[r] && d < dim;
      const float2 x = inside ? *(const float2*)(q + (size_t)place[r] * dim + d) : float2{0.f, 0.f};
      w[i] = pack_f16(x.x * s, x.y * s);
    }
    query.set(k, {w[0], w[1], w[2], w[3]});
  }
  // What some query of the warp sees, and what all do.
  const int warp_last = min(warp_first + 15, queries - 1);
  const int warp_end = before + warp_last / group + 1, warp_start = window > 0 ? max(0, before + warp_first / group + 1 - window) : 0;
  const int common_end = before + min(warp_first, queries - 1) / group + 1, common_start = window > 0 ? max(0, warp_end - window) : 0;

  const Pages pages = {keys, values, tables + (size_t)seq.w * max_blocks, kv_heads, kv_head, dim, block_shift};
  float sums[DIM / 8][4];
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.f;
  float largest[2] = {no_score, no_score}, sum[2] = {0.f, 0.f};
  int first = low / TILE * TILE;
  load_tile<DIM, TILE, prefill_warps>(shared, pages, first, low, high, warp);
  cp_async_commit();
  for (int stage = 0; first < high; first += TILE, stage ^= 1) {
    if (first + TILE < high) load_tile<DIM, TILE, prefill_warps>(shared + (stage ^ 1) * tile_size, pages, first + TILE, low, high, warp);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    const f16* k = shared + stage * tile_size;
#pragma unroll 1
    for (int at = 0; at < TILE; at += STEP) {
      const int from = first + at;
      if (warp_first >= queries || from >= warp_end || from + STEP <= warp_start) continue;
      float s[STEP / 8][4];
#pragma unroll
      for (int i = 0; i < STEP / 16; i++) scores<DIM>(s + 2 * i, query, k, at + 16 * i);
      if (cap.cap > 0.f) {
#pragma unroll
        for (int i = 0; i < STEP / 8; i++) {
#pragma unroll
          for (int j = 0; j < 4; j++) s[i][j] = cap.score(s[i][j]);
        }
      }
      if (from < common_start || from + STEP > common_end) {  // some query does not see some of it
#pragma unroll
        for (int i = 0; i < STEP / 8; i++) {
#pragma unroll
          for (int j = 0; j < 4; j++) {
            const int position = from + i * 8 + 2 * t + (j & 1);
            if (position < start[j >> 1] || position >= end[j >> 1]) s[i][j] = no_score;
          }
        }
      }
      float highest[2] = {largest[0], largest[1]};
#pragma unroll
      for (int i = 0; i < STEP / 8; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) highest[j >> 1] = fmaxf(highest[j >> 1], s[i][j]);
      }
#pragma unroll
      for (int r = 0; r < 2; r++) {
        highest[r] = quad_max(highest[r]);
        if (highest[r] > largest[r]) {
          const float factor = exp2f(largest[r] - highest[r]);
          sum[r] *= factor;
#pragma unroll
          for (int i = 0; i < DIM / 8; i++) sums[i][2 * r] *= factor, sums[i][2 * r + 1] *= factor;
          largest[r] = highest[r];
        }
      }
#pragma unroll
      for (int i = 0; i < STEP / 8; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          s[i][j] = exp2f(s[i][j] - largest[j >> 1]);
          sum[j >> 1] += s[i][j];
        }
      }
#pragma unroll
      for (int i = 0; i < STEP / 16; i++) {
        const uint32_t weights[4] = {pack_f16(s[2 * i][0], s[2 * i][1]), pack_f16(s[2 * i][2], s[2 * i][3]),
                                     pack_f16(s[2 * i + 1][0], s[2 * i + 1][1]), pack_f16(s[2 * i + 1][2], s[2 * i + 1][3])};
        accumulate<DIM>(sums, weights, k + TILE * DIM, at + 16 * i);
      }
    }
    __syncthreads();
  }
  cp_async_wait<0>();
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const float inverse = 1.f / quad_sum(sum[r]);
    if (!exists[r]) continue;
    float* head = dst + (size_t)place[r] * dim + 2 * t;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
      if (i * 8 >= dim) break;
      *(float2*)(head + i * 8) = {sums[i][2 * r] * inverse, sums[i][2 * r + 1] * inverse};
    }
  }
}

// DIM, positions of a tile and of a step of its softmax: shorter for wide heads, of which a warp's sums take half of the
// registers, and a position twice the shared memory.
#define PREFILL(DIM, TILE, STEP)                                                                                                                          \
  KERNEL __launch_bounds__(32 * prefill_warps, 2) attend_prefill_##DIM(float* dst, const float* q, const f16* keys, const f16* values,                    \
                                                                    const int* tables, const int4* seqs, int num_seqs, int heads, int kv_heads,           \
                                                                    int dim, int block_shift, int max_blocks, int window, float scale,                    \
                                                                    float softcap) {                                                                      \
    attend_prefill<DIM, TILE, STEP>(dst, q, keys, values, tables, seqs, num_seqs, heads, kv_heads, dim, block_shift, max_blocks, window, scale, softcap); \
  }

PREFILL(64, 64, 64)
PREFILL(80, 64, 64)
PREFILL(96, 64, 64)
PREFILL(128, 64, 64)
PREFILL(256, 32, 16)

EMU_KERNELS(attend_prefill_64, attend_prefill_80, attend_prefill_96, attend_prefill_128, attend_prefill_256)
