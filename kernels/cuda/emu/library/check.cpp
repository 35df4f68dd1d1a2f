// The checked build's eyes: gcc calls the functions __tsan_* at each access of memory in a kernel (-fsanitize=thread, without
// its library), and this file looks at the address. The plain build is made of the same sources without the calls.
#include "machine.h"

#ifndef EMU_CHECKED
namespace emu {
void touchAtomic(Fiber*, void*, unsigned) {}
}  // namespace emu
#else

#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "clock.h"
#include "memory.h"

namespace emu {
register Fiber* cur asm("r15");

// --- order between streams (clock.h)

static Clock host;                    // the last operation of each stream that the host has waited for
static std::vector<uint32_t> numbers; // the last operation of each stream that began
static Clock* running;                // of the operation that runs
static uint16_t runningStream;
static uint32_t runningNumber;

static std::vector<uint16_t> unused;  // ids of streams that are gone

uint16_t newStreamId() {
  if (numbers.empty()) numbers.push_back(0);  // the legacy stream
  if (!unused.empty()) {
    uint16_t id = unused.back();
    unused.pop_back();
    return id;
  }
  // A program with so many streams shares the last id among them, and misses what lies between those.
  if (numbers.size() < 0xffff) numbers.push_back(0);
  return (uint16_t)(numbers.size() - 1);
}
void freeStreamId(uint16_t id) { unused.push_back(id); }
Clock hostClock() { return host; }
void join(Clock* to, const Clock& from) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); i++) (*to)[i] = std::max((*to)[i], from[i]);
}
void hostWaited(const Clock* c) {
  if (c)
    join(&host, *c);
  else
    join(&host, numbers);
}
void begin(Clock* stream, uint16_t id, const Clock& after) {
  if (numbers.empty()) numbers.push_back(0);
  join(stream, after);
  if (stream->size() <= id) stream->resize(id + 1);
  (*stream)[id] = ++numbers[id];
  running = stream;
  runningStream = id;
  runningNumber = numbers[id];
}
static bool happened(uint16_t stream, uint32_t number) { return stream < running->size() && (*running)[stream] >= number; }

// Streams are kept as id+1, so that 0 means none. Returns which access of another stream is not ordered before this one.
static const char* unordered(Granule* g, bool write, uint16_t* other) {
  uint16_t me = runningStream + 1;
  auto open = [&](uint16_t stream, uint32_t number) { return stream && stream != me && !happened(stream - 1, number); };
  const char* what = nullptr;
  if (open(g->writeStream, g->writeNumber)) what = "written", *other = g->writeStream - 1;
  if (write) {
    for (int i = 0; i < 2; i++)
      if (open(g->readStream[i], g->readNumber[i])) what = "read", *other = g->readStream[i] - 1;
    g->writeStream = me, g->writeNumber = runningNumber;
  } else {
    // Into the place of a read that can conflict no more; of three streams that read at once, one is forgotten.
    int place = open(g->readStream[0], g->readNumber[0]) ? 1 : 0;
    g->readStream[place] = me, g->readNumber[place] = runningNumber;
  }
  return what;
}
// Whether the running kernel has been here: the usual case.
static inline bool seen(const Granule* g, bool write) {
  uint16_t me = runningStream + 1;
  if (write) return g->writeStream == me && g->writeNumber == runningNumber;
  return (g->readStream[0] == me && g->readNumber[0] == runningNumber) || (g->readStream[1] == me && g->readNumber[1] == runningNumber);
}
void touch(uintptr_t p, size_t n, bool write) {
  Allocation* a = find(p);
  if (!n || !a || a->freed || p + n > a->high) return;
  for (size_t i = (p - a->low) / granuleBytes; i <= (p + n - 1 - a->low) / granuleBytes; i++) {
    uint16_t other;
    if (const char* what = unordered(&a->granules[i], write, &other)) {
      report("a copy or fill in stream %u %s memory at %#zx that stream %u has %s, and nothing makes it wait for that: an event is missing", runningStream, write ? "writes" : "reads",
             (size_t)(a->low + i * granuleBytes), other, what);
      setFailure(LaunchFailed);
      return;
    }
  }
}

// --- shared memory: races within a block

// What is known of one byte. Threads are kept as number+1, 0 is none.
struct Shadow {
  uint32_t writeInterval, readInterval;  // barrier intervals; ones before the block's first mean never
  uint16_t writer, reader;
  uint16_t writeMemory, readMemory;  // the warp's __syncwarp count then
};
constexpr uint16_t pending = 0x8000, atomic = 0x4000, everyone = 0x3fff, thread = 0x07ff, lanes = 0x0800;

static int findShared(struct dl_phdr_info* info, size_t, void* data) {
  auto k = (Worker*)data;
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    auto& h = info->dlpi_phdr[i];
    uintptr_t low = info->dlpi_addr + h.p_vaddr, here = (uintptr_t)&findShared;
    if (h.p_type != PT_LOAD) continue;
    mine |= here >= low && here < low + h.p_memsz;
    if (!k->constantLow) k->constantLow = low;
    k->constantHigh = low + h.p_memsz;
  }
  if (!mine) return k->constantLow = 0, 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data) {
      k->sharedLow = (char*)info->dlpi_tls_data;
      k->sharedHigh = k->sharedLow + info->dlpi_phdr[i].p_memsz;
    }
  return 1;
}
void checkWorker(Worker* k) {
  dl_iterate_phdr(findShared, k);  // worker is a variable of the thread, so that the block exists
  size_t n = (size_t)(k->sharedHigh - k->sharedLow) + maxDynamic;
  k->shadow = (Shadow*)mmap(0, n * sizeof(Shadow), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Whether an access by thread o, at count m of its warp's __syncwarp calls, comes before what f does.
static inline bool before(Fiber* f, uint16_t o, uint16_t m) {
  uint16_t me = (uint16_t)(f->linear + 1);
  return o == me || ((o - 1) / 32 == (me - 1) / 32 && m != (uint16_t)f->warp->memory);
}
enum class Kind { Read, Write, Atomic, CopyBegins, CopyEnds };
static void checkShared(Fiber* f, Shadow* s, size_t offset, const char* where, unsigned n, Kind kind) {
  Worker* k = worker;
  uint16_t me = (uint16_t)(f->linear + 1), memory = (uint16_t)f->warp->memory;
  uint32_t now = k->interval;
  bool write = kind != Kind::Read;
  static const char* verbs[] = {"read", "write", "atomic update", "cp.async", "cp.async"};
  const char* verb = verbs[(int)kind];
  for (unsigned i = 0; i < n; i++, s++, offset++) {
    uint16_t w = s->writer & thread, flags = s->writer & ~thread;
    bool written = s->writeInterval >= k->first && s->writer;
    if (written && flags & pending && kind != Kind::CopyEnds)
      fail(f, LaunchFailed, "%s of %u bytes of %s shared memory at +%#zx while thread %u's cp.async to it is under way: a wait for its group is missing", verb, n, where, offset, w - 1);
    bool bothAtomic = kind == Kind::Atomic && flags & atomic;
    if (written && s->writeInterval == now && !bothAtomic && !before(f, w, s->writeMemory))
      fail(f, LaunchFailed, "race: %s of %u bytes of %s shared memory at +%#zx after a write by thread %u, and no barrier between", verb, n, where, offset, w - 1);
    if (write && s->readInterval == now && s->reader) {
      uint16_t r = s->reader;
      if (r == everyone) fail(f, LaunchFailed, "race: %s of %u bytes of %s shared memory at +%#zx after reads by threads of several warps, and no barrier between", verb, n, where, offset);
      bool other = r & lanes ? ((r & thread) - 1) / 32 != (me - 1) / 32 || s->readMemory == memory : !before(f, r, s->readMemory);
      if (other) fail(f, LaunchFailed, "race: %s of %u bytes of %s shared memory at +%#zx after a read by thread %u, and no barrier between", verb, n, where, offset, (r & thread) - 1);
    }
    if ((kind == Kind::Read || kind == Kind::Atomic) && !written)
      fail(f, LaunchFailed, "%s of %u bytes of %s shared memory at +%#zx, which nobody in this block has written", verb, n, where, offset);
    if (write) {
      s->writeInterval = now;
      s->writer = me | (kind == Kind::Atomic ? atomic : kind == Kind::CopyBegins ? pending : 0);
      s->writeMemory = memory;
      if (kind != Kind::Atomic) s->reader = 0;
    } else {
      // The reader that a later write is held against: all of one barrier interval, or those of the last __syncwarp of a warp.
      uint16_t r = s->readInterval == now ? s->reader : 0, first = r & thread;
      if (!r)
        s->reader = me;
      else if (r == everyone || (first - 1) / 32 != (me - 1) / 32)
        s->reader = everyone;
      else if (s->readMemory != memory)
        s->reader = me;
      else if (first != me)
        s->reader = first | lanes;
      s->readInterval = now;
      s->readMemory = memory;
    }
  }
}
// Shared memory that p lies in, or null.
static Shadow* sharedAt(Worker* k, char* p, size_t n, size_t* offset, const char** where) {
  if (p >= k->sharedLow && p + n <= k->sharedHigh) {
    *offset = p - k->sharedLow;
    *where = "static";
    return k->shadow + *offset;
  }
  if (p >= k->block.dynamic && p + n <= k->block.dynamic + maxDynamic) {
    *offset = p - k->block.dynamic;
    *where = "dynamic";
    return k->shadow + (k->sharedHigh - k->sharedLow) + *offset;
  }
  return nullptr;
}

// --- all accesses

// The allocation that a thread of the worker used last, as most accesses are near the one before.
static thread_local Allocation* recent;

static void checkGlobal(Fiber* f, uintptr_t p, size_t n, bool write) {
  Allocation* a = recent;
  if (!a || a->freed || p < a->low || p + n > a->high) {
    a = find(p);
    const char* verb = write ? "write" : "read";
    if (!a) fail(f, IllegalAddress, "%s of %zu bytes at %#zx, which lies before all device memory", verb, n, p);
    size_t size = a->high - a->low, at = p - a->low;
    if (a->freed && p < a->high) fail(f, IllegalAddress, "use after free: %s of %zu bytes at +%zu of an allocation of %zu bytes that was freed", verb, n, at, size);
    if (a->freed || p + n > a->high) fail(f, IllegalAddress, "out of bounds: %s of %zu bytes at +%zu of an allocation of %zu bytes", verb, n, at, size);
    recent = a;
  }
  for (size_t i = (p - a->low) / granuleBytes; i <= (p + n - 1 - a->low) / granuleBytes; i++) {
    Granule* g = &a->granules[i];
    uint16_t other;
    if (seen(g, write)) continue;
    if (const char* what = unordered(g, write, &other))
      fail(f, LaunchFailed, "%s of memory at %#zx in stream %u that stream %u has %s, and nothing makes the stream wait for that: an event is missing", write ? "write" : "read", p, runningStream,
           other, what);
  }
}

static void check(Fiber* f, char* p, size_t n, Kind kind, bool aligned) {
  Worker* k = worker;
  // A thread's own stack comes first: most accesses of this build are of it.
  char* stack = k->stacks + stackBytes * f->linear;
  if (p >= stack && p + n <= stack + stackBytes) return;
  bool write = kind != Kind::Read;
  const char* verb = write ? "write" : "read";
  if (aligned && n <= 16 && (uintptr_t)p % n) fail(f, MisalignedAddress, "misaligned %s of %zu bytes at %p", verb, n, p);
  if (onDevice((uintptr_t)p)) return checkGlobal(f, (uintptr_t)p, n, write);
  size_t offset;
  const char* where;
  if (Shadow* s = sharedAt(k, p, n, &offset, &where)) {
    if (*where == 'd' && offset + n > k->grid->dynamic)
      fail(f, IllegalAddress, "out of bounds: %s of %zu bytes at +%zu of %zu bytes of dynamic shared memory", verb, n, offset, k->grid->dynamic);
    return checkShared(f, s, offset, where, (unsigned)n, kind);
  }
  if (p >= (char*)k && p < (char*)(k + 1)) return;  // blockIdx and its like
  if (!write && (uintptr_t)p >= k->constantLow && (uintptr_t)p + n <= k->constantHigh) return;
  if (p >= k->stacks && p < k->stacks + stackBytes * maxThreads)
    fail(f, IllegalAddress, "%s of %zu bytes at %p, which are another thread's local memory, or the stack is too small for this thread's", verb, n, p);
  fail(f, IllegalAddress, "%s of %zu bytes at %p, which is not memory of the device", verb, n, p);
}

void checkAccess(Fiber* f, void* p, size_t n, bool write, bool aligned) { check(f, (char*)p, n, write ? Kind::Write : Kind::Read, aligned); }
void touchAtomic(Fiber* f, void* p, unsigned n) { check(f, (char*)p, n, Kind::Atomic, true); }
void checkCopyBegins(Fiber* f, void* to, const void* from, unsigned n) {
  if (from) {
    if (!onDevice((uintptr_t)from)) fail(f, IllegalAddress, "cp.async from %p, which is not memory of the device", from);
    check(f, (char*)from, n, Kind::Read, true);
  }
  size_t offset;
  const char* where;
  if (!sharedAt(worker, (char*)to, n, &offset, &where)) fail(f, IllegalAddress, "cp.async to %p, which is not shared memory", to);
  check(f, (char*)to, n, Kind::CopyBegins, true);
}
void checkCopyEnds(Fiber* f, void* to, unsigned n) { check(f, (char*)to, n, Kind::CopyEnds, true); }

}  // namespace emu

// --- what gcc calls

using namespace emu;
#define HOOK(n)                                                                                             \
  extern "C" void __tsan_read##n(void* p) { check(cur, (char*)p, n, Kind::Read, true); }                   \
  extern "C" void __tsan_write##n(void* p) { check(cur, (char*)p, n, Kind::Write, true); }                 \
  extern "C" void __tsan_unaligned_read##n(void* p) { check(cur, (char*)p, n, Kind::Read, false); }        \
  extern "C" void __tsan_unaligned_write##n(void* p) { check(cur, (char*)p, n, Kind::Write, false); }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
extern "C" void __tsan_read_range(void* p, size_t n) { check(cur, (char*)p, n, Kind::Read, false); }
extern "C" void __tsan_write_range(void* p, size_t n) { check(cur, (char*)p, n, Kind::Write, false); }

// -fsanitize=alignment,bounds-strict,shift-exponent,integer-divide-by-zero, without its library: what the language knows and
// an address does not show. All data begin with the place in the source.
struct Place {
  const char* file;
  uint32_t line, column;
};
struct AlignmentData {
  Place place;
  void* type;
  uint8_t log;  // of the alignment that the type needs
  uint8_t kind;
};
static const char* base(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}
extern "C" void __ubsan_handle_type_mismatch_v1(AlignmentData* d, void* p) {
  fail(cur, MisalignedAddress, "%s:%u: misaligned access at %p, which is no multiple of %u", base(d->place.file), d->place.line, p, 1u << d->log);
}
extern "C" void __ubsan_handle_out_of_bounds(Place* d, intptr_t index) { fail(cur, IllegalAddress, "%s:%u: index %zd is out of the array's bounds", base(d->file), d->line, (ssize_t)index); }
extern "C" void __ubsan_handle_shift_out_of_bounds(Place* d, intptr_t, intptr_t by) { fail(cur, LaunchFailed, "%s:%u: shift by %zd, which is negative or as wide as the type", base(d->file), d->line, (ssize_t)by); }
extern "C" void __ubsan_handle_divrem_overflow(Place* d, intptr_t, intptr_t) { fail(cur, LaunchFailed, "%s:%u: division of integers by zero, or one that overflows", base(d->file), d->line); }
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit(void*) {}
extern "C" void __tsan_init() {}
#endif
