#pragma once
// Products for many rows of x ("tokens") on the tensor cores. A block computes 128 rows of W for a tile of TOKENS: each of
// its 4 warps has 32 rows of W and all of the tokens, so that a weight is decoded once in a block.
//
// Columns come in steps, two of them in shared memory: one is on its way (cp.async) while the other is multiplied. Weights
// lie there as codes and x as float32; both become bfloat16 when fragments are made, in registers. In mma.m16n8k16 the order
// of the 16 columns is free as long as A (weights) and B (x) agree: lane (g, t) of g = lane / 4, t = lane % 4 holds the
// columns 2t, 2t+1, 2t+8, 2t+9 of the rows g and g+8 of A, and of the column g of B. Here these are the columns 4t … 4t+3,
// so that a lane reads one word of codes, or 16 bytes of x, at a time.
#include "matmul.cuh"

constexpr int TILE_THREADS = 128, TILE_ROWS = 128;

// Two stages of STEP columns, as family.shared in launch_product.go counts them. Rows of codes are padded so that the words
// which a warp reads at once, of 8 rows, are in different banks; rows of x so that 2 of them are.
template <int F, int STEP, int TOKENS>
struct Stage {
  typedef Planes<F> P;
  static constexpr int UNITS = STEP / UNIT;
  static constexpr int CODES = UNITS * P::CODES + (P::FLOAT ? 32 : 16);
  static constexpr int HIGH = UNITS * P::HIGH;
  static constexpr int RECORDS = P::FLOAT ? 0 : P::WIDE ? P::RECORD : UNITS * P::RECORD;
  static constexpr int X = STEP + 16;  // floats
  static constexpr int BYTES = TILE_ROWS * (CODES + HIGH + RECORDS) + 4 * (TOKENS * X + STEP);

  uint8_t* base;
  __device__ __forceinline__ Stage(uint8_t* shared, int parity) : base(shared + parity * BYTES) {}
  __device__ __forceinline__ float* x(int token) const { return (float*)base + token * X; }
  __device__ __forceinline__ float* norm() const { return (float*)base + TOKENS * X; }
  __device__ __forceinline__ uint8_t* codes(int row) const { return base + 4 * (TOKENS * X + STEP) + row * CODES; }
  __device__ __forceinline__ uint8_t* high(int row) const { return base + 4 * (TOKENS * X + STEP) + TILE_ROWS * CODES + row * HIGH; }
  __device__ __forceinline__ uint8_t* records(int row) const {
    return base + 4 * (TOKENS * X + STEP) + TILE_ROWS * (CODES + HIGH) + row * RECORDS;
  }
};

// The rows of W of a block. A warp's first 16 and second 16 are of the same matrix, or in a gated mode of the gate and of
// up, so that one lane has both of a result.
struct TileRows {
  const Mat* mat;
  int first;  // row of the matrix
  bool gated;

  __device__ __forceinline__ const Mat* matrix(int r) const { return mat + (gated && (r & 16)); }
  // The matrix's row of the block's row r, 0 … 127; beyond the matrix's last: not clamped.
  __device__ __forceinline__ int row(int r) const { return first + (gated ? r / 32 * 16 + r % 16 : r); }
};

// Begins the copies of a step's columns, of which the matrices have at least one unit. Rows of W beyond the last, and tokens
// beyond the list, are others' again.
template <int F, int STEP, int TOKENS>
__device__ __forceinline__ void copy_step(Stage<F, STEP, TOKENS> to, const TileRows& rows, const float* x, const int* list, int num_rows, int cols,
                                          const float* norm, int begin) {
  typedef Planes<F> P;
  typedef Stage<F, STEP, TOKENS> S;
  int tid = threadIdx.x, units = min(S::UNITS, (cols - begin) / UNIT);
  constexpr int PIECES = S::UNITS * P::CODES / 16;  // of 16 bytes
  for (int i = tid; i < TILE_ROWS * PIECES; i += TILE_THREADS) {
    int r = i / PIECES, piece = i % PIECES;
    const Mat* m = rows.matrix(r);
    if (piece < units * P::CODES / 16)
      cp_async16(to.codes(r) + 16 * piece, m->codes + min(rows.row(r), m->rows - 1) * P::codes_pitch(cols) + (size_t)(begin / UNIT) * P::CODES + 16 * piece);
  }
  if (P::HIGH) {
    constexpr int WORDS = S::HIGH / 4 ? S::HIGH / 4 : 1;
    for (int i = tid; i < TILE_ROWS * WORDS; i += TILE_THREADS) {
      int r = i / WORDS, word = i % WORDS;
      const Mat* m = rows.matrix(r);
      if (word < units * P::HIGH / 4)
        cp_async4(to.high(r) + 4 * word, m->high + min(rows.row(r), m->rows - 1) * P::high_pitch(cols) + (size_t)(begin / UNIT) * P::HIGH + 4 * word);
    }
  }
  if (!P::FLOAT) {
    // The plane's rows are whole words, so the last of an odd number of 2-byte records may be copied as one.
    constexpr int WORDS = S::RECORDS / 4 ? S::RECORDS / 4 : 1;
    int left = (int)P::scales_pitch(cols) - begin / P::RECORD_COLS * P::RECORD;
    for (int i = tid; i < TILE_ROWS * WORDS; i += TILE_THREADS) {
      int r = i / WORDS, word = i % WORDS;
      const Mat* m = rows.matrix(r);
      if (4 * word < left)
        cp_async4(to.records(r) + 4 * word, m->scales + min(rows.row(r), m->rows - 1) * P::scales_pitch(cols) + (size_t)(begin / P::RECORD_COLS) * P::RECORD + 4 * word);
    }
  }
  constexpr int QUADS = STEP / 4;
  for (int i = tid; i < TOKENS * QUADS; i += TILE_THREADS) {
    int token = i / QUADS, quad = i % QUADS;
    int row = max(row_of(list, min(blockIdx.z * TOKENS + token, num_rows - 1), num_rows), 0);
    if (quad < units * UNIT / 4) cp_async16(to.x(token) + 4 * quad, x + (size_t)row * cols + begin + 4 * quad);
  }
  if (norm)
    for (int quad = tid; quad < units * UNIT / 4; quad += TILE_THREADS) cp_async16(to.norm() + 4 * quad, norm + begin + 4 * quad);
  cp_async_commit();
}

// Four columns of a row of A, the quad-th of a unit, as two words of bfloat16.
template <int F, int STEP, int TOKENS>
__device__ __forceinline__ void weights4(uint32_t& first, uint32_t& second, Stage<F, STEP, TOKENS> s, int r, int unit, int quad, const Scale& scale) {
  typedef Planes<F> P;
  const uint8_t* codes = s.codes(r) + unit * P::CODES;
  float w[4];
  if (P::FLOAT) {
    uint2 v = *(const uint2*)(codes + 8 * quad);
    if (F == BF16) {
      first = v.x, second = v.y;
      return;
    }
    decode_floats<F>(w, v.x, v.y);
  } else {
    uint32_t word = ((const uint32_t*)codes)[F == Q8_0 ? quad : quad & 3], extra = 0;
    if (P::HIGH == 4) extra = *(const uint32_t*)(s.high(r) + 4 * unit) >> 4 * quad;
    if (P::HIGH == 8) extra = ((const uint32_t*)(s.high(r) + 8 * unit))[quad / 4] >> 8 * (quad % 4);
    decode_codes<F>(w, word, F == Q8_0 ? 0 : quad / 4, extra);
    float factor = quad < 4 ? scale.low : scale.high;
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = P::OFFSET ? fmaf(factor, w[i], scale.offset) : factor * w[i];
  }
  first = pack_bf16(w[0], w[1]), second = pack_bf16(w[2], w[3]);
}

// The sums of a lane: d[i][j] are those of the rows g and g+8 of the warp's i-th 16 rows with the tokens 2t and 2t+1 of the
// j-th 8, as mma.m16n8k16 has them; square[j] is the part of the sum of squares of token g of the j-th 8.
template <int TOKENS>
struct TileSums {
  float d[2][TOKENS / 8][4];
  float square[TOKENS / 8];
};

// Multiplies a step that has come.
template <int F, int STEP, int TOKENS, bool NORM>
__device__ __forceinline__ void multiply_step(TileSums<TOKENS>& sums, Stage<F, STEP, TOKENS> s, int begin, int cols, bool norm) {
  typedef Planes<F> P;
  int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  int units = min(STEP / UNIT, (cols - begin) / UNIT);
#pragma unroll 1
  for (int unit = 0; unit < units; unit++) {
    uint32_t a[2][2][4];  // [16 columns][16 rows]
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int r = warp * 32 + i * 16 + half * 8 + g, record = P::WIDE ? 0 : unit * P::RECORD;
        Scale scale = decode_scale<F>(s.records(r) + record, P::WIDE ? (begin / UNIT + unit) % 8 : 0);
        weights4<F>(a[0][i][half], a[0][i][half + 2], s, r, unit, t, scale);
        weights4<F>(a[1][i][half], a[1][i][half + 2], s, r, unit, 4 + t, scale);
      }
#pragma unroll
    for (int k = 0; k < 2; k++) {
      int col = unit * UNIT + k * 16 + 4 * t;
#pragma unroll
      for (int j = 0; j < TOKENS / 8; j++) {
        float4 v = *(const float4*)(s.x(8 * j + g) + col);
        if (NORM && norm) {
          float4 w = *(const float4*)(s.norm() + col);
          sums.square[j] += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
          v.x *= w.x, v.y *= w.y, v.z *= w.z, v.w *= w.w;
        }
        uint32_t b[2] = {pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)};
        mma_bf16(sums.d[0][j], a[k][0], b);
        mma_bf16(sums.d[1][j], a[k][1], b);
      }
    }
  }
}

template <int F, int STEP, int TOKENS, bool NORM>
__device__ __forceinline__ void multiply_tile(TileSums<TOKENS>& sums, uint8_t* shared, const TileRows& rows, const float* x, const int* list, int num_rows,
                                              int cols, const float* norm) {
  typedef Stage<F, STEP, TOKENS> S;
  int from, to;
  share_steps(cols, STEP, from, to);
  copy_step(S(shared, 0), rows, x, list, num_rows, cols, norm, from * STEP);
  for (int step = from; step < to; step++) {
    int parity = (step - from) & 1;
    if (step + 1 < to) {
      copy_step(S(shared, parity ^ 1), rows, x, list, num_rows, cols, norm, (step + 1) * STEP);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();  // the step has come for all
    multiply_step<F, STEP, TOKENS, NORM>(sums, S(shared, parity), step * STEP, cols, norm != nullptr);
    __syncthreads();  // and may be overwritten
  }
}

// The inverse roots of the rows of x that a block multiplies, of the norm before the product. All threads call it.
template <int TOKENS>
__device__ __forceinline__ void find_roots(float* roots, const Norms& norms, const int* list, int num_rows, int cols, float eps) {
  int token = threadIdx.x;
  if (token < TOKENS) {
    int row = row_of(list, blockIdx.z * TOKENS + token, num_rows);
    float sum = 0;
    for (int i = 0; row >= 0 && i < norms.num_squares; i++) sum += norms.squares[(size_t)row * norms.num_squares + i];
    roots[token] = rsqrtf(sum / cols + eps);
  }
  __syncthreads();
}

// Leaves the block's part of the sums of squares, of which a lane has those of the tokens 2t and 2t+1 of the j-th 8 for its
// rows of W. All threads call it.
template <int TOKENS>
__device__ __forceinline__ void leave_squares(const float (&square)[TOKENS / 8][2], float* parts, int num_rows) {
  __shared__ float sums[TILE_THREADS / 32][TOKENS];
  int lane = threadIdx.x % 32, token = threadIdx.x, row = blockIdx.z * TOKENS + token;
#pragma unroll
  for (int j = 0; j < TOKENS / 8; j++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float s = square[j][i];
      s += __shfl_xor_sync(0xffffffffu, s, 4);
      s += __shfl_xor_sync(0xffffffffu, s, 8);
      s += __shfl_xor_sync(0xffffffffu, s, 16);
      if (lane < 4) sums[threadIdx.x / 32][8 * j + 2 * lane + i] = s;
    }
  __syncthreads();
  if (token < TOKENS && row < num_rows) {
    float sum = 0;
    for (int warp = 0; warp < TILE_THREADS / 32; warp++) sum += sums[warp][token];
    parts[(size_t)row * gridDim.x + blockIdx.x] = sum;
  }
}

// NORM: x is normed on the way by norm; otherwise, as norms say.
template <int TOKENS, int STEP, bool NORM>
__device__ __forceinline__ void multiply_tokens(PRODUCT_PARAMETERS, const Norms& norms) {
  DYN_SMEM(uint8_t, shared);
  int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  bool gated = is_gated(mode);
  TileRows rows;
  rows.gated = gated;
  rows.mat = find_rows(mats, gated ? 1 : num_mats, blockIdx.x, gated ? TILE_ROWS / 2 : TILE_ROWS, rows.first);
  TileSums<TOKENS> sums = {};
  switch (rows.mat->format) {
#define CASE(F) \
  case F: multiply_tile<F, STEP, TOKENS, NORM>(sums, shared, rows, x, row_list, num_rows, cols, norm); break;
    CASE(F16) CASE(BF16) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K)
#undef CASE
  }
  constexpr int SUMS = sizeof(sums) / sizeof(float);
  if (!sum_parts(*(float(*)[SUMS])&sums, partials, counters)) return;
  __shared__ float roots[NORM ? 1 : TOKENS];
  if (!NORM && norms.squares) find_roots<TOKENS>(roots, norms, row_list, num_rows, cols, eps);
  float factor[TOKENS / 8][2], square[TOKENS / 8][2] = {};  // of the tokens 2t and 2t+1
#pragma unroll
  for (int j = 0; j < TOKENS / 8; j++) {
    factor[j][0] = factor[j][1] = 1;
    if (!NORM && norms.squares) factor[j][0] = roots[8 * j + 2 * t], factor[j][1] = roots[8 * j + 2 * t + 1];
    if (NORM && norm) {
      float s = sums.square[j];  // the four lanes of a token have a quarter of its columns each
      s += __shfl_xor_sync(0xffffffffu, s, 1);
      s += __shfl_xor_sync(0xffffffffu, s, 2);
      float f = rsqrtf(s / cols + eps);
      factor[j][0] = __shfl_sync(0xffffffffu, f, 8 * t);
      factor[j][1] = __shfl_sync(0xffffffffu, f, 8 * t + 4);
    }
  }
#pragma unroll
  for (int j = 0; j < TOKENS / 8; j++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      int token = blockIdx.z * TOKENS + 8 * j + 2 * t + (c & 1);
      if (row_of(row_list, token, num_rows) < 0) continue;
      float f = factor[j][c & 1];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        int row = rows.row(warp * 32 + i * 16 + c / 2 * 8 + g);
        if (row >= rows.mat->rows || (gated && i == 1)) continue;
        float y = finish(rows.mat, row, token, sums.d[i][j][c] * f, gated ? sums.d[1][j][c] * f : 0.f, mode, softcap, not_finite);
        if (!NORM && norms.next) {
          norms.scaled[(size_t)token * rows.mat->rows + row] = y * norms.next[row];
          square[j][c & 1] += y * y;
        }
      }
    }
  if (!NORM && norms.next) leave_squares<TOKENS>(square, norms.parts, num_rows);
}
