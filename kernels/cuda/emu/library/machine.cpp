// Fibers, warps and blocks. Each CUDA thread is a fiber; a warp's lanes meet at its collective instructions, where the last
// to arrive does the work of all; blocks are shared by workers, one to an operating system thread.
//
// Order: a lane runs until it must wait, then the next lane of its warp that can run, then the next warp. Nothing else is
// promised to kernels, and a thread that spins on another's write never ends.
#include "machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace emu {

thread_local Worker* worker;

static Kernel* kernels;
Kernel::Kernel(const char* name, void (*run)(void**), int n, const unsigned* sizes)
    : name(name), run(run), numParameters(n), sizes(sizes), next(kernels) {
  kernels = this;
}
const Kernel* findKernel(const char* name) {
  for (Kernel* k = kernels; k; k = k->next)
    if (!strcmp(k->name, name)) return k;
  return nullptr;
}

// --- failures

static std::atomic<int> result;
static std::mutex reportMutex;
static std::string reportText;
static bool quiet;
constexpr size_t maxReport = 64 << 10;

Result failure() { return (Result)result.load(); }
void setFailure(Result r) {
  int success = Success;
  result.compare_exchange_strong(success, r);
}
void setQuiet(bool q) { quiet = q; }
void clearFailure() { result = Success; }
void clearReports() {
  std::lock_guard<std::mutex> l(reportMutex);
  reportText.clear();
}
std::string reports() {
  std::lock_guard<std::mutex> l(reportMutex);
  return reportText;
}
void report(const char* format, ...) {
  char line[1024];
  va_list a;
  va_start(a, format);
  vsnprintf(line, sizeof line, format, a);
  va_end(a);
  std::lock_guard<std::mutex> l(reportMutex);
  if (reportText.size() + sizeof line < maxReport) reportText += std::string(line) + "\n";
  if (!quiet) fprintf(stderr, "emu: %s\n", line);
}

// --- the switch between fibers

// emu_switch(save, to): puts what must be kept on the stack and its address into *save, then goes on with the stack at to,
// which some switch left there: where to go on, r15 (the running fiber), rbp. emu.h has it inline, and keeps what is live.
// emu_start is where a new fiber begins.
extern "C" void emu_switch(void** save, void* to);
extern "C" void emu_start();
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
emu_switch:
	push %rbx
	push %r12
	push %r13
	push %r14
	push %rbp
	push %r15
	lea 1f(%rip), %rax
	push %rax
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %rax
	pop %r15
	pop %rbp
	jmp *%rax
1:	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	ret
.globl emu_start
.hidden emu_start
emu_start:
	mov %r15, %rdi
	call emu_fiber
	ud2
)");

[[noreturn]] static void leave(Fiber* f) {
  void* unused;
  emu_switch(&unused, workerOf(f)->main);
  __builtin_unreachable();
}

void fail(Fiber* f, Result r, const char* format, ...) {
  char text[700];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  int success = Success;
  if (result.compare_exchange_strong(success, r)) {
    const dim &b = f->block->index, &t = f->tid;
    report("kernel %s block (%u,%u,%u) thread (%u,%u,%u): %s", workerOf(f)->grid->kernel->name, b.x, b.y, b.z, t.x, t.y, t.z, text);
  }
  workerOf(f)->failed = true;
  leave(f);
}

static inline Fiber* lane(Fiber* f, unsigned l) { return workerOf(f)->fibers[f->warp->index * 32 + l]; }

static const char* name(Meeting m) {
  switch (m) {
    case Meeting::None: return "nothing";
    case Meeting::Sync: return "__syncwarp";
    case Meeting::Shuffle: return "a shuffle";
    case Meeting::Ballot: return "a vote";
    case Meeting::Sum: return "warp_sum";
    case Meeting::Max: return "warp_max";
    case Meeting::Ldmatrix: case Meeting::LdmatrixTrans: return "ldmatrix";
    case Meeting::MmaBF16: case Meeting::MmaF16: return "mma";
  }
  return "?";
}

// Nobody can run: says who waits where.
[[noreturn]] static void deadlock(Fiber* f) {
  Worker* k = workerOf(f);
  unsigned waiting = k->block.waiting, alive = k->block.alive;
  for (unsigned i = 0; i < k->numWarps; i++) {
    Warp* w = &k->warps[i];
    if (!w->arrived) continue;
    unsigned l = __builtin_ctz(w->arrived), absent = w->mask[l] & ~w->arrived;
    fail(k->fibers[i * 32 + l], LaunchFailed, "deadlock: it waits in %s with mask %08x for lanes %08x, which %s; %u of %u threads wait at __syncthreads", name(w->meeting[l]), w->mask[l], absent,
         absent & ~w->alive ? "have returned" : "wait at __syncthreads or in another meeting", waiting, alive);
  }
  fail(f, LaunchFailed, "deadlock: %u of %u threads wait at __syncthreads", waiting, alive);
}

void* elsewhere(Fiber* f) {
  Worker* k = workerOf(f);
  for (unsigned n = 1; n < k->numWarps; n++) {
    Warp* w = &k->warps[(f->warp->index + n) % k->numWarps];
    if (w->ready) return w->sp[__builtin_ctz(w->ready)];
  }
  deadlock(f);
}
// The stack of the next thread that can run.
static inline void* next(Fiber* f) { return f->warp->ready ? f->warp->sp[__builtin_ctz(f->warp->ready)] : elsewhere(f); }
static void wait(Fiber* f) {
  f->warp->ready &= ~(1u << f->lane);
  emu_switch(&f->warp->sp[f->lane], next(f));
}

// --- barriers of a block

void releaseBlock(Fiber* f) {
  Worker* k = workerOf(f);
  k->block.waiting = 0;
  k->votesOut = k->votes;
  k->aliveOut = k->block.alive;
  k->votes = 0;
  k->interval++;
  for (unsigned i = 0; i < k->numWarps; i++) k->warps[i].ready = k->warps[i].alive;
}
void syncBlock(Fiber* f) {
  if (++f->block->waiting == f->block->alive) return releaseBlock(f);
  wait(f);
}
void vote(Fiber* f, bool v) { workerOf(f)->votes += v; }
unsigned votes(Fiber* f, unsigned* alive) {
  *alive = workerOf(f)->aliveOut;
  return workerOf(f)->votesOut;
}

extern "C" __attribute__((visibility("hidden"))) void emu_fiber(Fiber* f) {
  const Grid* g = workerOf(f)->grid;
  g->kernel->run(g->arguments);
  if (checked && f->numCopies) fail(f, LaunchFailed, "returns with %d cp.async copies that it never waited for", f->numCopies);
  Warp* w = f->warp;
  unsigned bit = 1u << f->lane;
  w->alive &= ~bit;
  w->ready &= ~bit;
  if (--f->block->alive == 0) leave(f);
  if (f->block->waiting == f->block->alive) releaseBlock(f);
  void* unused;
  emu_switch(&unused, next(f));
}

// --- meetings of a warp

void multiply(Warp* w, bool half);                   // matrix.cpp
void loadMatrices(Warp* w, int count, bool transposed);

static void checkMeeting(Fiber* f, unsigned mask, Meeting m) {
  Warp* w = f->warp;
  for (unsigned l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    if (w->meeting[l] != m) fail(f, LaunchFailed, "is in %s while lane %u is in %s", name(m), l, name(w->meeting[l]));
    if (w->mask[l] != mask) fail(f, LaunchFailed, "has mask %08x while lane %u has mask %08x in the same %s", mask, l, w->mask[l], name(m));
    if ((m == Meeting::Ldmatrix || m == Meeting::LdmatrixTrans) && w->from[l] != w->from[f->lane]) fail(f, LaunchFailed, "loads %u matrices while lane %u loads %u", w->from[f->lane], l, w->from[l]);
    if (m == Meeting::Ldmatrix || m == Meeting::LdmatrixTrans)
      if (l < 8 * w->from[l]) checkAccess(lane(f, l), (void*)w->a[l], 16, false, true);
    if (m == Meeting::Shuffle && !(mask >> w->from[l] & 1)) fail(lane(f, l), LaunchFailed, "shuffle reads lane %u, which is not in mask %08x", w->from[l], mask);
  }
}

void complete(Fiber* f, unsigned mask, Meeting m) {
  Warp* w = f->warp;
  if (checked) checkMeeting(f, mask, m);
  switch (m) {
    case Meeting::Sync: w->memory++; break;
    case Meeting::Shuffle:
      for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1) w->out[l] = w->bits[w->from[l]];
      break;
    case Meeting::Ballot: {
      unsigned votes = 0;
      for (unsigned l = 0; l < 32; l++) votes |= (unsigned)w->bits[l] << l;
      for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1) w->out[l] = votes & mask;
      break;
    }
    case Meeting::Sum: {  // all lanes have the same sum, as x[l] + x[l^o] is the same in both
      float* v = w->value;
      for (unsigned o = 16; o; o >>= 1)
        for (unsigned l = 0; l < o; l++) v[l] += v[l + o];
      w->all = v[0];
      break;
    }
    case Meeting::Max: {
      float* v = w->value;
      for (unsigned o = 16; o; o >>= 1)
        for (unsigned l = 0; l < o; l++) v[l] = fmaxf(v[l], v[l + o]);
      w->all = v[0];
      break;
    }
    case Meeting::Ldmatrix: loadMatrices(w, w->from[f->lane], false); break;
    case Meeting::LdmatrixTrans: loadMatrices(w, w->from[f->lane], true); break;
    case Meeting::MmaBF16: multiply(w, false); break;
    case Meeting::MmaF16: multiply(w, true); break;
    case Meeting::None: break;
  }
  w->arrived &= ~mask;
  w->ready |= mask;
}

void badMask(Fiber* f, unsigned mask, Meeting m) {
  if (!(mask >> f->lane & 1)) fail(f, LaunchFailed, "calls %s without its own bit in mask %08x", name(m), mask);
  fail(f, LaunchFailed, "calls %s with mask %08x, which names lanes that have returned or do not exist (%08x are there)", name(m), mask, f->warp->alive);
}
void meet(Fiber* f, unsigned mask, Meeting m) {
  Warp* w = f->warp;
  unsigned bit = 1u << f->lane;
  if (!(mask & bit) || mask & ~w->alive) badMask(f, mask, m);
  w->meeting[f->lane] = m;
  w->mask[f->lane] = mask;
  w->arrived |= bit;
  if ((w->arrived & mask) == mask) return complete(f, mask, m);
  wait(f);
}

// --- cp.async

void copyAsync(Fiber* f, void* to, const void* from, unsigned bytes) {
  if (f->numCopies == Fiber::maxCopies) fail(f, LaunchFailed, "has more than %d cp.async copies under way", Fiber::maxCopies);
  if (checked) checkCopyBegins(f, to, from, bytes);
  f->copies[f->numCopies++] = {to, from, bytes};
}
void copyCommit(Fiber* f) {
  if (f->numGroups == Fiber::maxGroups) fail(f, LaunchFailed, "has more than %d cp.async groups under way", Fiber::maxGroups);
  f->groups[f->numGroups++] = f->numCopies;
}
void copyWait(Fiber* f, int left) {
  int groups = f->numGroups - left;
  if (groups <= 0) return;
  int n = f->groups[groups - 1];
  for (int i = 0; i < n; i++) {
    auto& c = f->copies[i];
    if (c.from)
      memcpy(c.to, c.from, c.bytes);
    else
      memset(c.to, 0, c.bytes);
    if (checked) checkCopyEnds(f, c.to, c.bytes);
  }
  memmove(f->copies, f->copies + n, (f->numCopies - n) * sizeof f->copies[0]);
  for (int i = groups; i < f->numGroups; i++) f->groups[i - groups] = f->groups[i] - n;
  f->numCopies -= n;
  f->numGroups -= groups;
}

// --- the rest

// Lets the others run; the lane stays ready.
void nap(Fiber* f) {
  Warp* w = f->warp;
  unsigned others = w->ready & ~(1u << f->lane), after = others & ~((2u << f->lane) - 1);
  if (others) emu_switch(&w->sp[f->lane], w->sp[__builtin_ctz(after ? after : others)]);
}
void trap(Fiber* f) { fail(f, LaunchFailed, "__trap"); }
void assertFailed(Fiber* f, const char* what, const char* file, int line) { fail(f, Assert, "%s:%d: assertion %s", file, line, what); }

// --- blocks and workers

static void prepare() {
  if (worker) return;
  Worker* k = worker = (Worker*)mmap(0, sizeof(Worker), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  size_t size = stackBytes * maxThreads;
  k->stacks = (char*)mmap(0, size + stackBytes * 32, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // Large pages, as each fiber's stack is a page or two of its own otherwise. A stack that overflows runs into the next
  // one; the checked build, whose frames are larger, sees that.
  k->stacks = (char*)(((uintptr_t)k->stacks + stackBytes * 32 - 1) / (stackBytes * 32) * (stackBytes * 32));
  madvise(k->stacks, size, MADV_HUGEPAGE);
  k->block.dynamic = (char*)mmap(0, maxDynamic, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (unsigned i = 0; i < maxThreads; i++) {
    // Tops at different distances, or all fibers' hot lines would share a few sets of the cache.
    char* top = k->stacks + stackBytes * (i + 1) - i * 832 % 16384 / 64 * 64;
    Fiber* f = k->fibers[i] = (Fiber*)(top - (sizeof(Fiber) + 63) / 64 * 64);
    f->linear = i;
    f->lane = i % 32;
    f->warp = &k->warps[i / 32];
    f->block = &k->block;
  }
  for (unsigned i = 0; i < maxThreads / 32; i++) k->warps[i].index = i;
  if (checked) checkWorker(k);
}

static void runBlock(Worker* k, const Grid* g, dim index) {
  unsigned n = g->threads.x * g->threads.y * g->threads.z;
  Block& b = k->block;
  if (n != k->numThreads || b.size.x != g->threads.x || b.size.y != g->threads.y) {
    for (unsigned i = 0; i < n; i++) k->fibers[i]->tid = {i % g->threads.x, i / g->threads.x % g->threads.y, i / g->threads.x / g->threads.y};
    k->numThreads = n;
    k->numWarps = (n + 31) / 32;
  }
  b.index = index;
  b.size = g->threads;
  b.grid = g->blocks;
  k->grid = g;
  k->failed = false;
  b.alive = n;
  b.waiting = k->votes = 0;
  if (g->dynamic) memset(b.dynamic, 0xff, g->dynamic);
  for (unsigned i = 0; i < k->numWarps; i++) {
    Warp& w = k->warps[i];
    unsigned lanes = n - i * 32;
    w.alive = w.ready = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    w.arrived = w.memory = 0;
  }
  for (unsigned i = 0; i < n; i++) {
    Fiber* f = k->fibers[i];
    f->numCopies = f->numGroups = 0;
    // What a switch takes from a stack. At emu_start the stack is aligned to 16 bytes, as it must be before a call.
    void** sp = (void**)f - 5;
    sp[0] = (void*)emu_start;
    sp[1] = f;
    sp[2] = nullptr;
    f->warp->sp[f->lane] = sp;
  }
  k->interval++;
  k->first = k->interval;
  emu_switch(&k->main, k->warps[0].sp[0]);
}

static bool backwards;
void setBackwards(bool b) { backwards = b; }

static void share(Grid* g) {
  prepare();
  Worker* k = worker;
  for (long n; !failure() && (n = g->next++) < g->total;) {
    long i = backwards ? g->total - 1 - n : n;
    runBlock(k, g, {(unsigned)(i % g->blocks.x), (unsigned)(i / g->blocks.x % g->blocks.y), (unsigned)(i / g->blocks.x / g->blocks.y)});
  }
}

// The helpers sleep until a grid has more than one block.
static std::mutex mutex;
static std::condition_variable begun, ended;
static Grid* current;
static long number;
static int workers, helpers;

static void help(long seen) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a handler would run on a fiber's small stack
  for (;;) {
    Grid* g;
    {
      std::unique_lock<std::mutex> l(mutex);
      begun.wait(l, [&] { return number != seen; });
      seen = number;
      g = current;
    }
    share(g);
    if (--g->working == 0) {
      std::lock_guard<std::mutex> l(mutex);
      ended.notify_all();
    }
  }
}
void setWorkers(int n) { workers = n; }

void run(Grid* g) {
  g->total = (long)g->blocks.x * g->blocks.y * g->blocks.z;
  g->next = 0;
  if (!workers) workers = (int)std::thread::hardware_concurrency();
  for (; helpers < workers - 1; helpers++) std::thread(help, number).detach();
  if (!helpers || g->total == 1) return share(g);
  g->working = helpers;
  {
    std::lock_guard<std::mutex> l(mutex);
    current = g;
    number++;
  }
  begun.notify_all();
  share(g);
  std::unique_lock<std::mutex> l(mutex);
  ended.wait(l, [&] { return g->working == 0; });
}

}  // namespace emu
