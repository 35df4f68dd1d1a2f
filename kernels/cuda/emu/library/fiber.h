#pragma once
// What kernels and machine have in common: the running thread, what it may ask for, and kernels by name.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <utility>

// In the checked build each memory access of a kernel calls check.cpp; NOSAN functions belong to the emulator and don't.
#define NOSAN __attribute__((no_sanitize("thread")))

namespace emu {
struct dim {
  unsigned x, y, z;
};
struct Warp;
struct Block {
  dim index, size, grid;  // blockIdx, blockDim, gridDim
  char* dynamic;          // dynamic shared memory
};
// One CUDA thread. It lies at the top of its own stack.
struct Fiber {
  void* sp;  // stack pointer while it does not run
  Warp* warp;
  Block* block;
  unsigned lane, linear;
  dim tid;
  // cp.async copies under way, oldest first; groups[i] is how many copies end with the i-th oldest group.
  static constexpr int maxCopies = 128, maxGroups = 16;
  int numCopies, numGroups, groups[maxGroups];
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    unsigned bytes;
  } copies[maxCopies];
};
// machine.cpp
void syncBlock(Fiber*);
unsigned syncBlockCount(Fiber*, bool vote, unsigned* alive);
void syncWarp(Fiber*, unsigned mask);
uint64_t shuffle(Fiber*, unsigned mask, uint64_t bits, unsigned from);
unsigned ballot(Fiber*, unsigned mask, bool vote);
unsigned activeMask(Fiber*);
float warpSum(Fiber*, float);
float warpMax(Fiber*, float);
void ldmatrix(Fiber*, uint32_t* r, const void* row, int count, bool transposed);
void mma(Fiber*, float* d, const uint32_t* a, const uint32_t* b, bool half);
void copyAsync(Fiber*, void* to, const void* from, unsigned bytes);
void copyCommit(Fiber*);
void copyWait(Fiber*, int left);
void nap(Fiber*);
[[noreturn]] void trap(Fiber*);
[[noreturn]] void assertFailed(Fiber*, const char* what, const char* file, int line);
// check.cpp; empty in the plain build
void touchAtomic(Fiber*, void* p, unsigned bytes);

// A kernel by name, registered when the library is loaded.
struct Kernel {
  const char* name;
  void (*run)(void** arguments);
  int numParameters;
  const unsigned* sizes;  // bytes of each parameter
  Kernel* next;
  Kernel(const char* name, void (*run)(void**), int n, const unsigned* sizes);
};
template <class F, F f>
struct Entry;
template <class... A, void (*f)(A...)>
struct Entry<void (*)(A...), f> {
  static constexpr int n = sizeof...(A);
  static constexpr unsigned sizes[n + 1] = {sizeof(A)..., 0};
  template <size_t... I>
  NOSAN static void call(void** p, std::index_sequence<I...>) {
    f(*(A*)p[I]...);
  }
  NOSAN static void run(void** p) { call(p, std::index_sequence_for<A...>{}); }
};
// Bits of one type as another.
template <class To, class From>
inline To bits(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  memcpy(&r, &v, sizeof r);
  return r;
}
}  // namespace emu
