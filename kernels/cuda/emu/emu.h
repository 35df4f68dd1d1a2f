#pragma once
// The kernels' view of the emulator: the words of CUDA C++ that the .cu files use, for g++ on the host. common.cuh includes
// it where CUDA_EMU is defined, in place of its device half, and has the same names. The machine behind it (fibers, warps,
// barriers, copies) is machine.cpp; README.md says what is emulated and what is not.
#include <math.h>

#include <type_traits>

#include "library/fiber.h"

namespace emu {
// The running thread. Every file of the emulator is compiled with -ffixed-r15; only the switch in machine.cpp writes it.
register Fiber* cur asm("r15");

#ifdef EMU_CHECKED
#define EMU_INLINE NOSAN inline
EMU_INLINE void arrive(unsigned mask, Meeting m) { meet(cur, mask, m); }
EMU_INLINE void barrier() { syncBlock(cur); }
#else
#define EMU_INLINE inline __attribute__((always_inline))
// A thread that waits, and the switch to one that can run (machine.cpp: emu_switch). Inline, so that what is not live is
// not kept, and so that the processor foresees where the next thread goes on: where this one would.
EMU_INLINE void park() {
  Warp* w = cur->warp;
  unsigned l = cur->lane, ready = w->ready &= ~(1u << l);
  void* to = ready ? w->sp[__builtin_ctz(ready)] : elsewhere(cur);
  void** save = &w->sp[l];
  asm volatile(
      "push %%rbp\n\tpush %%r15\n\tlea 1f(%%rip), %%rax\n\tpush %%rax\n\tmov %%rsp, (%0)\n\t"
      "mov %1, %%rsp\n\tpop %%rax\n\tpop %%r15\n\tpop %%rbp\n\tjmp *%%rax\n1:"
      : "+D"(save), "+S"(to)::"rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}
EMU_INLINE void arrive(unsigned mask, Meeting m) {
  Warp* w = cur->warp;
  unsigned l = cur->lane, bit = 1u << l;
  if (__builtin_expect(!(mask & bit) || mask & ~w->alive, 0)) badMask(cur, mask, m);
  w->meeting[l] = m;
  w->mask[l] = mask;
  unsigned arrived = w->arrived |= bit;
  if ((arrived & mask) == mask)
    complete(cur, mask, m);
  else
    park();
}
EMU_INLINE void barrier() {
  Block* b = cur->block;
  if (++b->waiting == b->alive)
    releaseBlock(cur);
  else
    park();
}
#endif

template <class T>
EMU_INLINE T shuffled(unsigned mask, T v, unsigned from) {
  static_assert(sizeof(T) <= 8, "a shuffle moves 4 or 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  cur->warp->bits[cur->lane] = bits;
  cur->warp->from[cur->lane] = from & 31;
  arrive(mask, Meeting::Shuffle);
  bits = cur->warp->out[cur->lane];
  memcpy(&v, &bits, sizeof v);
  return v;
}
EMU_INLINE unsigned ballot(unsigned mask, bool vote) {
  cur->warp->bits[cur->lane] = vote;
  arrive(mask, Meeting::Ballot);
  return (unsigned)cur->warp->out[cur->lane];
}
EMU_INLINE float together(float x, Meeting m) {
  cur->warp->value[cur->lane] = x;
  arrive(0xffffffffu, m);
  return cur->warp->all;
}
NOSAN inline void ldmatrix(uint32_t* r, const void* row, unsigned count, Meeting m) {
  cur->warp->a[cur->lane] = row;
  cur->warp->to[cur->lane] = r;
  cur->warp->from[cur->lane] = count;
  arrive(0xffffffffu, m);
}
NOSAN inline void mma(float* d, const uint32_t* a, const uint32_t* b, Meeting m) {
  cur->warp->to[cur->lane] = d;
  cur->warp->a[cur->lane] = a;
  cur->warp->b[cur->lane] = b;
  arrive(0xffffffffu, m);
}
EMU_INLINE int count(bool v, unsigned* alive) {
  vote(cur, v);
  barrier();
  return (int)votes(cur, alive);
}
}  // namespace emu

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One copy for each worker, which runs one block at a time.
#define __shared__ static thread_local
#define DYN_SMEM(T, name) T* name = (T*)emu::cur->block->dynamic
#define KERNEL extern "C" void

#define threadIdx (emu::cur->tid)
#define blockIdx (emu::cur->block->index)
#define blockDim (emu::cur->block->size)
#define gridDim (emu::cur->block->grid)
constexpr int warpSize = 32;

// EMU_KERNELS(a, b, …) makes kernels known to the driver by name.
#define EMU_PARENS ()
#define EMU_EXPAND(...) EMU_EXPAND3(EMU_EXPAND3(EMU_EXPAND3(EMU_EXPAND3(__VA_ARGS__))))
#define EMU_EXPAND3(...) EMU_EXPAND2(EMU_EXPAND2(EMU_EXPAND2(EMU_EXPAND2(__VA_ARGS__))))
#define EMU_EXPAND2(...) EMU_EXPAND1(EMU_EXPAND1(EMU_EXPAND1(EMU_EXPAND1(__VA_ARGS__))))
#define EMU_EXPAND1(...) __VA_ARGS__
#define EMU_REGISTER(k) \
  static emu::Kernel emu_##k(#k, emu::Entry<decltype(&k), &k>::run, emu::Entry<decltype(&k), &k>::n, emu::Entry<decltype(&k), &k>::sizes);
#define EMU_EACH(k, ...) EMU_REGISTER(k) __VA_OPT__(EMU_AGAIN EMU_PARENS(__VA_ARGS__))
#define EMU_AGAIN() EMU_EACH
#define EMU_KERNELS(...) EMU_EXPAND(EMU_EACH(__VA_ARGS__))

// --- types

#define EMU_VECTOR(T, N, A)           \
  struct alignas(A * 2) N##2 {        \
    T x, y;                           \
  };                                  \
  struct alignas(A * 4) N##4 {        \
    T x, y, z, w;                     \
  };                                  \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; } \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTOR(float, float, 4)
EMU_VECTOR(int, int, 4)
EMU_VECTOR(unsigned, uint, 4)
EMU_VECTOR(short, short, 2)
EMU_VECTOR(unsigned short, ushort, 2)
EMU_VECTOR(signed char, char, 1)
EMU_VECTOR(unsigned char, uchar, 1)
#undef EMU_VECTOR
typedef emu::dim dim3;

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
inline float bf2f(bf16 x) { return emu::bits<float>((uint32_t)x.bits << 16); }
// To the nearest, ties to even; a NaN becomes the one that the hardware makes.
inline bf16 f2bf(float x) {
  uint32_t b = emu::bits<uint32_t>(x);
  if ((b & 0x7fffffff) > 0x7f800000) return {0x7fff};
  return {(uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16)};
}
namespace emu {
typedef float Floats __attribute__((vector_size(16)));
typedef short Shorts __attribute__((vector_size(16)));
}  // namespace emu
inline float h2f(f16 x) { return __builtin_ia32_vcvtph2ps(emu::Shorts{(short)x.bits})[0]; }
inline f16 f2h(float x) { return {(uint16_t)__builtin_ia32_vcvtps2ph(emu::Floats{x}, 0)[0]}; }
inline uint32_t pack_bf16(float lo, float hi) { return f2bf(lo).bits | (uint32_t)f2bf(hi).bits << 16; }
inline uint32_t pack_f16(float lo, float hi) { return f2h(lo).bits | (uint32_t)f2h(hi).bits << 16; }

// --- one thread's arithmetic

inline float __uint_as_float(unsigned x) { return emu::bits<float>(x); }
inline float __int_as_float(int x) { return emu::bits<float>(x); }
inline unsigned __float_as_uint(float x) { return emu::bits<unsigned>(x); }
inline int __float_as_int(float x) { return emu::bits<int>(x); }
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Products and sums that the compiler may not fuse.
NOSAN inline float __fmul_rn(float a, float b) {
  float r = a * b;
  asm("" : "+x"(r));
  return r;
}
NOSAN inline float __fadd_rn(float a, float b) {
  float r = a + b;
  asm("" : "+x"(r));
  return r;
}
// The same in float64.
NOSAN inline double __dmul_rn(double a, double b) {
  double r = a * b;
  asm("" : "+x"(r));
  return r;
}
NOSAN inline double __dsub_rn(double a, double b) {
  double r = a - b;
  asm("" : "+x"(r));
  return r;
}
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline long long __double_as_longlong(double x) { return emu::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu::bits<double>(x); }
inline int __float2int_rn(float x) { return (int)rintf(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
#define EMU_MINMAX(T)                                   \
  inline T min(T a, T b) { return b < a ? b : a; }      \
  inline T max(T a, T b) { return a < b ? b : a; }
EMU_MINMAX(int)
EMU_MINMAX(unsigned)
EMU_MINMAX(long)
EMU_MINMAX(unsigned long)
EMU_MINMAX(long long)
EMU_MINMAX(unsigned long long)
EMU_MINMAX(double)
#undef EMU_MINMAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
  return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31)); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) << (n & 31) >> 32); }
// Four bytes picked out of eight; the sign mode (bit 3 of a selector) repeats the byte's top bit.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  uint64_t v = (uint64_t)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned k = s >> 4 * i & 15, x = (unsigned)(v >> 8 * (k & 7)) & 255;
    r |= (k & 8 ? (x & 128 ? 255u : 0u) : x) << 8 * i;
  }
  return r;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}

// --- memory

template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldca(const T* p) { return *p; }
template <class T> inline void __stcg(T* p, T v) { *p = v; }
template <class T> inline void __stcs(T* p, T v) { *p = v; }
inline void __threadfence() { asm volatile("mfence" ::: "memory"); }
inline void __threadfence_block() { asm volatile("mfence" ::: "memory"); }

namespace emu {
template <class T, class F>
NOSAN inline T update(T* p, F f) {
  touchAtomic(cur, p, sizeof(T));
  T old, next;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do next = f(old);
  while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
}  // namespace emu
// The second type is what a literal may have.
template <class T> NOSAN inline T atomicAdd(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return (T)(x + v); }); }
template <class T> NOSAN inline T atomicSub(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return (T)(x - v); }); }
template <class T> NOSAN inline T atomicMax(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return x < v ? v : x; }); }
template <class T> NOSAN inline T atomicMin(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return v < x ? v : x; }); }
template <class T> NOSAN inline T atomicOr(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return x | v; }); }
template <class T> NOSAN inline T atomicAnd(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T x) { return x & v; }); }
template <class T> NOSAN inline T atomicExch(T* p, std::type_identity_t<T> v) { return emu::update(p, [v](T) { return v; }); }
template <class T> NOSAN inline T atomicCAS(T* p, std::type_identity_t<T> is, std::type_identity_t<T> v) { return emu::update(p, [is, v](T x) { return x == is ? v : x; }); }
NOSAN inline unsigned atomicInc(unsigned* p, unsigned limit) { return emu::update(p, [limit](unsigned x) { return x >= limit ? 0 : x + 1; }); }

// Done as late as the program allows, by the thread that waits, so that a missing wait shows.
inline void cp_async16(void* shared, const void* global) { emu::copyAsync(emu::cur, shared, global, 16); }
inline void cp_async16_zfill(void* shared, const void* global, bool valid) { emu::copyAsync(emu::cur, shared, valid ? global : nullptr, 16); }
inline void cp_async4(void* shared, const void* global) { emu::copyAsync(emu::cur, shared, global, 4); }
inline void cp_async_commit() { emu::copyCommit(emu::cur); }
template <int N> inline void cp_async_wait() {
  emu::copyWait(emu::cur, N);
  asm volatile("" ::: "memory");
}

// --- threads of a block and of a warp

// The compiler keeps no value of shared memory over a meeting.
#define EMU_MEMORY asm volatile("" ::: "memory")
EMU_INLINE void __syncthreads() {
  EMU_MEMORY;
  emu::barrier();
  EMU_MEMORY;
}
EMU_INLINE int __syncthreads_count(int vote) {
  unsigned alive;
  EMU_MEMORY;
  int n = emu::count(vote != 0, &alive);
  EMU_MEMORY;
  return n;
}
EMU_INLINE int __syncthreads_or(int vote) { return __syncthreads_count(vote) != 0; }
EMU_INLINE int __syncthreads_and(int vote) {
  unsigned alive;
  EMU_MEMORY;
  unsigned n = (unsigned)emu::count(vote != 0, &alive);
  EMU_MEMORY;
  return n == alive;
}
EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  EMU_MEMORY;
  emu::arrive(mask, emu::Meeting::Sync);
  EMU_MEMORY;
}
EMU_INLINE unsigned __activemask() { return emu::cur->warp->ready; }
// Shuffles within groups of width lanes; out of the group a lane reads itself.
template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  unsigned base = emu::cur->lane & ~(width - 1u);
  return emu::shuffled(mask, v, base | ((unsigned)from & (width - 1u)));
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  unsigned lane = emu::cur->lane, from = lane ^ (unsigned)bits;
  return emu::shuffled(mask, v, from >= (lane & ~(width - 1u)) + width ? lane : from);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  unsigned lane = emu::cur->lane;
  return emu::shuffled(mask, v, (lane & (width - 1u)) + by < (unsigned)width ? lane + by : lane);
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  unsigned lane = emu::cur->lane;
  return emu::shuffled(mask, v, (lane & (width - 1u)) >= by ? lane - by : lane);
}
EMU_INLINE unsigned __ballot_sync(unsigned mask, int vote) { return emu::ballot(mask, vote != 0); }
EMU_INLINE int __any_sync(unsigned mask, int vote) { return emu::ballot(mask, vote != 0) != 0; }
EMU_INLINE int __all_sync(unsigned mask, int vote) { return emu::ballot(mask, vote != 0) == mask; }
// One step of the warp each, where the device's are five shuffles; the sum's order is that of the shuffles.
EMU_INLINE float warp_sum(float x) { return emu::together(x, emu::Meeting::Sum); }
EMU_INLINE float warp_max(float x) { return emu::together(x, emu::Meeting::Max); }

inline void ldmatrix4(uint32_t* r, const void* row) { emu::ldmatrix(r, row, 4, emu::Meeting::Ldmatrix); }
inline void ldmatrix2(uint32_t* r, const void* row) { emu::ldmatrix(r, row, 2, emu::Meeting::Ldmatrix); }
inline void ldmatrix4_trans(uint32_t* r, const void* row) { emu::ldmatrix(r, row, 4, emu::Meeting::LdmatrixTrans); }
inline void ldmatrix2_trans(uint32_t* r, const void* row) { emu::ldmatrix(r, row, 2, emu::Meeting::LdmatrixTrans); }
inline void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) { emu::mma(d, a, b, emu::Meeting::MmaBF16); }
inline void mma_f16(float* d, const uint32_t* a, const uint32_t* b) { emu::mma(d, a, b, emu::Meeting::MmaF16); }

inline void __nanosleep(unsigned) { emu::nap(emu::cur); }
inline void __trap() { emu::trap(emu::cur); }
#undef assert
#define assert(x) ((x) ? (void)0 : emu::assertFailed(emu::cur, #x, __FILE__, __LINE__))
