// Attention of one query row for each table, split over the context (Dao et al., Flash-Decoding, 2023).
#include "attention.cuh"
#include "heads.cuh"

// split_f16 gives two float16 pairs whose sums are x and y to about 22 bits.
__device__ __forceinline__ void split_f16(float x, float y, uint32_t* high, uint32_t* low) {
  const float hx = h2f(f2h(x)), hy = h2f(f2h(y));
  *high = pack_f16(hx, hy);
  *low = pack_f16(x - hx, y - hy);
}

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

// Products of a step's rows that are not finished: their heads are not normed and rotated, nor are keys and values stored.
struct Products {
  const float *k, *v;             // [rows, kv_heads, dim]; null: q is finished, and all is stored
  const int* fresh;               // [rows]: rows that are not stored and that a row sees, which are the last up to itself
  const float *q_norm, *k_norm;   // [dim] or null
  float eps;
  Rotation rotation;
};

// finish_products norms and rotates a block's n heads of queries into shared memory, pitch apart, and does so for the fresh keys of
// positions from low to high-1, of which end-1 is the row's own, on their way into the cache. Blocks that store the same key
// (of other heads, or of a row behind) compute the same bits, and none waits for another. The block's barrier is the caller's.
template <int WARPS>
__device__ __forceinline__ void finish_products(float* queries, int pitch, int n, const float* q, const Products& products, const Pages& pages, f16* keys,
                                                f16* values, int row, int low, int high, int end) {
  const int dim = pages.dim;
  for (int i = threadIdx.x >> 5; i < n + 2 * max(high - low, 0); i += WARPS) {
    if (i < n) {
      finish_head(q + i * dim, dim, products.q_norm, products.eps, products.rotation, end - 1, [=](int d, float x) { queries[i * pitch + d] = x; });
      continue;
    }
    const int position = low + (i - n) / 2;
    const size_t in = ((size_t)(row - (end - 1 - position)) * pages.kv_heads + pages.kv_head) * dim, out = pages.at(position);
    if ((i - n) % 2 == 0) {
      finish_head(products.k + in, dim, products.k_norm, products.eps, products.rotation, position, [=](int d, float x) { keys[out + d] = f2h(x); });
    } else {
      finish_head(products.v + in, dim, nullptr, 0.f, Rotation{}, 0, [=](int d, float x) { values[out + d] = f2h(x); });
    }
  }
}

// Grid: splits, kv_heads · tiles of eight heads of a group, rows. Block: WARPS warps; tiles of 16 positions go round.
// counters holds a zero for each (row, tile) and does so again at the end; parts has room for splits · tiles · rows. Only
// launches with splits > 1 touch both. dst may be q.
template <int DIM, int WARPS>
__device__ __forceinline__ void attend_decode(float* dst, const float* q, f16* keys, f16* values, const int* tables, const int* context,
                                              int* counters, float* parts, int heads, int kv_heads, int dim, int block_shift, int max_blocks,
                                              int window, float scale, float softcap, const Products& products) {
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

  const Pages pages = {keys, values, tables + (size_t)row * max_blocks, kv_heads, kv_head, dim, block_shift};
  f16* mine = shared + warp * 2 * tile_size;
  int tile = from + split * length + warp;
  const float* queries = q + out;
  int pitch = dim;
  if (products.k) {
    // Finished queries lie in the second tile of the first warp until all warps have them. The pitch spreads them over the
    // banks. A tile of stored positions alone is on its way meanwhile.
    const int stored = end - products.fresh[row];
    const bool early = tile < until && (tile + 1) * tile_len <= stored;
    if (early) load_tile<DIM, tile_len, 1>(mine, pages, tile * tile_len, start, end, 0);
    float* finished = (float*)(shared + tile_size);
    pitch = DIM + 8;
    finish_products<WARPS>(finished, pitch, n, queries, products, pages, keys, values, row, max(stored, (from + split * length) * tile_len),
                           min(end, until * tile_len), end);
    queries = finished;
    __syncthreads();
    if (tile < until && !early) load_tile<DIM, tile_len, 1>(mine, pages, tile * tile_len, start, end, 0);
  } else if (tile < until) {
    load_tile<DIM, tile_len, 1>(mine, pages, tile * tile_len, start, end, 0);
  }
  cp_async_commit();

  const Softcap cap = {softcap};
  Query<DIM> query((char*)(shared + WARPS * 2 * tile_size) + warp * Query<DIM>::bytes);
  {
    const float* head = queries + g * pitch;
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
  if (products.k) __syncthreads();

  float sums[DIM / 8][4];
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.f;
  float largest = no_score, sum = 0.f;  // of head g; the sum is of this lane's positions
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

// DIM, and warps of a block. Of wide heads a warp's sums take half of the registers, and a position twice the shared memory:
// fewer warps.
#define DECODE(DIM, WARPS)                                                                                                                              \
  KERNEL __launch_bounds__(32 * WARPS) attend_decode_##DIM(float* dst, const float* q, f16* keys, f16* values, const int* tables, const int* context,   \
                                                           int* counters, float* parts, const float* k, const float* v, const int* fresh,               \
                                                           const float* q_norm, const float* k_norm, const float* freqs, int dims, int neox, float eps, \
                                                           int heads, int kv_heads, int dim, int block_shift, int max_blocks, int window, float scale,  \
                                                           float softcap) {                                                                             \
    const Products products = {k, v, fresh, q_norm, k_norm, eps, {freqs, dims, neox}};                                                                  \
    attend_decode<DIM, WARPS>(dst, q, keys, values, tables, context, counters, parts, heads, kv_heads, dim, block_shift, max_blocks, window, scale,     \
                              softcap, products);                                                                                                       \
  }

DECODE(64, 4)
DECODE(80, 4)
DECODE(96, 4)
DECODE(128, 4)
DECODE(256, 2)

EMU_KERNELS(attend_decode_64, attend_decode_80, attend_decode_96, attend_decode_128, attend_decode_256)
