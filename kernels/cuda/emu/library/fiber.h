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
struct Fiber;
struct Warp;
struct Block {
  dim index, size, grid;  // blockIdx, blockDim, gridDim
  char* dynamic;          // dynamic shared memory
  unsigned alive;         // threads that have not returned
  unsigned waiting;       // threads at __syncthreads
};

// What a warp's lanes meet for. The lane that arrives last does the work of all.
enum class Meeting : uint8_t { None, Sync, Shuffle, Ballot, Sum, Max, Ldmatrix, LdmatrixTrans, MmaBF16, MmaF16 };
struct Warp {
  unsigned index;    // within the block
  unsigned alive;    // lanes that have not returned
  unsigned ready;    // lanes that can run, the running one included
  unsigned arrived;  // lanes that wait in a meeting
  unsigned memory;   // completed __syncwarp calls: the order of shared memory within the warp
  float all;         // what a sum or maximum gives to all lanes
  void* sp[32];      // stack pointers of lanes that do not run
  // What lanes bring to a meeting, and take from it.
  Meeting meeting[32];
  unsigned mask[32];
  union {
    uint64_t bits[32];
    float value[32];
    struct {
      void* to[32];
      const void *a[32], *b[32];
    };
  };
  uint64_t out[32];
  unsigned from[32];  // the lane that a shuffle reads, the matrices that an ldmatrix loads
};

// One CUDA thread. It lies at the top of its own stack.
struct Fiber {
  Warp* warp;
  Block* block;  // a Worker begins with it
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
void meet(Fiber*, unsigned mask, Meeting);
void syncBlock(Fiber*);
// Steps of the two, which the plain build has inline (emu.h).
void complete(Fiber*, unsigned mask, Meeting);             // by the lane that arrived last
void releaseBlock(Fiber*);                                 // by the thread that arrived last
void* elsewhere(Fiber*);                                   // the stack of a thread of another warp that can run
[[noreturn]] void badMask(Fiber*, unsigned mask, Meeting);

void vote(Fiber*, bool);                                   // counted at the next __syncthreads
unsigned votes(Fiber*, unsigned* alive);                   // of the last __syncthreads, and the threads that were there
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
