#pragma once
// How weights lie on the device, and what they are worth. Layout in pack.go makes these planes out of a file's blocks, and
// says what is in them; here is the one place where codes become numbers, for every kernel that reads weights.
#include "common.cuh"

// The numbers are Format's in pack.go.
enum Format { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K };

// One matrix of a product: Product.Encode writes it.
struct Mat {
  const uint8_t* codes;   // [rows][row bytes of the plane], as are the next two
  const uint8_t* high;    // bits above the codes' four
  const uint8_t* scales;  // records of scales
  const float* bias;      // [rows] or null
  float* y;               // [rows of x, rows]
  int rows;
  int format;
};

constexpr int UNIT = 32;  // columns that share the scales of most formats

// What a format's planes hold for 32 columns, in bytes; RECORD is one entry of the scales' plane, for RECORD_COLS columns.
template <int F>
struct Planes {
  static constexpr bool FLOAT = F <= BF16, WIDE = F >= Q4_K;
  static constexpr int CODES = F == F32 ? 128 : FLOAT ? 64 : F == Q8_0 ? 32 : 16;
  static constexpr int HIGH = F == Q5_0 || F == Q5_1 || F == Q5_K ? 4 : F == Q6_K ? 8 : 0;
  static constexpr int RECORD = FLOAT ? 0 : F == Q6_K ? 20 : WIDE ? 16 : F == Q4_1 || F == Q5_1 ? 4 : 2;
  static constexpr int RECORD_COLS = WIDE ? 256 : UNIT;
  // A weight is scale · code + offset; offset is 0 where the format has no minimum.
  static constexpr bool OFFSET = F == Q4_1 || F == Q5_1 || F == Q4_K || F == Q5_K;
  static constexpr int ZERO = F == Q4_0 ? 8 : F == Q5_0 ? 16 : F == Q6_K ? 32 : 0;  // the code of 0

  // Bytes of a row in each plane: Layout.RowBytes.
  static __device__ __forceinline__ size_t codes_pitch(int cols) { return F == F32 ? (size_t)((cols + 3) / 4) * 16 : (size_t)(cols / UNIT) * CODES; }
  static __device__ __forceinline__ size_t high_pitch(int cols) { return (size_t)(cols / UNIT) * HIGH; }
  static __device__ __forceinline__ size_t scales_pitch(int cols) { return FLOAT ? 0 : ((size_t)(cols / RECORD_COLS) * RECORD + 3) & ~(size_t)3; }
};

// An integer of up to 22 bits as a float, by putting it below the mantissa of 2²³: a logic operation and an addition, where
// a conversion runs at a quarter of their rate.
__device__ __forceinline__ float small_float(uint32_t code, int zero) { return __uint_as_float(0x4B000000u | code) - (float)(8388608 + zero); }

// The binary16 number in the low or the high half of a word.
__device__ __forceinline__ float low_half(uint32_t w) {
  uint16_t bits = (uint16_t)w;
  return h2f(*(f16*)&bits);
}
__device__ __forceinline__ float high_half(uint32_t w) { return low_half(w >> 16); }

// Four columns' codes, less the code of 0. word holds them: 4 bytes for Q8_0; the low (upper 0) or the high (upper 1) halves
// of its bytes for 4 bits. extra has the bits above the fourth: bit b of Q5 for column b, bits 2b and 2b+1 of Q6_K.
template <int F>
__device__ __forceinline__ void decode_codes(float (&w)[4], uint32_t word, int upper, uint32_t extra) {
#pragma unroll
  for (int b = 0; b < 4; b++) {
    if (F == Q8_0) {
      w[b] = small_float((word ^ 0x80808080u) >> 8 * b & 255, 128);
      continue;
    }
    uint32_t code = word >> (8 * b + 4 * upper) & 15;
    if (Planes<F>::HIGH == 4) code |= (extra >> b & 1) << 4;
    if (Planes<F>::HIGH == 8) code |= (extra >> 2 * b & 3) << 4;
    w[b] = small_float(code, Planes<F>::ZERO);
  }
}

// Four columns of 16-bit floats, in two words.
template <int F>
__device__ __forceinline__ void decode_floats(float (&w)[4], uint32_t a, uint32_t b) {
  if (F == F16) {
    w[0] = low_half(a), w[1] = high_half(a), w[2] = low_half(b), w[3] = high_half(b);
  } else {
    w[0] = __uint_as_float(a << 16), w[1] = __uint_as_float(a & 0xffff0000u);
    w[2] = __uint_as_float(b << 16), w[3] = __uint_as_float(b & 0xffff0000u);
  }
}

// What 32 columns' codes are multiplied by: the first 16, the second 16, and what is added. They differ in Q6_K only.
struct Scale {
  float low, high, offset;
};

// The scale of the unit, 0 … 7 of a record of 256 columns or 0. record lies in global or shared memory.
template <int F>
__device__ __forceinline__ Scale decode_scale(const uint8_t* record, int unit) {
  Scale s{1, 1, 0};
  if (F == Q8_0 || F == Q4_0 || F == Q5_0) {
    s.low = s.high = low_half(*(const uint16_t*)record);
  } else if (F == Q4_1 || F == Q5_1) {
    uint32_t both = *(const uint32_t*)record;
    s.low = s.high = low_half(both), s.offset = high_half(both);
  } else if (F == Q4_K || F == Q5_K) {
    // Scale and minimum have 6 bits: those of units 0 … 3 are in bytes 0 … 3 and 4 … 7 of the twelve; those of 4 … 7 have
    // their low 4 bits in bytes 8 … 11 and the rest on top of the former.
    uint32_t both = *(const uint32_t*)record;
    const uint8_t* packed = record + 4;
    int j = unit & 3;
    uint32_t a = packed[j], b = packed[j + 4], c = packed[j + 8];
    uint32_t scale = unit < 4 ? a & 63 : (c & 15) | a >> 6 << 4;
    uint32_t minimum = unit < 4 ? b & 63 : c >> 4 | b >> 6 << 4;
    s.low = s.high = low_half(both) * small_float(scale, 0);
    s.offset = -(high_half(both) * small_float(minimum, 0));
  } else if (F == Q6_K) {
    float d = low_half(*(const uint16_t*)(record + 16));
    uint32_t pair = *(const uint16_t*)(record + 2 * unit) ^ 0x8080u;
    s.low = d * small_float(pair & 255, 128), s.high = d * small_float(pair >> 8, 128);
  }
  return s;
}
