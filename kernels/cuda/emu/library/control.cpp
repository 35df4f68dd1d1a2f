#include "control.h"

#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "memory.h"

namespace emu {

Settings settings;
Counters counters;

// A number of bytes: 4096, 64K, 256M, 2G.
static bool bytes(const char* s, int64_t* out) {
  char* end;
  *out = strtoll(s, &end, 10);
  if (end == s || *out < 0) return false;
  const char* units = "KMG";
  if (*end) {
    const char* u = strchr(units, *end);
    if (!u || end[1] || *out > (int64_t)1 << 20) return false;
    *out <<= 10 * (u - units + 1);
  }
  return true;
}

static std::string set(const std::string& key, const std::string& value) {
  int64_t n = 0;
  bool number = bytes(value.c_str(), &n);
  auto need = [&](int64_t low, int64_t high) -> std::string {
    if (number && n >= low && n <= high) return "";
    return key + "=" + value + ": use a number from " + std::to_string(low) + " to " + std::to_string(high);
  };
  std::string e;
  if (key == "memory") {
    if (e = need(0, (int64_t)1 << 39); e.empty()) setMemory((size_t)n);
  } else if (key == "devices") {
    if (e = need(0, 1); e.empty()) settings.devices = (int)n;
  } else if (key == "version") {
    if (e = need(1000, 99990); e.empty()) settings.version = (int)n;
  } else if (key == "capability") {
    char* end;
    long major = strtol(value.c_str(), &end, 10), minor = *end == '.' ? strtol(end + 1, &end, 10) : -1;
    if (*end || major < 1 || major > 99 || minor < 0 || minor > 9) return key + "=" + value + ": use MAJOR.MINOR, such as 8.0";
    settings.major = (int)major, settings.minor = (int)minor;
  } else if (key == "multiprocessors") {
    if (e = need(1, 1024); e.empty()) settings.multiprocessors = (int)n;
  } else if (key == "alloc") {
    if (e = need(0, (int64_t)1 << 40); e.empty()) settings.failAllocation = n;
  } else if (key == "launch") {
    if (e = need(0, (int64_t)1 << 40); e.empty()) settings.failLaunch = n;
  } else if (key == "threads") {
    if (e = need(1, 256); e.empty()) setWorkers((int)n);
  } else if (key == "image") {
    if (e = need(0, 1); e.empty()) settings.image = n;
  } else if (key == "eager") {
    if (e = need(0, 1); e.empty()) settings.eager = n;
  } else if (key == "backwards") {
    if (e = need(0, 1); e.empty()) setBackwards(n);
  } else if (key == "quiet") {
    if (e = need(0, 1); e.empty()) setQuiet(n);
  } else {
    return "unknown key " + key + "; use memory, devices, version, capability, multiprocessors, alloc, launch, threads, image, eager, backwards or quiet";
  }
  return e;
}

std::string configure(const char* text) {
  std::string s = text;
  for (size_t i = 0; i < s.size();) {
    size_t end = s.find(',', i), equal = s.find('=', i);
    if (end == std::string::npos) end = s.size();
    if (equal == std::string::npos || equal > end) return s.substr(i, end - i) + ": use key=value";
    std::string e = set(s.substr(i, equal - i), s.substr(equal + 1, end - equal - 1));
    if (!e.empty()) return e;
    i = end + 1;
  }
  return "";
}
std::string configureFromEnvironment() {
  const char* e = getenv("CUDA_EMU");
  return e ? configure(e) : "";
}

}  // namespace emu

using namespace emu;
#define EXPORT extern "C" __attribute__((visibility("default")))

// The strings live until the next call of the same function.
EXPORT const char* emu_configure(const char* text) {
  static std::string e;
  e = configure(text);
  return e.c_str();
}
EXPORT const char* emu_report() {
  static std::string r;
  r = reports();
  return r.c_str();
}
// Forgets the report and the failure; a real device needs a new context, or a new machine.
EXPORT void emu_reset() {
  clearReports();
  clearFailure();
}
EXPORT int emu_checked() { return checked; }
EXPORT uint64_t emu_counter(const char* name) {
  std::string n = name;
  const Counters& c = counters;
#define COUNTER(x) \
  if (n == #x) return c.x;
  COUNTER(launches)
  COUNTER(graph_launches)
  COUNTER(kernels)
  COUNTER(copies)
  COUNTER(synchronous_copies)
  COUNTER(fills)
  COUNTER(allocations)
  COUNTER(frees)
  COUNTER(pinned_allocations)
  COUNTER(synchronizations)
  COUNTER(captures)
  COUNTER(graph_nodes)
  COUNTER(bytes_to_host)
  COUNTER(library_calls)
  return ~0ull;
}
