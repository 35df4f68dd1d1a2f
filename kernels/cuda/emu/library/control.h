#pragma once
// What a test sets and reads: faults, the device's shape, counters.
#include <atomic>
#include <cstdint>
#include <string>

namespace emu {

struct Settings {
  int devices = 1;
  int version = 13000;  // of the driver: 1000 * major + 10 * minor
  int major = 8, minor = 0;
  int multiprocessors = 16;
  int64_t failAllocation = 0;  // the n-th device allocation from here on fails; 0: none
  int64_t failLaunch = 0;      // the device is lost at the n-th kernel from here on; 0: none
  bool image = true;           // compare images with the kernels that are compiled in
  bool eager = false;          // run at once what could wait; to see whether a fault is one of order
};
extern Settings settings;
// Takes "key=value,…"; README.md lists the keys. Returns what is wrong with it, or "".
std::string configure(const char* text);
// Sets all that CUDA_EMU says. At cuInit.
std::string configureFromEnvironment();

// Calls of the driver since the process began.
struct Counters {
  std::atomic<uint64_t> launches{0}, graph_launches{0}, kernels{0}, copies{0}, synchronous_copies{0}, fills{0}, allocations{0}, frees{0},
      pinned_allocations{0}, synchronizations{0}, captures{0}, graph_nodes{0}, bytes_to_host{0}, library_calls{0};
};
extern Counters counters;

void setQuiet(bool);

}  // namespace emu
