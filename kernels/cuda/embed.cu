// Embedding: rows of a table of any format, as float32.
#include "formats.cuh"

// Four columns from col on, a multiple of 4, of a row. Beyond the row's end of F32 are zeros.
template <int F>
__device__ __forceinline__ void read4(float (&w)[4], const uint8_t* codes, const uint8_t* high, const uint8_t* scales, size_t row, int col, int cols) {
  typedef Planes<F> P;
  codes += row * P::codes_pitch(cols);
  if (F == F32) {
    float4 v = *(const float4*)(codes + 4 * (size_t)col);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    return;
  }
  if (P::FLOAT) {
    uint2 v = *(const uint2*)(codes + 2 * (size_t)col);
    decode_floats<F>(w, v.x, v.y);
    return;
  }
  int unit = col / UNIT, quad = col % UNIT / 4, upper = F == Q8_0 ? 0 : quad / 4;
  uint32_t word = ((const uint32_t*)codes)[unit * (P::CODES / 4) + (F == Q8_0 ? quad : quad % 4)], extra = 0;
  if (P::HIGH) {
    const uint32_t* h = (const uint32_t*)(high + row * P::high_pitch(cols));
    extra = P::HIGH == 4 ? h[unit] >> 4 * quad : h[2 * unit + quad / 4] >> 8 * (quad % 4);
  }
  decode_codes<F>(w, word, upper, extra);
  const uint8_t* record = scales + row * P::scales_pitch(cols) + (size_t)(col / P::RECORD_COLS) * P::RECORD;
  Scale s = decode_scale<F>(record, unit % (P::RECORD_COLS / UNIT));
  float scale = quad < 4 ? s.low : s.high;
#pragma unroll
  for (int i = 0; i < 4; i++) w[i] = scale * w[i] + s.offset;
}

// y[r] = table[tokens[r]] * scale. A token below 0 is what the step before has drawn, drawn[-1 - token], if drawn is not null.
// A token out of the table makes a row of NaN. A block writes 4 columns a thread.
KERNEL __launch_bounds__(128) embed(float* y, const uint8_t* codes, const uint8_t* high, const uint8_t* scales, int format, int rows, int cols,
                                    const int* tokens, const int* drawn, float scale) {
  int r = blockIdx.y, col = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (col >= cols) return;
  int token = tokens[r];
  if (token < 0 && drawn) token = drawn[-1 - token];
  float w[4];
  if (token < 0 || token >= rows) {
    for (int i = 0; i < 4; i++) w[i] = __uint_as_float(0x7fc00000u);
  } else {
    switch (format) {
#define CASE(F) \
  case F: read4<F>(w, codes, high, scales, (size_t)token, col, cols); break;
      CASE(F32) CASE(F16) CASE(BF16) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K)
#undef CASE
    }
  }
  for (int i = 0; i < 4 && col + i < cols; i++) y[(size_t)r * cols + col + i] = w[i] * scale;
}

EMU_KERNELS(embed)
