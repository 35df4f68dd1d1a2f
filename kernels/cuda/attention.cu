// Attention over the paged cache, on the tensor cores: scores and weights of 16 queries are fragments of mma.m16n8k16, keys
// and values come from shared memory by ldmatrix. The softmax is computed as positions arrive (Milakov and Gimelshein,
// https://arxiv.org/abs/1805.02867; Dao, FlashAttention-2, https://arxiv.org/abs/2307.08691).
//
// attend_decode: one query row for each table, split over the context (Dao et al., Flash-Decoding, 2023).
// attend_prefill: runs of rows.
//
// Both are compiled for some head dimensions DIM and serve each dim <= DIM that is a multiple of 8; what is missing up to
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

// split_f16 gives two float16 pairs whose sums are x and y to about 22 bits.
__device__ __forceinline__ void split_f16(float x, float y, uint32_t* high, uint32_t* low) {
  const float hx = h2f(f2h(x)), hy = h2f(f2h(y));
  *high = pack_f16(hx, hy);
  *low = pack_f16(x - hx, y - hy);
}

// --- decode

// A fragment has 16 rows, of which eight are heads that share a key head: row i is the high half of head i's float32 values,
// row i+8 the low half, and the products of both halves are added. So the only rounding to float16 is the cache's own, and
// it costs nothing: groups of more than eight heads are rare, and the tensor cores wait for memory here.
constexpr int decode_heads = 8;
constexpr int max_splits = 64;
// A split of a context is at least this many positions, or the joining of splits takes longer than they do.
constexpr int min_split = 128;

// What a block found about its positions: for each of eight heads the largest score, the sum of the weights and the
// weighted values, weights being 2^(score - largest).
template <int DIM>
struct Part {
  float values[decode_heads][DIM];
  float largest[decode_heads];
  float sum[decode_heads];
};

// Grid: splits, kv_heads · tiles of eight heads of a group, rows. Block: WARPS warps; tiles of 16 positions go round.
// counters holds a zero for each (row, tile) and does so again at the end; parts has room for splits · tiles · rows. Only
// launches with splits > 1 touch both. dst may be q.
template <int DIM, int WARPS>
__device__ __forceinline__ void attend_decode(float* dst, const float* q, const f16* keys, const f16* values, const int* tables, const int* context,
                                              int* counters, float* parts, int heads, int kv_heads, int dim, int block_shift, int max_blocks,
                                              int window, float scale, float softcap) {
  constexpr int tile_len = 16, tile_size = 2 * tile_len * DIM;  // positions; elements of keys and values
  DYN_SMEM(f16, shared);                                        // two tiles for each warp, then WARPS parts; behind them queries
  __shared__ float factors[decode_heads][max_splits + 1];       // the last is the inverse of the sum
  __shared__ int last;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int row = blockIdx.z, group = heads / kv_heads, tiles = gridDim.y / kv_heads, kv_head = blockIdx.y / tiles;
  const int first_head = blockIdx.y % tiles * decode_heads, n = min(decode_heads, group - first_head);  // within the group
  const size_t out = ((size_t)row * heads + kv_head * group + first_head) * dim;                        // n heads side by side
  const int end = context[row];
  if (end <= 0) {
    if (blockIdx.x == 0) {
      for (int i = threadIdx.x; i < n * dim; i += blockDim.x) dst[out + i] = 0.f;
    }
    return;
  }
  // Cut what is visible into equal splits. Short contexts have fewer than the grid; the blocks of the others leave.
  const int start = window > 0 ? max(0, end - window) : 0, from = start / tile_len, to = (end + tile_len - 1) / tile_len;
  const int length = max((to - from + (int)gridDim.x - 1) / (int)gridDim.x, min_split / tile_len);
  const int splits = (to - from + length - 1) / length, split = blockIdx.x;
  if (split >= splits) return;
  const int until = min(from + (split + 1) * length, to);

  const Softcap cap = {softcap};
  Query<DIM> query((char*)(shared + WARPS * 2 * tile_size) + warp * Query<DIM>::bytes);
  {
    const float* head = q + out + g * dim;
    const float s = cap.scale(scale);
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
      uint32_t w[4];
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int d = k * 16 + half * 8 + 2 * t;
        const bool inside = g < n && d < dim;
        const float2 x = inside ? *(const float2*)(head + d) : float2{0.f, 0.f};
        split_f16(x.x * s, x.y * s, &w[2 * half], &w[2 * half + 1]);
      }
      query.set(k, {w[0], w[1], w[2], w[3]});
    }
  }

  const Pages pages = {keys, values, tables + (size_t)row * max_blocks, kv_heads, kv_head, dim, block_shift};
  f16* mine = shared + warp * 2 * tile_size;
  float sums[DIM / 8][4];
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.f;
  float largest = no_score, sum = 0.f;  // of head g; the sum is of this lane's positions
  int tile = from + split * length + warp;
  if (tile < until) load_tile<DIM, tile_len, 1>(mine, pages, tile * tile_len, start, end, 0);
  cp_async_commit();
  for (int stage = 0; tile < until; tile += WARPS, stage ^= 1) {
    if (tile + WARPS < until) load_tile<DIM, tile_len, 1>(mine + (stage ^ 1) * tile_size, pages, (tile + WARPS) * tile_len, start, end, 0);
    cp_async_commit();
    cp_async_wait<1>();
    __syncwarp();
    const f16* k = mine + stage * tile_size;
    float s[2][4];
    scores<DIM>(s, query, k, 0);
    float w[2][2], highest = largest;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int position = tile * tile_len + i * 8 + 2 * t + j;
        w[i][j] = position >= start && position < end ? cap.score(s[i][j] + s[i][j + 2]) : no_score;
        highest = fmaxf(highest, w[i][j]);
      }
    }
    highest = quad_max(highest);
    if (highest > largest) {
      const float factor = exp2f(largest - highest);
      sum *= factor;
#pragma unroll
      for (int i = 0; i < DIM / 8; i++) sums[i][0] *= factor, sums[i][1] *= factor, sums[i][2] *= factor, sums[i][3] *= factor;
      largest = highest;
    }
    uint32_t weights[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float x = exp2f(w[i][0] - largest), y = exp2f(w[i][1] - largest);
      sum += x + y;
      split_f16(x, y, &weights[2 * i], &weights[2 * i + 1]);
    }
    accumulate<DIM>(sums, weights, k + tile_len * DIM, 0);
    __syncwarp();
  }
  cp_async_wait<0>();
  sum = quad_sum(sum);

  // Join the warps. One that had no tile has no_score, zeros, and so no weight.
  Part<DIM>* found = (Part<DIM>*)shared;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) {
#pragma unroll
    for (int j = 0; j < 2; j++) found[warp].values[g][i * 8 + 2 * t + j] = sums[i][j] + sums[i][j + 2];
  }
  if (t == 0) {
    found[warp].largest[g] = largest;
    found[warp].sum[g] = sum;
  }
  __syncthreads();
  const size_t unit = (size_t)row * gridDim.y + blockIdx.y;
  Part<DIM>* kept = (Part<DIM>*)parts + unit * gridDim.x;
  for (int i = threadIdx.x; i < n * DIM; i += blockDim.x) {
    const int head = i / DIM, d = i % DIM;
    float high = no_score, total = 0.f, value = 0.f;
#pragma unroll
    for (int j = 0; j < WARPS; j++) high = fmaxf(high, found[j].largest[head]);
#pragma unroll
    for (int j = 0; j < WARPS; j++) {
      const float factor = exp2f(found[j].largest[head] - high);
      total += found[j].sum[head] * factor;
      value += found[j].values[head][d] * factor;
    }
    if (splits == 1) {
      if (d < dim) dst[out + head * dim + d] = value / total;
      continue;
    }
    kept[split].values[head][d] = value;
    if (d == 0) {
      kept[split].largest[head] = high;
      kept[split].sum[head] = total;
    }
  }
  if (splits == 1) return;

  // The block that counts to the number of splits has the others' parts before it, and joins all in their order.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&counters[unit], 1) == splits - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) counters[unit] = 0;
  if ((int)threadIdx.x < n) {
    const int head = threadIdx.x;
    float high = no_score, total = 0.f;
    for (int j = 0; j < splits; j++) high = fmaxf(high, __ldcg(&kept[j].largest[head]));
    for (int j = 0; j < splits; j++) {
      const float factor = exp2f(__ldcg(&kept[j].largest[head]) - high);
      factors[head][j] = factor;
      total += __ldcg(&kept[j].sum[head]) * factor;
    }
    factors[head][max_splits] = 1.f / total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n * DIM / 4; i += blockDim.x) {
    const int head = i / (DIM / 4), d = i % (DIM / 4) * 4;
    if (d >= dim) continue;
    float4 value = {0.f, 0.f, 0.f, 0.f};
#pragma unroll 8
    for (int j = 0; j < splits; j++) {
      const float4 v = __ldcg((const float4*)&kept[j].values[head][d]);
      const float factor = factors[head][j];
      value = {value.x + v.x * factor, value.y + v.y * factor, value.z + v.z * factor, value.w + v.w * factor};
    }
    const float inverse = factors[head][max_splits];
    *(float4*)(dst + out + head * dim + d) = {value.x * inverse, value.y * inverse, value.z * inverse, value.w * inverse};
  }
}

// --- prefill

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

// DIM, warps of a block of decode, positions of a tile of prefill and of a step of its softmax. Of wide heads a warp's sums
// take half of the registers, and a position twice the shared memory: fewer warps, shorter tiles and steps.
#define ATTENTION(DIM, WARPS, TILE, STEP)                                                                                                           \
  KERNEL __launch_bounds__(32 * WARPS) attend_decode_##DIM(float* dst, const float* q, const f16* keys, const f16* values, const int* tables,       \
                                                           const int* context, int* counters, float* parts, int heads, int kv_heads, int dim,       \
                                                           int block_shift, int max_blocks, int window, float scale, float softcap) {               \
    attend_decode<DIM, WARPS>(dst, q, keys, values, tables, context, counters, parts, heads, kv_heads, dim, block_shift, max_blocks, window, scale, \
                              softcap);                                                                                                             \
  }                                                                                                                                                 \
  KERNEL __launch_bounds__(32 * prefill_warps, 2) attend_prefill_##DIM(float* dst, const float* q, const f16* keys, const f16* values,                 \
                                                                    const int* tables, const int4* seqs, int num_seqs, int heads, int kv_heads,     \
                                                                    int dim, int block_shift, int max_blocks, int window, float scale,              \
                                                                    float softcap) {                                                                \
    attend_prefill<DIM, TILE, STEP>(dst, q, keys, values, tables, seqs, num_seqs, heads, kv_heads, dim, block_shift, max_blocks, window, scale, softcap); \
  }

ATTENTION(64, 4, 64, 64)
ATTENTION(80, 4, 64, 64)
ATTENTION(96, 4, 64, 64)
ATTENTION(128, 4, 64, 64)
ATTENTION(256, 2, 32, 16)

EMU_KERNELS(attend_decode_64, attend_decode_80, attend_decode_96, attend_decode_128, attend_decode_256)
EMU_KERNELS(attend_prefill_64, attend_prefill_80, attend_prefill_96, attend_prefill_128, attend_prefill_256)
