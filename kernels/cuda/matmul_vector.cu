// Products for up to 4 rows of x at a time, in float32: each weight is decoded once and multiplied with each row. What
// bounds them is the reading of the weights, so that a block reads its rows of codes 16 bytes a lane, some rows at once.
//
// A block of 8 warps computes 32 rows of a matrix, 4 a warp (half as many for 4 rows of x, whose sums take the registers),
// over its part of the columns. Columns come in chunks of 1024:
// the rows of x go to shared memory, normed on the way if asked for, and each lane takes the columns of its 16 bytes.
// The factor 1/rms of a norm is the same for all of a row: it is applied to the product, so that x is read once.
#include "matmul.cuh"

constexpr int CHUNK = 1024, VECTOR_THREADS = 256;
template <int M>
constexpr int WARP_ROWS = M == 4 ? 2 : 4;  // rows of W that a warp computes

// Where a column of a chunk lies in shared memory. Each 32 are followed by 4 of nothing: lanes read 16 bytes at strides
// of 4, 8, 16 or 32 columns, and any 8 neighbours are then in different banks.
__device__ __forceinline__ int chunk_at(int col) { return col + col / 32 * 4; }
constexpr int CHUNK_FLOATS = CHUNK + CHUNK / 32 * 4;

// 16 bytes of codes of a row with what belongs to them.
template <int F>
struct Piece {
  static constexpr int COLS = F == F32 ? 4 : F <= BF16 ? 8 : F == Q8_0 ? 16 : 32;
  uint4 codes;
  uint32_t high[2];
  Scale scale;

  // col is a multiple of COLS within the row.
  __device__ __forceinline__ void read(const Mat* m, int row, int col, int cols) {
    typedef Planes<F> P;
    codes = __ldcs((const uint4*)(m->codes + row * P::codes_pitch(cols)) + col / COLS);
    int unit = col / UNIT;
    if (P::HIGH == 4) high[0] = ((const uint32_t*)(m->high + row * P::high_pitch(cols)))[unit];
    if (P::HIGH == 8) {
      uint2 both = ((const uint2*)(m->high + row * P::high_pitch(cols)))[unit];
      high[0] = both.x, high[1] = both.y;
    }
    if (!P::FLOAT)
      scale = decode_scale<F>(m->scales + row * P::scales_pitch(cols) + (size_t)(col / P::RECORD_COLS) * P::RECORD,
                              unit % (P::RECORD_COLS / UNIT));
  }

  // The codes of the columns 4·quad … 4·quad+3, less that of 0.
  __device__ __forceinline__ void four(float (&w)[4], int quad) const {
    const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
    if (F == F32) {
      for (int i = 0; i < 4; i++) w[i] = __uint_as_float(word[i]);
    } else if (Planes<F>::FLOAT) {
      decode_floats<F>(w, word[2 * quad & 3], word[(2 * quad + 1) & 3]);
    } else if (F == Q8_0) {
      decode_codes<F>(w, word[quad & 3], 0, 0);
    } else {
      uint32_t extra = 0;
      if (Planes<F>::HIGH == 4) extra = high[0] >> 4 * quad;
      if (Planes<F>::HIGH == 8) extra = (quad < 4 ? high[0] : high[1]) >> 8 * (quad % 4);
      decode_codes<F>(w, word[quad & 3], quad / 4, extra);
    }
  }
};

// The rows of x that a block works on.
template <int M>
struct VectorInput {
  const float* row[M];  // null: none
  const float* norm;
  float square[M];  // this thread's part of the sum of squares
  int cols;

  // Puts a chunk's columns into shared memory, zeros beyond the rows' end. [M][CHUNK_FLOATS]
  __device__ __forceinline__ void stage(float* to, int begin, bool count) {
    for (int i = threadIdx.x; i < CHUNK; i += VECTOR_THREADS) {
      int col = begin + i;
      float factor = norm && col < cols ? norm[col] : 1.f;
#pragma unroll
      for (int m = 0; m < M; m++) {
        float v = row[m] && col < cols ? row[m][col] : 0.f;
        if (count) square[m] += v * v;
        to[m * CHUNK_FLOATS + chunk_at(i)] = v * factor;
      }
    }
  }
};

// Products of WARP_ROWS<M> rows of W, from row on, with the rows of x over the block's part of the columns. Rows beyond the
// matrix's are its last one again. Each lane has the sum of its own columns.
template <int F, int M>
__device__ __forceinline__ void multiply_rows(float (&acc)[WARP_ROWS<M>][M], const Mat* mat, int row, VectorInput<M>& in, float* xs, bool count) {
  constexpr int COLS = Piece<F>::COLS, GROUP = COLS < 16 ? COLS : 16;
  int lane = threadIdx.x % 32, from, to, cols = in.cols;
  share_steps(cols, CHUNK, from, to);
#pragma unroll
  for (int r = 0; r < WARP_ROWS<M>; r++)
    for (int m = 0; m < M; m++) acc[r][m] = 0;
  for (int chunk = from; chunk < to; chunk++) {
    __syncthreads();  // all have read the chunk before
    in.stage(xs, chunk * CHUNK, count);
    __syncthreads();
#pragma unroll 1
    for (int at = lane * COLS; at < CHUNK; at += 32 * COLS) {
      int col = chunk * CHUNK + at;
      if (col >= cols) break;
      Piece<F> piece[WARP_ROWS<M>];
#pragma unroll
      for (int r = 0; r < WARP_ROWS<M>; r++) piece[r].read(mat, min(row + r, mat->rows - 1), col, cols);
#pragma unroll 1  // what is unrolled is held in registers at once
      for (int group = 0; group < COLS / GROUP; group++) {
        float part[WARP_ROWS<M>][M] = {}, sum[M] = {};
#pragma unroll
        for (int q = 0; q < GROUP / 4; q++) {
          int quad = group * (GROUP / 4) + q;
          float4 v[M];
#pragma unroll
          for (int m = 0; m < M; m++) {
            v[m] = *(const float4*)(xs + m * CHUNK_FLOATS + chunk_at(at + 4 * quad));
            if (Planes<F>::OFFSET) sum[m] += (v[m].x + v[m].y) + (v[m].z + v[m].w);
          }
#pragma unroll
          for (int r = 0; r < WARP_ROWS<M>; r++) {
            float w[4];
            piece[r].four(w, quad);
#pragma unroll
            for (int m = 0; m < M; m++) {
              float& a = Planes<F>::FLOAT ? acc[r][m] : part[r][m];
              a = fmaf(w[0], v[m].x, a), a = fmaf(w[1], v[m].y, a), a = fmaf(w[2], v[m].z, a), a = fmaf(w[3], v[m].w, a);
            }
          }
        }
        if (!Planes<F>::FLOAT) {
#pragma unroll
          for (int r = 0; r < WARP_ROWS<M>; r++)
#pragma unroll
            for (int m = 0; m < M; m++) {
              const Scale& s = piece[r].scale;
              acc[r][m] = fmaf(group == 0 ? s.low : s.high, part[r][m], acc[r][m]);
              if (Planes<F>::OFFSET) acc[r][m] = fmaf(s.offset, sum[m], acc[r][m]);
            }
        }
      }
    }
  }
}

// multiply_rows for the matrix's format, and the sums over the lanes in out: [rows of the block][M].
template <int M>
__device__ __forceinline__ void multiply_any(float* out, const Mat* mat, int row, VectorInput<M>& in, float* xs, bool count) {
  float acc[WARP_ROWS<M>][M];
  int warp = threadIdx.x / 32;
  row += warp * WARP_ROWS<M>;
  switch (mat->format) {
#define CASE(F) \
  case F: multiply_rows<F, M>(acc, mat, row, in, xs, count); break;
    CASE(F32) CASE(F16) CASE(BF16) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K)
#undef CASE
  }
#pragma unroll
  for (int r = 0; r < WARP_ROWS<M>; r++)
#pragma unroll
    for (int m = 0; m < M; m++) {
      float s = warp_sum(acc[r][m]);
      if (threadIdx.x % 32 == 0) out[(warp * WARP_ROWS<M> + r) * M + m] = s;
    }
}

template <int M>
__device__ __forceinline__ void multiply_vector(PRODUCT_PARAMETERS) {
  constexpr int ROWS = VECTOR_THREADS / 32 * WARP_ROWS<M>;
  __shared__ __align__(16) float xs[M * CHUNK_FLOATS];
  __shared__ float products[2][ROWS * M], squares[VECTOR_THREADS / 32][M];
  bool gated = is_gated(mode);
  int row, tid = threadIdx.x;
  const Mat* mat = find_rows(mats, gated ? 1 : num_mats, blockIdx.x, ROWS, row);
  VectorInput<M> in{{}, norm, {}, cols};
#pragma unroll
  for (int m = 0; m < M; m++) {
    int i = row_of(row_list, blockIdx.z * M + m, num_rows);
    in.row[m] = i < 0 ? nullptr : x + (size_t)i * cols;
  }
  multiply_any<M>(products[0], mat, row, in, xs, norm != nullptr);
  if (gated) multiply_any<M>(products[1], mat + 1, row, in, xs, false);
  if (norm) {
#pragma unroll
    for (int m = 0; m < M; m++) {
      float s = warp_sum(in.square[m]);
      if (tid % 32 == 0) squares[tid / 32][m] = s;
    }
  }
  __syncthreads();
  // A thread has a row of one matrix with one row of x, and the first M threads have the sums of squares.
  int r = tid % ROWS, m = tid / ROWS % M, second = tid / (ROWS * M);
  float v[2] = {};
  if (second < (gated ? 2 : 1)) v[0] = products[second][r * M + m];
  if (norm && tid < M)
    for (int w = 0; w < VECTOR_THREADS / 32; w++) v[1] += squares[w][tid];
  if (!sum_parts(v, partials, counters)) return;
  if (norm || gated) {
    if (second < 2) products[second][r * M + m] = v[0];
    if (tid < M) squares[0][tid] = v[1];
    __syncthreads();
  }
  if (second == 0 && row + r < mat->rows && row_of(row_list, blockIdx.z * M + m, num_rows) >= 0) {
    float up = gated ? products[1][r * M + m] : 0.f;
    if (norm) {
      float factor = rsqrtf(squares[0][m] / cols + eps);
      v[0] *= factor, up *= factor;
    }
    finish(mat, row + r, blockIdx.z * M + m, v[0], up, mode, softcap, not_finite);
  }
}

KERNEL __launch_bounds__(VECTOR_THREADS, 2) matmul_vector_1(PRODUCT_PARAMETERS) { multiply_vector<1>(PRODUCT_ARGUMENTS); }
KERNEL __launch_bounds__(VECTOR_THREADS, 2) matmul_vector_2(PRODUCT_PARAMETERS) { multiply_vector<2>(PRODUCT_ARGUMENTS); }
KERNEL __launch_bounds__(VECTOR_THREADS, 2) matmul_vector_4(PRODUCT_PARAMETERS) { multiply_vector<4>(PRODUCT_ARGUMENTS); }

EMU_KERNELS(matmul_vector_1, matmul_vector_2, matmul_vector_4)
