// The driver's entry points: devices, contexts, memory and modules. queue.cpp has streams, events and graphs.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "machine.h"
#include "memory.h"
#include "module.h"

namespace emu {
std::recursive_mutex driverMutex;
static int theContext;                     // its address is the handle
static thread_local CUcontext current;
static int retained;                       // of the primary context
static bool alive;                         // a context exists
static std::map<uintptr_t, size_t> pinned; // page-locked host memory by address
static std::map<const void*, const char*> handles;

bool hasContext() { return current && alive; }
void keep(const void* handle, const char* kind) { handles[handle] = kind; }
bool known(const void* handle, const char* kind) {
  auto i = handles.find(handle);
  return i != handles.end() && !strcmp(i->second, kind);
}
void forget(const void* handle) { handles.erase(handle); }
bool isPinned(const void* p, size_t bytes) {
  auto i = pinned.upper_bound((uintptr_t)p);
  if (i == pinned.begin()) return false;
  --i;
  return (uintptr_t)p + bytes <= i->first + i->second;
}
CUresult status() { return (CUresult)failure(); }

struct Function {
  const Kernel* kernel;
  int maxDynamic;
};
struct Module {
  Image image;
  std::map<std::string, Function> functions;
};
const Kernel* kernelOf(CUfunction f) { return ((Function*)f)->kernel; }
int maxDynamicOf(CUfunction f) { return ((Function*)f)->maxDynamic; }

// Dynamic shared memory that a block may ask for (CUDA programming guide, table of compute capabilities).
static int optInShared() {
  int c = settings.major * 10 + settings.minor;
  return c >= 90 ? 232448 : c == 86 || c == 89 ? 101376 : c >= 80 ? 166912 : 65536;
}
static void destroyContext() {
  if (!alive) return;
  runAll();
  size_t bytes, n = liveAllocations(&bytes);
  if (n) report("leak: %zu device allocations of %zu bytes are live when the context is destroyed", n, bytes);
  if (!pinned.empty()) report("leak: %zu pinned buffers are live when the context is destroyed", pinned.size());
  std::map<std::string, int> kinds;
  for (auto& [_, kind] : handles) kinds[kind]++;
  for (auto& [kind, count] : kinds) report("leak: %d of kind %s live when the context is destroyed", count, kind.c_str());
  forgetAllocations();
  for (auto& [p, _] : pinned) free((void*)p);
  pinned.clear();
  forgetQueues();
  handles.clear();
  alive = false;
  current = nullptr;
  clearFailure();
}
}  // namespace emu
using namespace emu;

API cuInit(unsigned) {
  std::string wrong = configureFromEnvironment();
  if (!wrong.empty()) {
    report("CUDA_EMU: %s", wrong.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  return settings.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
API cuDriverGetVersion(int* v) {
  *v = settings.version;
  return CUDA_SUCCESS;
}
API cuDeviceGetCount(int* n) {
  *n = settings.devices;
  return CUDA_SUCCESS;
}
API cuDeviceGet(CUdevice* d, int i) {
  if (i < 0 || i >= settings.devices) return CUDA_ERROR_INVALID_DEVICE;
  *d = i;
  return CUDA_SUCCESS;
}
API cuDeviceGetName(char* s, int n, CUdevice) {
  snprintf(s, n, checked ? "CUDA emulator (host CPU, checked)" : "CUDA emulator (host CPU)");
  return CUDA_SUCCESS;
}
API cuDeviceGetUuid(CUuuid* u, CUdevice) {
  memset(u, 0xe, sizeof *u);
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t* b, CUdevice) {
  size_t free;
  memory(&free, b);
  return CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice) {
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = maxThreads; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: *v = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *v = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *v = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *v = 0x7fffffff; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: *v = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *v = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *v = 49152; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = optInShared(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *v = optInShared() + 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *v = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *v = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = settings.multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *v = 2048; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = settings.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = settings.minor; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *v = 1000000; break;         // kHz
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *v = 1000000; break;  // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *v = 64; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *v = 4 << 20; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *v = 1; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *v = 2; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: *v = 1; break;
    default: *v = 0;
  }
  return CUDA_SUCCESS;
}

// --- contexts: there is one, whoever makes it

API cuCtxCreate_v2(CUcontext* c, unsigned, CUdevice) {
  LOCK;
  alive = true;
  *c = current = (CUcontext)&theContext;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice) {
  LOCK;
  retained++;
  alive = true;
  *c = (CUcontext)&theContext;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice) {
  LOCK;
  if (!retained) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained == 0) destroyContext();
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxReset_v2(CUdevice) {
  LOCK;
  destroyContext();
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = retained > 0;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) { return CUDA_SUCCESS; }
API cuCtxDestroy_v2(CUcontext) {
  LOCK;
  if (!alive) return CUDA_ERROR_INVALID_CONTEXT;
  destroyContext();
  return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext c) {
  current = c;
  return CUDA_SUCCESS;
}
API cuCtxGetCurrent(CUcontext* c) {
  *c = current;
  return CUDA_SUCCESS;
}
API cuCtxPushCurrent_v2(CUcontext c) { return cuCtxSetCurrent(c); }
API cuCtxPopCurrent_v2(CUcontext* c) {
  *c = current;
  current = nullptr;
  return CUDA_SUCCESS;
}
API cuCtxGetDevice(CUdevice* d) {
  NEED_CONTEXT;
  *d = 0;
  return CUDA_SUCCESS;
}
API cuCtxGetFlags(unsigned* f) {
  *f = 0;
  return CUDA_SUCCESS;
}
API cuCtxGetApiVersion(CUcontext, unsigned* v) {
  *v = (unsigned)settings.version;
  return CUDA_SUCCESS;
}
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

// --- memory

API cuMemGetInfo_v2(size_t* free, size_t* total) {
  LOCK;
  NEED_CONTEXT;
  memory(free, total);
  return status();
}
API cuMemAlloc_v2(CUdeviceptr* p, size_t n) {
  LOCK;
  NEED_CONTEXT;
  NOT_CAPTURING("cuMemAlloc");
  if (status()) return status();
  if (!n) return CUDA_ERROR_INVALID_VALUE;
  counters.allocations++;
  if (settings.failAllocation && --settings.failAllocation == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = allocate(n);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API cuMemFree_v2(CUdeviceptr p) {
  LOCK;
  NEED_CONTEXT;
  NOT_CAPTURING("cuMemFree");
  if (!p) return CUDA_SUCCESS;
  runAll();
  counters.frees++;
  Allocation* a = find(p);
  if (!release(p)) {
    report("free of %#llx, which is %s", p, a && a->freed && a->low == p ? "freed already" : "not the start of an allocation");
    return CUDA_ERROR_INVALID_VALUE;
  }
  return status();
}
API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
  LOCK;
  Allocation* a = find(p);
  if (!a || a->freed || p >= a->high) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->low;
  if (size) *size = a->high - a->low;
  return CUDA_SUCCESS;
}
API cuMemHostAlloc(void** p, size_t n, unsigned) {
  LOCK;
  NEED_CONTEXT;
  NOT_CAPTURING("cuMemHostAlloc");
  if (!n) return CUDA_ERROR_INVALID_VALUE;
  counters.pinned_allocations++;
  size_t room = (n + 4095) & ~4095ull;
  *p = room < n ? nullptr : aligned_alloc(4096, room);
  if (!*p) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(*p, 0xff, n);
  pinned[(uintptr_t)*p] = n;
  return CUDA_SUCCESS;
}
API cuMemAllocHost_v2(void** p, size_t n) { return cuMemHostAlloc(p, n, 0); }
API cuMemFreeHost(void* p) {
  LOCK;
  NOT_CAPTURING("cuMemFreeHost");
  runAll();
  if (!pinned.erase((uintptr_t)p)) {
    report("cuMemFreeHost of %p, which is not the start of pinned memory", p);
    return CUDA_ERROR_INVALID_VALUE;
  }
  free(p);
  return CUDA_SUCCESS;
}
API cuMemHostGetDevicePointer_v2(CUdeviceptr*, void*, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }

// --- modules

API cuModuleLoadData(CUmodule* m, const void* image) {
  LOCK;
  NEED_CONTEXT;
  if (status()) return status();
  Image i;
  std::string wrong;
  if (!readImage(image, settings.major, settings.minor, &i, &wrong)) {
    report("cuModuleLoadData: %s", wrong.c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  // What nvcc 13.0 makes, for compute capability 8.0 and later.
  if (settings.version < 13000) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (settings.major < 8 || !i.runs) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto module = new Module{i, {}};
  keep(module, "module");
  *m = (CUmodule)module;
  return CUDA_SUCCESS;
}
API cuModuleLoadDataEx(CUmodule* m, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(m, image); }
API cuModuleLoadFatBinary(CUmodule* m, const void* image) { return cuModuleLoadData(m, image); }
API cuModuleUnload(CUmodule m) {
  LOCK;
  if (!known(m, "module")) return CUDA_ERROR_INVALID_HANDLE;
  runAll();
  forget(m);
  delete (Module*)m;
  return CUDA_SUCCESS;
}
API cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  LOCK;
  NEED_CONTEXT;
  if (!known(m, "module")) return CUDA_ERROR_INVALID_HANDLE;
  auto module = (Module*)m;
  const Kernel* k = findKernel(name);
  if (!k) {
    report("kernel %s is not compiled into the emulator: is it in an EMU_KERNELS line, and is the library built since?", name);
    return CUDA_ERROR_NOT_FOUND;
  }
  bool absent = false;
  std::string wrong = settings.image ? compare(module->image, *k, &absent) : "";
  if (!wrong.empty()) {
    report("kernel %s: %s", name, wrong.c_str());
    return absent ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
  }
  *f = (CUfunction)&module->functions.try_emplace(name, Function{k, 49152}).first->second;
  return CUDA_SUCCESS;
}
API cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  LOCK;
  if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (v < 0 || v > optInShared()) return CUDA_ERROR_INVALID_VALUE;
    ((Function*)f)->maxDynamic = v < 49152 ? 49152 : v;
  }
  return CUDA_SUCCESS;
}
API cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction f) {
  LOCK;
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? maxThreads : a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? ((Function*)f)->maxDynamic : 0;
  return CUDA_SUCCESS;
}
API cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int threads, size_t shared) {
  if (threads < 1 || threads > (int)maxThreads) return CUDA_ERROR_INVALID_VALUE;
  int byThreads = 2048 / ((threads + 31) / 32 * 32), byShared = (int)((optInShared() + 1024) / (shared + 1024));
  *n = byThreads < byShared ? byThreads : byShared;
  return CUDA_SUCCESS;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, CUfunction f, int threads, size_t shared, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(n, f, threads, shared);
}

// --- errors

static const struct {
  CUresult result;
  const char *name, *text;
} errors[] = {
#define ERROR(x, text) {x, #x, text}
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
};
API cuGetErrorName(CUresult r, const char** s) {
  for (auto& e : errors)
    if (e.result == r) return *s = e.name, CUDA_SUCCESS;
  *s = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
API cuGetErrorString(CUresult r, const char** s) {
  for (auto& e : errors)
    if (e.result == r) return *s = e.text, CUDA_SUCCESS;
  *s = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
