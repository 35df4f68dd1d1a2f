// Streams, events, captures and graphs. Streams are lazy: nothing runs before something waits for it, and what a copy to the
// host will write is all ones until then, so that a missing wait shows in every run. Only events order streams.
#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "clock.h"
#include "control.h"
#include "driver.h"
#include "machine.h"
#include "memory.h"

namespace emu {


struct Operation {
  std::function<void()> run;
  std::function<void()> enqueued;  // when it enters a stream: poison
};
struct Capture;
struct Stream {
  bool blocking;  // with the legacy stream
  std::deque<std::function<void()>> queue;
  Capture* capture = nullptr;
  uint64_t unjoined = 0;  // within a capture: what its origin has not waited for; 0: nothing
  Clock clock;            // what its last operation comes after
  uint16_t id = 0;
};
struct Capture {
  Stream* origin;
  std::vector<Operation> operations;
  std::set<Stream*> streams;
  bool broken = false;
};
struct Graph {
  std::vector<Operation> operations;
};
struct Executable {
  std::shared_ptr<const std::vector<Operation>> operations;
};
// One record of an event.
struct Moment {
  bool done = false;
  Stream* stream;
  std::chrono::steady_clock::time_point time;
  Clock clock;
};
struct Event {
  bool timed;
  std::shared_ptr<Moment> last;
  Capture* capture = nullptr;  // its last record was captured
  Stream* recorded = nullptr;  // there, by this stream
  uint64_t unjoined = 0;       // with this state
};

static Stream legacy{true};
static std::vector<Stream*> streams{&legacy};
static std::vector<Capture*> captures;

static bool valid(CUstream s) { return !s || known(s, "stream"); }
static Stream* of(CUstream s) { return s ? (Stream*)s : &legacy; }

static void runOne(Stream* s) {
  auto run = std::move(s->queue.front());
  s->queue.pop_front();
  run();
}
static void runTo(Stream* s) {
  while (!s->queue.empty()) runOne(s);
}
void runAll() {
  for (Stream* s : streams) runTo(s);
  hostWaited(nullptr);
}

bool breakCapture(const char* call) {
  if (captures.empty()) return false;
  for (Capture* c : captures) c->broken = true;
  report("%s while a stream is captured", call);
  return true;
}
void forgetQueues() {
  for (Capture* c : captures) delete c;
  captures.clear();
  legacy.queue.clear();
  for (Stream* s : streams)
    if (s != &legacy) delete s;
  streams = {&legacy};
}

// Appends to a stream's queue without a look at captures.
static void enqueue(Stream* s, const Operation& o) {
  if (o.enqueued) o.enqueued();
  Clock host = hostClock();
  s->queue.push_back([s, run = o.run, host] {
    begin(&s->clock, s->id, host);
    if (!failure()) run();
  });
  if (settings.eager) runTo(s);
}
static CUresult submit(CUstream h, Operation o) {
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = of(h);
  if (s->capture) {
    if (s->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    s->capture->operations.push_back(std::move(o));
    if (s != s->capture->origin) s->unjoined++;
    return CUDA_SUCCESS;
  }
  if (status()) return status();
  // The legacy stream and blocking streams wait for each other.
  if (s == &legacy) {
    for (Capture* c : captures)
      if (c->origin->blocking) {
        c->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    enqueue(s, {[] {
                  for (Stream* other : streams)
                    if (other->blocking && other != &legacy) {
                      runTo(other);
                      join(&legacy.clock, other->clock);
                    }
                },
                nullptr});
  } else if (s->blocking && !legacy.queue.empty()) {
    enqueue(s, {[s] {
                  runTo(&legacy);
                  join(&s->clock, legacy.clock);
                },
                nullptr});
  }
  enqueue(s, o);
  return status();
}
static CUresult wait(Stream* s) {
  counters.synchronizations++;
  runTo(s);
  hostWaited(&s->clock);
  return status();
}
static void runTo(const std::shared_ptr<Moment>& m) {
  while (!m->done && !m->stream->queue.empty()) runOne(m->stream);
}

// --- copies and fills

static bool readable(CUdeviceptr p, size_t n, const char* call) {
  if (inside(p, n)) return true;
  report("%s: %zu bytes at %#llx are not within one live allocation", call, n, p);
  return false;
}
// A copy between device and host waits on the host, unless the host's memory is pinned.
static CUresult copy(CUstream h, bool waits, bool toHost, Operation o) {
  counters.copies++;
  if (waits) {
    counters.synchronous_copies++;
    if (valid(h) && of(h)->capture) return breakCapture("a copy of memory that is not pinned"), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  CUresult r = submit(h, std::move(o));
  if (r || !waits) return r;
  counters.synchronizations--;
  return wait(of(h));
}
static CUresult toDevice(CUdeviceptr to, const void* from, size_t n, CUstream h, bool waits) {
  if (!readable(to, n, "copy to the device")) return CUDA_ERROR_INVALID_VALUE;
  return copy(h, waits || !isPinned(from, n), false, {[=] {
                touch(to, n, true);
                memcpy((void*)to, from, n);
              }, nullptr});
}
static CUresult toHost(void* to, CUdeviceptr from, size_t n, CUstream h, bool waits) {
  if (!readable(from, n, "copy to the host")) return CUDA_ERROR_INVALID_VALUE;
  counters.bytes_to_host += n;
  return copy(h, waits || !isPinned(to, n), true, {[=] {
                touch(from, n, false);
                memcpy(to, (void*)from, n);
              }, [=] { memset(to, 0xff, n); }});
}
static CUresult within(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream h) {
  if (!readable(to, n, "copy on the device") || !readable(from, n, "copy on the device")) return CUDA_ERROR_INVALID_VALUE;
  counters.copies++;
  return submit(h, {[=] {
                  touch(from, n, false);
                  touch(to, n, true);
                  memmove((void*)to, (void*)from, n);
                }, nullptr});
}
template <class T>
static CUresult fill(CUdeviceptr to, T value, size_t n, CUstream h) {
  if (!readable(to, n * sizeof(T), "fill")) return CUDA_ERROR_INVALID_VALUE;
  if (to % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  counters.fills++;
  return submit(h, {[=] {
                  touch(to, n * sizeof(T), true);
                  for (size_t i = 0; i < n; i++) ((T*)to)[i] = value;
                }, nullptr});
}

}  // namespace emu
using namespace emu;

#define COMMAND \
  LOCK;         \
  NEED_CONTEXT

API cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void* s, size_t n, CUstream h) {
  COMMAND;
  return toDevice(d, s, n, h, false);
}
API cuMemcpyDtoHAsync_v2(void* d, CUdeviceptr s, size_t n, CUstream h) {
  COMMAND;
  return toHost(d, s, n, h, false);
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) {
  COMMAND;
  return within(d, s, n, h);
}
API cuMemcpyHtoD_v2(CUdeviceptr d, const void* s, size_t n) {
  COMMAND;
  NOT_CAPTURING("cuMemcpyHtoD");
  return toDevice(d, s, n, nullptr, true);
}
API cuMemcpyDtoH_v2(void* d, CUdeviceptr s, size_t n) {
  COMMAND;
  NOT_CAPTURING("cuMemcpyDtoH");
  return toHost(d, s, n, nullptr, true);
}
API cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n) {
  COMMAND;
  NOT_CAPTURING("cuMemcpyDtoD");
  return within(d, s, n, nullptr);
}
// Either side may be the device.
static CUresult copyAny(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h, bool waits) {
  if (onDevice(d)) return onDevice(s) ? within(d, s, n, h) : toDevice(d, (const void*)s, n, h, waits);
  return onDevice(s) ? toHost((void*)d, s, n, h, waits) : CUDA_ERROR_INVALID_VALUE;
}
API cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) {
  COMMAND;
  return copyAny(d, s, n, h, false);
}
API cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n) {
  COMMAND;
  NOT_CAPTURING("cuMemcpy");
  return copyAny(d, s, n, nullptr, true);
}
API cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream h) {
  COMMAND;
  return fill<uint8_t>(d, v, n, h);
}
API cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, CUstream h) {
  COMMAND;
  return fill<uint16_t>(d, v, n, h);
}
API cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream h) {
  COMMAND;
  return fill<uint32_t>(d, v, n, h);
}
API cuMemsetD8_v2(CUdeviceptr d, unsigned char v, size_t n) { return cuMemsetD8Async(d, v, n, nullptr); }
API cuMemsetD16_v2(CUdeviceptr d, unsigned short v, size_t n) { return cuMemsetD16Async(d, v, n, nullptr); }
API cuMemsetD32_v2(CUdeviceptr d, unsigned v, size_t n) { return cuMemsetD32Async(d, v, n, nullptr); }

// --- kernels

static void runKernel(const Kernel* k, const uint64_t* values, dim blocks, dim threads, size_t dynamic) {
  counters.kernels++;
  if (settings.failLaunch && --settings.failLaunch == 0) {
    report("the device is lost at kernel %s, as CUDA_EMU asked", k->name);
    setFailure(LaunchFailed);
    return;
  }
  std::vector<void*> arguments(k->numParameters);
  for (int i = 0; i < k->numParameters; i++) arguments[i] = (void*)(values + i);
  Grid g{};
  g.kernel = k;
  g.arguments = arguments.data();
  g.blocks = blocks;
  g.threads = threads;
  g.dynamic = dynamic;
  run(&g);
}
API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned dynamic, CUstream h, void** parameters, void** extra) {
  COMMAND;
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  const Kernel* k = kernelOf(f);
  auto refuse = [&](const char* why) {
    report("launch of %s with blocks (%u,%u,%u) of (%u,%u,%u) threads and %u bytes of dynamic shared memory: %s", k->name, gx, gy, gz, bx, by, bz, dynamic, why);
    return CUDA_ERROR_INVALID_VALUE;
  };
  if (!gx || !gy || !gz || !bx || !by || !bz) return refuse("a dimension is 0");
  if (gx > 0x7fffffff || gy > 65535 || gz > 65535) return refuse("a dimension of the grid is over 2147483647, 65535 or 65535");
  if (bx > 1024 || by > 1024 || bz > 64 || (uint64_t)bx * by * bz > maxThreads) return refuse("a block has more than 1024 threads, or a dimension over 1024, 1024 or 64");
  if (dynamic > (unsigned)maxDynamicOf(f)) return refuse("more shared memory than the function is allowed; set the attribute of the function");
  if (extra || (k->numParameters && !parameters)) return refuse("parameters must be given one by one");
  auto values = std::make_shared<std::vector<uint64_t>>(k->numParameters);
  for (int i = 0; i < k->numParameters; i++) {
    if (k->sizes[i] > 8) return refuse("a parameter has more than 8 bytes");
    memcpy(values->data() + i, parameters[i], k->sizes[i]);
  }
  if (!(valid(h) && of(h)->capture)) counters.launches++;
  return submit(h, {[=] { runKernel(k, values->data(), {gx, gy, gz}, {bx, by, bz}, dynamic); }, nullptr});
}

// --- streams and events

API cuStreamCreate(CUstream* s, unsigned flags) {
  COMMAND;
  if (status()) return status();
  auto stream = new Stream{!(flags & CU_STREAM_NON_BLOCKING)};
  stream->id = newStreamId();
  streams.push_back(stream);
  keep(stream, "stream");
  *s = (CUstream)stream;
  return CUDA_SUCCESS;
}
API cuStreamCreateWithPriority(CUstream* s, unsigned flags, int) { return cuStreamCreate(s, flags); }
API cuStreamDestroy_v2(CUstream h) {
  LOCK;
  if (!known(h, "stream")) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = of(h);
  if (s->capture) return breakCapture("cuStreamDestroy"), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  runTo(s);
  streams.erase(std::find(streams.begin(), streams.end(), s));
  forget(s);
  freeStreamId(s->id);
  delete s;
  return CUDA_SUCCESS;
}
API cuStreamGetFlags(CUstream h, unsigned* flags) {
  LOCK;
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  *flags = of(h)->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
API cuStreamGetPriority(CUstream h, int* p) {
  LOCK;
  *p = 0;
  return valid(h) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
API cuStreamSynchronize(CUstream h) {
  COMMAND;
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  if (of(h)->capture) return breakCapture("cuStreamSynchronize"), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return wait(of(h));
}
// Each question makes one step, so that polling comes to an end.
API cuStreamQuery(CUstream h) {
  COMMAND;
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = of(h);
  if (s->capture) return breakCapture("cuStreamQuery"), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!s->queue.empty()) runOne(s);
  if (status() || !s->queue.empty()) return status() ? status() : CUDA_ERROR_NOT_READY;
  hostWaited(&s->clock);
  return CUDA_SUCCESS;
}
API cuCtxSynchronize() {
  COMMAND;
  NOT_CAPTURING("cuCtxSynchronize");
  counters.synchronizations++;
  runAll();
  return status();
}
API cuEventCreate(CUevent* e, unsigned flags) {
  COMMAND;
  if (status()) return status();
  auto event = new Event{!(flags & CU_EVENT_DISABLE_TIMING), nullptr};
  keep(event, "event");
  *e = (CUevent)event;
  return CUDA_SUCCESS;
}
API cuEventDestroy_v2(CUevent e) {
  LOCK;
  if (!known(e, "event")) return CUDA_ERROR_INVALID_HANDLE;
  forget(e);
  delete (Event*)e;
  return CUDA_SUCCESS;
}
API cuEventRecord(CUevent h, CUstream s) {
  COMMAND;
  if (!known(h, "event") || !valid(s)) return CUDA_ERROR_INVALID_HANDLE;
  auto e = (Event*)h;
  Stream* stream = of(s);
  if (stream->capture) {
    if (stream->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    e->capture = stream->capture;
    e->recorded = stream;
    e->unjoined = stream->unjoined;
    return CUDA_SUCCESS;
  }
  auto m = std::make_shared<Moment>();
  m->stream = stream;
  e->last = m;
  e->capture = nullptr;
  // Not an operation that a failure skips: waiting for it must end.
  Clock host = hostClock();
  stream->queue.push_back([=] {
    begin(&stream->clock, stream->id, host);
    m->done = true;
    m->time = std::chrono::steady_clock::now();
    m->clock = stream->clock;
  });
  if (settings.eager) runTo(stream);
  return status();
}
API cuStreamWaitEvent(CUstream s, CUevent h, unsigned) {
  COMMAND;
  if (!known(h, "event") || !valid(s)) return CUDA_ERROR_INVALID_HANDLE;
  auto e = (Event*)h;
  Stream* stream = of(s);
  if (e->capture) {
    bool open = std::find(captures.begin(), captures.end(), e->capture) != captures.end();
    if (!open || (stream->capture && stream->capture != e->capture)) return CUDA_ERROR_INVALID_VALUE;
    Capture* c = e->capture;
    if (stream == c->origin) {
      if (e->recorded->unjoined == e->unjoined) e->recorded->unjoined = 0;
    } else if (!stream->capture) {
      stream->capture = c;
      stream->unjoined = 1;
      c->streams.insert(stream);
    } else if (e->recorded != stream) {
      stream->unjoined++;
    }
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    if (!e->last) return CUDA_SUCCESS;
    stream->capture->broken = true;
    report("a captured stream waits for an event that was recorded outside of the capture");
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  auto m = e->last;
  if (!m) return CUDA_SUCCESS;
  return submit(s, {[=] {
                  runTo(m);
                  join(&stream->clock, m->clock);
                }, nullptr});
}
API cuEventQuery(CUevent h) {
  LOCK;
  if (!known(h, "event")) return CUDA_ERROR_INVALID_HANDLE;
  auto e = (Event*)h;
  if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (!e->last || e->last->done) return status();
  if (!e->last->stream->queue.empty()) runOne(e->last->stream);
  if (!e->last->done) return CUDA_ERROR_NOT_READY;
  hostWaited(&e->last->clock);
  return status();
}
API cuEventSynchronize(CUevent h) {
  LOCK;
  if (!known(h, "event")) return CUDA_ERROR_INVALID_HANDLE;
  auto e = (Event*)h;
  if (e->capture) return breakCapture("cuEventSynchronize"), CUDA_ERROR_CAPTURED_EVENT;
  counters.synchronizations++;
  if (e->last) {
    runTo(e->last);
    hostWaited(&e->last->clock);
  }
  return status();
}
API cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  LOCK;
  if (!known(from, "event") || !known(to, "event")) return CUDA_ERROR_INVALID_HANDLE;
  auto a = (Event*)from, b = (Event*)to;
  if (!a->timed || !b->timed || !a->last || !b->last || a->capture || b->capture) return CUDA_ERROR_INVALID_HANDLE;
  if (!a->last->done || !b->last->done) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(b->last->time - a->last->time).count();
  return status();
}

// --- libraries

// Memory that a library's work touches.
struct emu_range {
  CUdeviceptr at;
  size_t bytes;
  int written;
};
// Queues the work of a library that stands on the driver and whose kernels are not there: run(data), on the host, in its
// turn. It may run again, as a node of a graph; drop(data) follows when it can't any more.
API emu_library_work(CUstream h, const char* name, const emu_range* ranges, int n, void (*run)(void*), void* data, void (*drop)(void*)) {
  std::shared_ptr<void> held(data, drop);
  COMMAND;
  std::vector<emu_range> list(ranges, ranges + n);
  for (auto& r : list)
    if (!readable(r.at, r.bytes, name)) return CUDA_ERROR_INVALID_VALUE;
  counters.library_calls++;
  return submit(h, {[=] {
                  for (auto& r : list) touch(r.at, r.bytes, r.written);
                  run(held.get());
                }, nullptr});
}

// --- captures and graphs

API cuStreamBeginCapture_v2(CUstream h, CUstreamCaptureMode) {
  COMMAND;
  if (!h) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = of(h);
  if (s->capture) return CUDA_ERROR_INVALID_VALUE;
  if (status()) return status();
  counters.captures++;
  s->capture = new Capture{s, {}, {s}};
  s->unjoined = 0;
  captures.push_back(s->capture);
  return CUDA_SUCCESS;
}
API cuStreamEndCapture(CUstream h, CUgraph* g) {
  COMMAND;
  *g = nullptr;
  if (!h || !valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = of(h);
  if (!s->capture || s->capture->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  std::unique_ptr<Capture> c(s->capture);
  captures.erase(std::find(captures.begin(), captures.end(), c.get()));
  bool unjoined = false;
  for (Stream* member : c->streams) {
    unjoined |= member->unjoined > 0;
    member->capture = nullptr;
    member->unjoined = 0;
  }
  if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (unjoined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  counters.graph_nodes += c->operations.size();
  auto graph = new Graph{std::move(c->operations)};
  keep(graph, "graph");
  *g = (CUgraph)graph;
  return CUDA_SUCCESS;
}
API cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* is) {
  LOCK;
  if (!valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  Capture* c = of(h)->capture;
  *is = !c ? CU_STREAM_CAPTURE_STATUS_NONE : c->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec* x, CUgraph g, unsigned long long) {
  COMMAND;
  if (!known(g, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  if (status()) return status();
  auto executable = new Executable{std::make_shared<const std::vector<Operation>>(((Graph*)g)->operations)};
  keep(executable, "executable graph");
  *x = (CUgraphExec)executable;
  return CUDA_SUCCESS;
}
API cuGraphGetNodes(CUgraph g, CUgraphNode*, size_t* n) {
  LOCK;
  if (!known(g, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  *n = ((Graph*)g)->operations.size();
  return CUDA_SUCCESS;
}
API cuGraphLaunch(CUgraphExec x, CUstream h) {
  COMMAND;
  if (!known(x, "executable graph") || !valid(h)) return CUDA_ERROR_INVALID_HANDLE;
  if (of(h)->capture) return breakCapture("cuGraphLaunch"), CUDA_ERROR_NOT_SUPPORTED;
  counters.graph_launches++;
  auto operations = ((Executable*)x)->operations;
  return submit(h, {[=] {
                  for (auto& o : *operations)
                    if (!failure()) o.run();
                }, [=] {
                  for (auto& o : *operations)
                    if (o.enqueued) o.enqueued();
                }});
}
API cuGraphDestroy(CUgraph g) {
  LOCK;
  if (!known(g, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  forget(g);
  delete (Graph*)g;
  return CUDA_SUCCESS;
}
API cuGraphExecDestroy(CUgraphExec x) {
  LOCK;
  if (!known(x, "executable graph")) return CUDA_ERROR_INVALID_HANDLE;
  forget(x);
  delete (Executable*)x;
  return CUDA_SUCCESS;
}
