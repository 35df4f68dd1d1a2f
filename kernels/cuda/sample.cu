// Drawing tokens, by engine/sample's rule and with its numbers: a token's weight is its probability relative to the most
// likely one's as an integer of 40 bits, computed by the same steps in float64 (kernels/cpu, Weight), so that sums are exact,
// have no order, and draw the same token as the host would.
//
// Three kernels: sample_prepare applies bias, mask and penalties, sample_weigh computes weights, both with a block for each
// slice of a row; sample_draw finds the cuts and the token, a block for each row. Nothing is sorted but what is left of a
// row when the cut is known to within some hundred tokens.
#include "matmul.cuh"

typedef unsigned long long u64;

// Draw.Encode in draw.go writes it; parameters are explained there.
struct Draw {
  u64 noise;
  double scale;  // log₂e / temperature; 0: the greatest logit is drawn
  u64 least;     // what a token must weigh, by min-p; at least 1
  float top_p, repetition, presence, frequency;
  int top_k, bias_from, bias_len, seen_from, seen_len, mask, logprobs, skip, unused[2];
};

struct Bias {
  int token;
  float value;
};
struct Seen {
  int token, count;
};

// What is known of a slice of a row. Keys are logit_key's.
struct Slice {
  u64 best, raw_best;  // greatest of the adjusted logits, and of the model's
  u64 raw_sum;         // of weights at temperature 1, by the model's logits
  int not_finite, unused;
};

constexpr int SLICE = 8192;  // tokens; sampleSpan in draw.go
constexpr u64 ONE_WEIGHT = 1ull << 40;
constexpr int ID_BITS = 20;
constexpr int ID_MASK = (1 << ID_BITS) - 1;
constexpr double LOG2E = 0x1.71547652b82fep+00;

// A key is a value above the complement of a token: of equal values the lowest token is the greatest.
__device__ __forceinline__ u64 make_key(u64 value, int id) { return value << ID_BITS | (unsigned)(ID_MASK - id); }
__device__ __forceinline__ int key_id(u64 key) { return ID_MASK - (int)(key & ID_MASK); }

// The bits of a float in the order of floats; -0 and 0 are one.
__device__ __forceinline__ unsigned ordinal(float x) {
  unsigned b = __float_as_uint(x);
  if (b << 1 == 0) b = 0;
  return b ^ ((unsigned)((int)b >> 31) | 0x80000000u);
}
__device__ __forceinline__ float ordinal_float(unsigned o) { return __uint_as_float(o ^ ((unsigned)~((int)o >> 31) | 0x80000000u)); }

// 0 for -infinity and NaN, which are never drawn.
__device__ __forceinline__ u64 logit_key(float x, int id) {
  unsigned b = __float_as_uint(x);
  bool nan = (b & 0x7fffffffu) > 0x7f800000u;
  return nan || b == 0xff800000u ? 0 : make_key(ordinal(x), id);
}

// Weight in kernels/cpu, step by step: 2⁴⁰ · 2^((x - peak)·scale), rounded.
__device__ __forceinline__ u64 weight(float x, float peak, double scale) {
  if (x == peak) return ONE_WEIGHT;  // also where both are infinite
  double y = __dmul_rn(__dsub_rn((double)x, (double)peak), scale);
  if (!(y > -41)) return 0;
  double n = rint(y), f = __dsub_rn(y, n);
  // (ln 2)ⁿ/n!, n = 8 … 0
  double p = 0x1.62c0223a5c821p-20;
  p = __fma_rn(p, f, 0x1.ffcbfc588b0c2p-17), p = __fma_rn(p, f, 0x1.430912f86c785p-13);
  p = __fma_rn(p, f, 0x1.5d87fe78a672fp-10), p = __fma_rn(p, f, 0x1.3b2ab6fba4e76p-07);
  p = __fma_rn(p, f, 0x1.c6b08d704a0bep-05), p = __fma_rn(p, f, 0x1.ebfbdff82c58ep-03);
  p = __fma_rn(p, f, 0x1.62e42fefa39efp-01), p = __fma_rn(p, f, 1.0);
  return (u64)rint(__longlong_as_double(__double_as_longlong(p) + (((long long)n + 40) << 52)));
}

// Maximum and sum over a block of a multiple of 32 threads, the same in each. shared has one place a warp, and is free again
// afterwards.
__device__ __forceinline__ u64 block_max(u64 v, u64* shared) {
  for (int o = 16; o; o >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, o));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (unsigned w = 0; w < blockDim.x / 32; w++) v = max(v, shared[w]);
  __syncthreads();
  return v;
}
__device__ __forceinline__ u64 warp_sum64(u64 v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
__device__ __forceinline__ u64 block_sum(u64 v, u64* shared) {
  v = warp_sum64(v);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (unsigned w = 0; w < blockDim.x / 32; w++) v += shared[w];
  __syncthreads();
  return v;
}

__device__ __forceinline__ size_t padded(int vocab) { return (size_t)(vocab + 7) / 8 * 8; }
__device__ __forceinline__ bool masked(const uint32_t* mask, int id) { return mask && !(mask[id / 32] >> id % 32 & 1); }

// adjusted = logits with bias, mask and penalties. [rows][padded(vocab)]
KERNEL __launch_bounds__(256) sample_prepare(const float* logits, float* adjusted, Slice* slices, const Draw* draws, const Bias* bias, const Seen* seen,
                                             const uint32_t* masks, int vocab) {
  __shared__ u64 shared[8];
  int row = blockIdx.y, from = blockIdx.x * SLICE, to = min(from + SLICE, vocab);
  const Draw& d = draws[row];
  if (d.skip) return;
  const uint32_t* mask = d.mask < 0 ? nullptr : masks + (size_t)d.mask * ((vocab + 31) / 32);
  logits += (size_t)row * vocab;
  adjusted += row * padded(vocab);
  const float none = __uint_as_float(0xff800000u);  // -infinity
  u64 raw_best = 0;
  bool bad = false;
  for (int i = from + threadIdx.x; i < to; i += blockDim.x) {
    float x = logits[i];
    bad |= !is_finite(x);
    raw_best = max(raw_best, logit_key(x, i));
    adjusted[i] = masked(mask, i) ? none : x;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < d.bias_len; j += blockDim.x) {
    Bias b = bias[d.bias_from + j];
    if (b.token >= from && b.token < to && !masked(mask, b.token)) adjusted[b.token] = __fadd_rn(adjusted[b.token], b.value);
  }
  __syncthreads();
  for (int j = threadIdx.x; j < d.seen_len; j += blockDim.x) {
    Seen s = seen[d.seen_from + j];
    if (s.token < from || s.token >= to) continue;
    float x = adjusted[s.token];
    x = x > 0 ? x / d.repetition : __fmul_rn(x, d.repetition);
    if (s.count > 0) x = __fadd_rn(__fadd_rn(x, -__fmul_rn(d.frequency, (float)s.count)), -d.presence);
    adjusted[s.token] = x;
  }
  __syncthreads();
  u64 best = 0;
  for (int i = from + threadIdx.x; i < to; i += blockDim.x) best = max(best, logit_key(adjusted[i], i));
  best = block_max(best, shared);
  raw_best = block_max(raw_best, shared);
  bad = __syncthreads_or(bad);
  if (threadIdx.x == 0) {
    Slice& s = slices[(size_t)row * gridDim.x + blockIdx.x];
    s.best = best, s.raw_best = raw_best, s.not_finite = bad;
  }
}

// The greatest keys of a row's slices.
__device__ __forceinline__ void row_best(const Slice* slices, int count, u64& best, u64& raw_best, u64* shared) {
  best = raw_best = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) best = max(best, slices[i].best), raw_best = max(raw_best, slices[i].raw_best);
  best = block_max(best, shared);
  raw_best = block_max(raw_best, shared);
}
__device__ __forceinline__ float key_logit(u64 key) { return ordinal_float((unsigned)(key >> ID_BITS)); }

// weights of the adjusted logits at the draw's temperature, and the slices' sums of those of the model's. [rows][padded(vocab)]
KERNEL __launch_bounds__(256) sample_weigh(const float* logits, const float* adjusted, u64* weights, Slice* slices, const Draw* draws, int vocab) {
  __shared__ u64 shared[8];
  int row = blockIdx.y, from = blockIdx.x * SLICE, to = min(from + SLICE, vocab);
  const Draw& d = draws[row];
  if (d.skip || (d.scale == 0 && d.logprobs < 0)) return;
  slices += (size_t)row * gridDim.x;
  logits += (size_t)row * vocab;
  adjusted += row * padded(vocab);
  weights += row * padded(vocab);
  u64 best, raw_best, sum = 0;
  row_best(slices, gridDim.x, best, raw_best, shared);
  float peak = key_logit(best), raw_peak = key_logit(raw_best);
  for (int i = from + threadIdx.x; i < to; i += blockDim.x) {
    if (d.scale != 0) weights[i] = best ? weight(adjusted[i], peak, d.scale) : 0;
    if (d.logprobs >= 0 && raw_best) sum += weight(logits[i], raw_peak, LOG2E);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) slices[blockIdx.x].raw_sum = sum;
}

constexpr int DRAW_THREADS = 1024, LIST = 1024, PIVOTS = 3;

// What sample_draw's threads share.
struct DrawShared {
  u64 list[LIST];
  u64 reduce[DRAW_THREADS / 32][2 * PIVOTS];
  u64 sums[2 * PIVOTS];
  u64 warps[DRAW_THREADS / 32];
  int count;
};

// A row's tokens as keys, 0 for those that are out of the question, each with a value.
struct ByLogit {  // each counts 1
  const float* logits;
  __device__ __forceinline__ u64 key(int i) const { return logit_key(logits[i], i); }
  __device__ __forceinline__ u64 value(u64) const { return 1; }
  // Where a first look is worth it: n = 1 … PIVOTS-1, descending.
  __device__ __forceinline__ u64 look(int n, u64 best) const { return make_key(ordinal(key_logit(best) - (float)(1 << 2 * n) / 4), ID_MASK); }
};
struct ByWeight {  // each counts its weight
  const float* adjusted;
  const u64* weights;
  u64 least, least_logit;  // what a token must weigh, and its logit's key
  __device__ __forceinline__ u64 weigh(int i) const {
    u64 w = weights[i];
    if (w < least || (least_logit > 1 && logit_key(adjusted[i], i) < least_logit)) return 0;
    return w;
  }
  __device__ __forceinline__ u64 key(int i) const {
    u64 w = weigh(i);
    return w ? make_key(w, i) : 0;
  }
  __device__ __forceinline__ u64 value(u64 key) const { return key >> ID_BITS; }
  __device__ __forceinline__ u64 look(int n, u64) const { return ONE_WEIGHT >> 4 * n << ID_BITS; }
};

// Puts the keys from lo to hi-1 into the list, which has room for them, and sorts them, the greatest first; 0 behind.
template <class Tokens>
__device__ __forceinline__ int collect(const Tokens& tokens, int vocab, u64 lo, u64 hi, DrawShared& s) {
  int tid = threadIdx.x;
  __syncthreads();
  s.list[tid] = 0;
  if (tid == 0) s.count = 0;
  __syncthreads();
  for (int i = tid; i < vocab; i += DRAW_THREADS) {
    u64 k = tokens.key(i);
    if (k >= lo && k < hi) {
      int at = atomicAdd(&s.count, 1);
      if (at < LIST) s.list[at] = k;
    }
  }
  __syncthreads();
  // Bitonic sort (Batcher, 1968), a pair of places for each two threads.
  for (int size = 2; size <= LIST; size *= 2)
    for (int apart = size / 2; apart; apart /= 2) {
      int other = tid ^ apart;
      if (other > tid) {
        u64 a = s.list[tid], b = s.list[other];
        if ((tid & size) == 0 ? a < b : a > b) s.list[tid] = b, s.list[other] = a;
      }
      __syncthreads();
    }
  return min(s.count, LIST);
}

// The greatest key for which the values of the keys from it upwards sum to at least need; 1 where all together do not.
// best is the greatest of all keys. Each look at the row divides the range in question by 4, so that there are at most 31,
// and usually 2 to 4.
template <class Tokens>
__device__ __forceinline__ u64 threshold(const Tokens& tokens, int vocab, u64 best, u64 need, DrawShared& s) {
  int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  // The sum down to lo reaches need, the sum down to hi is above and does not. inside is how many keys are between.
  u64 lo = 1, hi = best + 1, above = 0, inside = vocab, before = 0;
  for (int pass = 0; inside > LIST; pass++) {
    u64 pivot[PIVOTS], sum[PIVOTS] = {};
    unsigned count[PIVOTS] = {};
#pragma unroll
    for (int j = 0; j < PIVOTS; j++) {  // descending
      pivot[j] = pass > 0 ? hi - (hi - lo) / (PIVOTS + 1) * (j + 1) : j < PIVOTS - 1 ? tokens.look(j + 1, best) : 1;
      pivot[j] = min(max(pivot[j], lo), hi);
    }
    for (int i = tid; i < vocab; i += DRAW_THREADS) {
      u64 k = tokens.key(i), v = tokens.value(k);
#pragma unroll
      for (int j = 0; j < PIVOTS; j++)
        if (k >= pivot[j]) sum[j] += v, count[j]++;
    }
#pragma unroll
    for (int j = 0; j < PIVOTS; j++) {
      u64 a = warp_sum64(sum[j]), b = warp_sum64(count[j]);
      if (lane == 0) s.reduce[warp][2 * j] = a, s.reduce[warp][2 * j + 1] = b;
    }
    __syncthreads();
    if (tid < 2 * PIVOTS) {
      u64 total = 0;
      for (int w = 0; w < DRAW_THREADS / 32; w++) total += s.reduce[w][tid];
      s.sums[tid] = total;
    }
    __syncthreads();
    // The first look's last pivot is 1: below it, nothing is drawn.
    if (pass == 0 && s.sums[2 * (PIVOTS - 1)] < need) return 1;
    u64 upto = before + inside;
#pragma unroll
    for (int j = PIVOTS - 1; j >= 0; j--)
      if (s.sums[2 * j] >= need && pivot[j] >= lo) lo = pivot[j], upto = s.sums[2 * j + 1];
#pragma unroll
    for (int j = 0; j < PIVOTS; j++)
      if (s.sums[2 * j] < need && pivot[j] <= hi) hi = pivot[j], above = s.sums[2 * j], before = s.sums[2 * j + 1];
    inside = upto - before;
    __syncthreads();  // sums and reduce are written again
  }
  int n = collect(tokens, vocab, lo, hi, s);
  // The first place at which the values up to it reach need.
  u64 value = tid < n ? tokens.value(s.list[tid]) : 0, sum = value;
  for (int o = 1; o < 32; o *= 2) {
    u64 left = __shfl_up_sync(0xffffffffu, sum, o);
    if (lane >= o) sum += left;
  }
  if (lane == 31) s.warps[warp] = sum;
  if (tid == 0) s.sums[0] = 1;
  __syncthreads();
  for (int w = 0; w < warp; w++) sum += s.warps[w];
  sum += above;
  if (tid < n && sum >= need && sum - value < need) s.sums[0] = s.list[tid];
  __syncthreads();
  u64 found = s.sums[0];
  __syncthreads();
  return found;
}

// The token whose weight covers floor(noise · sum / 2⁶⁴) when the weights from threshold upwards are laid end to end in the
// order of tokens. In each round the warps share the range, and the next is one warp's.
__device__ __forceinline__ int pick(const ByWeight& tokens, int vocab, u64 threshold, u64 noise, DrawShared& s) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto of = [&](int i) {
    u64 w = tokens.weigh(i);
    return w && make_key(w, i) >= threshold ? w : 0;
  };
  int from = 0, to = vocab;
  u64 at = 0;
  bool first = true;
  do {
    int span = (to - from + DRAW_THREADS - 1) / DRAW_THREADS * 32, begin = from + warp * span, end = min(begin + span, to);
    u64 sum = 0;
    for (int i = begin + lane; i < end; i += 32) sum += of(i);
    sum = warp_sum64(sum);
    if (lane == 0) s.warps[warp] = sum;
    __syncthreads();
    if (first) {
      u64 total = 0;
      for (int w = 0; w < DRAW_THREADS / 32; w++) total += s.warps[w];
      at = __umul64hi(noise, total);
      first = false;
    }
    int w = 0;
    while (w < DRAW_THREADS / 32 - 1 && at >= s.warps[w]) at -= s.warps[w++];
    from += w * span;
    to = min(from + span, to);
    __syncthreads();
  } while (to - from > 32);
  // Each warp does the same with what is left, a token a lane.
  u64 w = from + lane < to ? of(from + lane) : 0, sum = w;
  for (int o = 1; o < 32; o *= 2) {
    u64 left = __shfl_up_sync(0xffffffffu, sum, o);
    if (lane >= o) sum += left;
  }
  unsigned hit = __ballot_sync(0xffffffffu, at < sum);
  return from + (hit ? __ffs(hit) - 1 : 0);
}

// The lowest token that is not masked; 0 if there is none.
__device__ __forceinline__ int lowest_allowed(const uint32_t* mask, int vocab, u64* shared) {
  u64 best = 0;
  for (int i = threadIdx.x; i < vocab; i += blockDim.x)
    if (!masked(mask, i)) best = max(best, make_key(1, i));
  best = block_max(best, shared);
  return best ? key_id(best) : 0;
}

// A token for each row, with what Drawn.Decode in draw.go reads: the token, whether a logit is not finite, the token's log
// probability, the number of pairs, and the pairs of tokens and log probabilities.
KERNEL __launch_bounds__(DRAW_THREADS) sample_draw(const float* logits, const float* adjusted, const u64* weights, const Slice* slices, int num_slices,
                                                   const Draw* draws, const uint32_t* masks, unsigned* drawn, int vocab, int top) {
  __shared__ DrawShared s;
  int row = blockIdx.x, tid = threadIdx.x;
  const Draw& d = draws[row];
  if (d.skip) return;
  slices += (size_t)row * num_slices;
  logits += (size_t)row * vocab;
  adjusted += row * padded(vocab);
  weights += row * padded(vocab);
  drawn += (size_t)row * (4 + 2 * top);
  u64 best, raw_best, raw_sum = 0, bad = 0;
  row_best(slices, num_slices, best, raw_best, s.warps);
  for (int i = tid; i < num_slices; i += DRAW_THREADS) {
    bad |= slices[i].not_finite != 0;
    if (d.logprobs >= 0) raw_sum += slices[i].raw_sum;
  }
  bad = block_max(bad, s.warps);
  raw_sum = block_sum(raw_sum, s.warps);

  int token;
  if (best == 0) {
    token = lowest_allowed(d.mask < 0 ? nullptr : masks + (size_t)d.mask * ((vocab + 31) / 32), vocab, s.warps);
  } else if (d.scale == 0) {
    token = key_id(best);
  } else {
    ByWeight tokens{adjusted, weights, d.least, 1};
    if (d.top_k > 0 && d.top_k < vocab) tokens.least_logit = threshold(ByLogit{adjusted}, vocab, best, d.top_k, s);
    u64 least = 1;
    if (d.top_p < 1) {
      u64 sum = 0;
      for (int i = tid; i < vocab; i += DRAW_THREADS) sum += tokens.weigh(i);
      sum = block_sum(sum, s.warps);
      // What the shortest list of greatest weights must sum to (Holtzman et al., https://arxiv.org/abs/1904.09751, section 3.1).
      u64 need = min(max((u64)ceil(__dmul_rn((double)d.top_p, (double)sum)), 1ull), sum);
      least = threshold(tokens, vocab, make_key(ONE_WEIGHT, 0), need, s);
    }
    token = pick(tokens, vocab, least, d.noise, s);
  }

  // Log probabilities are those of the model, before bias, mask, penalties and temperature.
  double norm = raw_best ? log((double)raw_sum / (double)ONE_WEIGHT) : 0;
  float peak = key_logit(raw_best);
  auto logprob = [&](float x) {
    if (logit_key(x, 0) == 0) return __uint_as_float(0xff800000u);
    return x == peak ? (float)-norm : (float)((double)x - (double)peak - norm);
  };
  int n = 0;
  if (d.logprobs > 0 && raw_best) {
    ByLogit tokens{logits};
    int wanted = min(min(d.logprobs, top), vocab);
    u64 least = threshold(tokens, vocab, raw_best, wanted, s);
    n = min(collect(tokens, vocab, least, raw_best + 1, s), wanted);
    if (tid < n) {
      u64 k = s.list[tid];
      drawn[4 + 2 * tid] = key_id(k);
      drawn[5 + 2 * tid] = __float_as_uint(logprob(logits[key_id(k)]));
    }
  }
  if (tid == 0) {
    drawn[0] = token, drawn[1] = bad != 0;
    drawn[2] = __float_as_uint(d.logprobs >= 0 ? logprob(logits[token]) : 0.f);
    drawn[3] = n;
  }
}

EMU_KERNELS(sample_prepare, sample_weigh, sample_draw)
