#pragma once
// What driver.cpp and queue.cpp share.
#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

#include "fiber.h"

#define API extern "C" __attribute__((visibility("default"))) CUresult
#define LOCK std::lock_guard<std::recursive_mutex> lock_(emu::driverMutex)
#define NEED_CONTEXT \
  if (!emu::hasContext()) return CUDA_ERROR_INVALID_CONTEXT
// Calls that a program may not make while it captures a stream; they break the capture too.
#define NOT_CAPTURING(call) \
  if (emu::breakCapture(call)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

namespace emu {
extern std::recursive_mutex driverMutex;  // over all state of the driver; held while kernels run
bool hasContext();                  // the calling thread has a current context
CUresult status();                  // the failure that all calls return until the context is gone

// Handles that a program has.
void keep(const void* handle, const char* kind);
bool known(const void* handle, const char* kind);
void forget(const void* handle);
const Kernel* kernelOf(CUfunction);
int maxDynamicOf(CUfunction);
bool isPinned(const void* p, size_t bytes);

// queue.cpp
void runAll();                       // all that waits in any stream
bool breakCapture(const char* call); // false: nothing is captured
void forgetQueues();                 // at the end of a context
}  // namespace emu
