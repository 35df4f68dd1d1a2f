#pragma once
// What comes after what, between streams and the host: the checked build's missing waits. An operation of a stream comes
// after another's if a chain of the same stream, events and waits of the host leads from one to the other.
#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace emu {

// For each stream by id, the number of its last operation that has happened before.
typedef std::vector<uint32_t> Clock;

#ifdef EMU_CHECKED
uint16_t newStreamId();
void freeStreamId(uint16_t);
Clock hostClock();                                         // what the host has waited for
void hostWaited(const Clock*);                             // null: for everything
void begin(Clock* stream, uint16_t id, const Clock& host); // the next operation of a stream begins
void join(Clock* to, const Clock& from);
void touch(uintptr_t p, size_t n, bool write);             // by the operation that runs
#else
inline uint16_t newStreamId() { return 0; }
inline void freeStreamId(uint16_t) {}
inline Clock hostClock() { return {}; }
inline void hostWaited(const Clock*) {}
inline void begin(Clock*, uint16_t, const Clock&) {}
inline void join(Clock*, const Clock&) {}
inline void touch(uintptr_t, size_t, bool) {}
#endif

}  // namespace emu
