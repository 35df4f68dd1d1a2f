// ldmatrix and mma for a whole warp at once, in the fragment layouts of the PTX ISA ("Warp-level matrix instructions":
// ldmatrix, and matrix fragments for mma.m16n8k16 with .f16 and .bf16). With g = lane/4 and t = lane%4:
//   A 16x16, 4 words: (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8), each with the next column in its high half
//   B 16x8,  2 words: (2t, g) (2t+8, g), each with the next row in its high half
//   D 16x8,  4 floats: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
#include <immintrin.h>

#include "machine.h"

namespace emu {

void loadMatrices(Warp* w, int count, bool transposed) {
  for (int m = 0; m < count; m++) {
    uint16_t v[8][8];
    for (int row = 0; row < 8; row++) memcpy(v[row], w->a[m * 8 + row], 16);
    if (transposed) {
      uint16_t u[8][8];
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) u[i][j] = v[j][i];
      memcpy(v, u, sizeof v);
    }
    // Lane 4*row+t has columns 2t and 2t+1 of a row.
    for (int l = 0; l < 32; l++) memcpy((uint32_t*)w->to[l] + m, &v[l / 4][l % 4 * 2], 4);
  }
}

// The two values of a fragment's word as floats, exactly.
template <bool half>
static inline void unpack(uint32_t word, float* lo, float* hi) {
  if (half) {
    __m128 f = _mm_cvtph_ps(_mm_cvtsi32_si128((int)word));
    *lo = f[0];
    *hi = f[1];
  } else {
    *lo = bits<float>(word << 16);
    *hi = bits<float>(word & 0xffff0000u);
  }
}

// Products are exact and sums float32, as the hardware's are but for the order of a sum's terms, which it doesn't promise.
template <bool half>
static void multiply(Warp* w) {
  alignas(32) float a[16][16], b[16][8], d[16][8];
  for (int l = 0; l < 32; l++) {
    int g = l / 4, t = l % 4 * 2;
    const uint32_t *x = (const uint32_t*)w->a[l], *y = (const uint32_t*)w->b[l];
    const float* z = (const float*)w->to[l];
    unpack<half>(x[0], &a[g][t], &a[g][t + 1]);
    unpack<half>(x[1], &a[g + 8][t], &a[g + 8][t + 1]);
    unpack<half>(x[2], &a[g][t + 8], &a[g][t + 9]);
    unpack<half>(x[3], &a[g + 8][t + 8], &a[g + 8][t + 9]);
    unpack<half>(y[0], &b[t][g], &b[t + 1][g]);
    unpack<half>(y[1], &b[t + 8][g], &b[t + 9][g]);
    memcpy(&d[g][t], z, 8);
    memcpy(&d[g + 8][t], z + 2, 8);
  }
  for (int i = 0; i < 16; i += 8) {  // 8 rows at once: as many sums as hide the latency
    __m256 s0 = _mm256_load_ps(d[i]), s1 = _mm256_load_ps(d[i + 1]), s2 = _mm256_load_ps(d[i + 2]), s3 = _mm256_load_ps(d[i + 3]);
    __m256 s4 = _mm256_load_ps(d[i + 4]), s5 = _mm256_load_ps(d[i + 5]), s6 = _mm256_load_ps(d[i + 6]), s7 = _mm256_load_ps(d[i + 7]);
    for (int k = 0; k < 16; k++) {
      __m256 row = _mm256_load_ps(b[k]);
      s0 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i][k]), row, s0);
      s1 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 1][k]), row, s1);
      s2 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 2][k]), row, s2);
      s3 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 3][k]), row, s3);
      s4 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 4][k]), row, s4);
      s5 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 5][k]), row, s5);
      s6 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 6][k]), row, s6);
      s7 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[i + 7][k]), row, s7);
    }
    _mm256_store_ps(d[i], s0), _mm256_store_ps(d[i + 1], s1), _mm256_store_ps(d[i + 2], s2), _mm256_store_ps(d[i + 3], s3);
    _mm256_store_ps(d[i + 4], s4), _mm256_store_ps(d[i + 5], s5), _mm256_store_ps(d[i + 6], s6), _mm256_store_ps(d[i + 7], s7);
  }
  for (int l = 0; l < 32; l++) {
    int g = l / 4, t = l % 4 * 2;
    float* z = (float*)w->to[l];
    memcpy(z, &d[g][t], 8);
    memcpy(z + 2, &d[g + 8][t], 8);
  }
}
void multiply(Warp* w, bool half) { half ? multiply<true>(w) : multiply<false>(w); }

}  // namespace emu
