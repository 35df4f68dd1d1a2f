#pragma once
// The machine under the driver: kernels run here, a block at a time on each worker. Used by driver.cpp and check.cpp.
#include <math.h>
#include <stdarg.h>

#include <atomic>
#include <string>
#include <vector>

#include "fiber.h"

namespace emu {
#ifdef EMU_CHECKED
constexpr bool checked = true;
#else
constexpr bool checked = false;
#endif

// Results of the driver's calls (cuda.h), by the names that the machine needs.
enum Result { Success = 0, IllegalAddress = 700, MisalignedAddress = 716, Assert = 710, LaunchFailed = 719 };

constexpr unsigned maxThreads = 1024;                // of a block
constexpr size_t stackBytes = 64 << 10;              // of a fiber
constexpr size_t maxDynamic = 232448;                // bytes of dynamic shared memory, as on compute capability 9.0

// One call of a kernel: shared by the workers, which take its blocks by number.
struct Grid {
  const Kernel* kernel;
  void** arguments;
  dim blocks, threads;
  size_t dynamic;
  long total;
  std::atomic<long> next;
  std::atomic<int> working;
};

struct Shadow;
// A worker runs blocks on one operating system thread.
struct Worker {
  Block block;  // first: Fiber::block leads here
  unsigned numThreads, numWarps, votes, votesOut, aliveOut;
  Warp warps[maxThreads / 32];
  Fiber* fibers[maxThreads];
  char* stacks;         // maxThreads of stackBytes
  void* main;           // stack pointer of the worker while fibers run
  bool failed;
  const Grid* grid;
  // Checked build (check.cpp).
  char *sharedLow, *sharedHigh;  // this thread's copies of the kernels' __shared__ variables
  uintptr_t constantLow, constantHigh;  // this library, whose tables kernels may read
  Shadow* shadow;                // a record for each byte of them, then of dynamic shared memory
  uint32_t interval, first;      // barrier intervals since the start; the first of this block
};
extern thread_local Worker* worker;
inline Worker* workerOf(Fiber* f) { return (Worker*)f->block; }

// Runs a grid to its end, or to its first failure.
void run(Grid*);
// Whether a grid's blocks are taken from the last to the first.
void setBackwards(bool);
// How many threads run blocks, the caller's included; takes effect before the first launch.
void setWorkers(int n);

// The first failure since clearFailure: its result, or Success.
Result failure();
void setFailure(Result);
void clearFailure();
void clearReports();
const Kernel* findKernel(const char* name);
// Adds a line to the report.
void report(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string reports();
// Ends the kernel: a report that names kernel, block and thread, and the launch's result.
[[noreturn]] void fail(Fiber*, Result, const char* format, ...) __attribute__((format(printf, 3, 4)));

// check.cpp: what the checked build sees. The plain build's twins do nothing.
void checkWorker(Worker*);                  // makes its shadow
void checkAccess(Fiber*, void* p, size_t bytes, bool write, bool aligned);
void checkCopyBegins(Fiber*, void* to, const void* from, unsigned bytes);
void checkCopyEnds(Fiber*, void* to, unsigned bytes);
}  // namespace emu
