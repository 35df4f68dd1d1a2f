#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

namespace emu {

// Addresses are given out upwards and never again, so that a use after free is always seen. Behind them lie copy-on-write
// mappings of one file of ones: memory that nobody has written costs nothing and reads as ones, however large.
constexpr size_t span = 1ull << 40, chunk = 32ull << 20, alignment = 256;  // as cuMemAlloc's

static uintptr_t base, top, mapped;  // addresses: the first, the next to give, the end of what is mapped
static int ones = -1;
static size_t size = 4ull << 30, used;
static std::map<uintptr_t, Allocation> allocations;

static bool reserve() {
  if (base) return true;
  void* p = mmap(0, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  ones = memfd_create("emu-ones", MFD_CLOEXEC);
  if (ones < 0 || ftruncate(ones, chunk)) return false;
  void* w = mmap(0, chunk, PROT_READ | PROT_WRITE, MAP_SHARED, ones, 0);
  if (w == MAP_FAILED) return false;
  for (uint64_t *q = (uint64_t*)w, *e = q + chunk / 8; q < e; q++) *q = ~0ull;
  munmap(w, chunk);
  base = mapped = (uintptr_t)p;
  top = base + alignment;
  return true;
}

void setMemory(size_t bytes) { size = bytes; }
void memory(size_t* free, size_t* total) {
  *total = size;
  *free = size > used ? size - used : 0;
}

static size_t rounded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

uintptr_t allocate(size_t bytes) {
  // One line of the gap after an allocation belongs to nobody.
  size_t room = rounded(bytes);
  if (bytes > size || room > size - (used < size ? used : size) || !reserve() || top + room + alignment > base + span) return 0;
  for (; mapped < top + room + alignment; mapped += chunk)
    if (mmap((void*)mapped, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, ones, 0) == MAP_FAILED) return 0;
  uintptr_t p = top;
  top += room + alignment;
  used += room;
  Granule* g = nullptr;
#ifdef EMU_CHECKED
  g = (Granule*)calloc(bytes / granuleBytes + 1, sizeof(Granule));
#endif
  allocations[p] = {p, p + bytes, g, false};
  return p;
}

Allocation* find(uintptr_t p) {
  auto i = allocations.upper_bound(p);
  return i == allocations.begin() ? nullptr : &(--i)->second;
}
bool inside(uintptr_t p, size_t bytes) {
  Allocation* a = find(p);
  return a && !a->freed && p <= a->high && bytes <= a->high - p;
}
bool onDevice(uintptr_t p) { return base && p >= base && p < base + span; }

static void drop(Allocation& a) {
  used -= rounded(a.high - a.low);
  a.freed = true;
  free(a.granules);
  a.granules = nullptr;
  uintptr_t low = (a.low + 4095) & ~4095ull, high = a.high & ~4095ull;
  if (low < high) madvise((void*)low, high - low, MADV_DONTNEED);  // ones again
}
bool release(uintptr_t p) {
  auto i = allocations.find(p);
  if (i == allocations.end() || i->second.freed) return false;
  drop(i->second);
  return true;
}
size_t liveAllocations(size_t* bytes) {
  size_t n = 0;
  *bytes = 0;
  for (auto& [_, a] : allocations)
    if (!a.freed) n++, *bytes += a.high - a.low;
  return n;
}
void forgetAllocations() {
  for (auto& [_, a] : allocations)
    if (!a.freed) drop(a);
}

}  // namespace emu
