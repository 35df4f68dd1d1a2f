#pragma once
// The device's memory: where allocations lie, which are live, and what is left. All calls come from under the driver's
// lock; while a kernel runs nothing changes, so that its accesses are looked up without one.
#include <stddef.h>
#include <stdint.h>

namespace emu {

// What the checked build knows of 64 bytes, for missing waits between streams: the last write, and the last reads of two
// streams, by the stream and the number of the operation in it.
struct Granule {
  uint32_t writeNumber, readNumber[2];
  uint16_t writeStream, readStream[2];  // 0: none
};
constexpr size_t granuleBytes = 64;

struct Allocation {
  uintptr_t low, high;
  Granule* granules;  // checked build
  bool freed;
};

void setMemory(size_t bytes);             // the size of the device; it keeps what is allocated
void memory(size_t* free, size_t* total);
uintptr_t allocate(size_t bytes);         // 0: out of memory. New memory is all ones: NaN as float32, bf16 and f16, -1 as int
Allocation* find(uintptr_t p);            // the allocation that holds p or ends nearest below it, freed ones included; or null
bool release(uintptr_t p);                // false: not the start of a live allocation
bool inside(uintptr_t p, size_t bytes);   // wholly in one live allocation
bool onDevice(uintptr_t p);               // an address that only the device has
size_t liveAllocations(size_t* bytes);
void forgetAllocations();                 // frees all, at the end of a context

}  // namespace emu
