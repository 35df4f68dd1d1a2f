package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// A task is the work of one phase, cut into chunks that may run at the same
// time and in any order.
type task interface {
	run(chunk int, s *scratch)
}

// workers run the phases of a step: the caller and n-1 goroutines take chunks
// from one counter until none is left. A goroutine that the operating system
// has put aside delays the chunk it holds and nothing else; one that comes late
// to a phase finds nothing to do. Between phases the goroutines spin, because a
// phase follows the other within microseconds; after spinTime they park, so an
// idle engine uses no processor. See RATIONALE.md: why are the workers a word and a spin.
type workers struct {
	ops     *kernels.Ops
	scratch []scratch // one for each thread; the caller's is the first

	// The phase that runs. Written by the caller between phases; read by who
	// has claimed a chunk, which keeps the phase from ending.
	task   task
	chunks int

	// claims holds the number of the phase in its upper 32 bits and the number
	// of unclaimed chunks in the lower. The number keeps a late goroutine from
	// claiming a chunk of a phase that it has not seen.
	_       [64]byte // its own cache line: all threads write it
	claims  atomic.Uint64
	_       [64]byte
	pending atomic.Int64 // chunks that are not finished
	_       [64]byte

	phase  uint64       // owned by the caller
	parked atomic.Int32 // goroutines that wait for wake and are not yet woken
	wake   chan struct{}
	closed atomic.Bool
	done   sync.WaitGroup
}

// spinTime is how long a thread spins before it gives way to others. A gap
// between phases is below it, the gap between steps is often above.
const spinTime = 50 * time.Microsecond

// minChunk is the smallest work, in estimated nanoseconds, that is worth being
// a chunk: handing one over costs about a tenth of it.
const minChunk = 2500

func newWorkers(ops *kernels.Ops, threads int) *workers {
	w := &workers{ops: ops, scratch: make([]scratch, threads), wake: make(chan struct{}, threads)}
	for i := range w.scratch {
		w.scratch[i].thread = i
	}
	for i := 1; i < threads; i++ {
		w.done.Go(func() { w.serve(&w.scratch[i]) })
	}
	return w
}

// close ends the goroutines and returns when they have ended. Only the caller
// of run may call it, and once.
func (w *workers) close() {
	w.closed.Store(true)
	w.wakeParked()
	w.done.Wait()
}

// chunkSize says how many of the items belong in one chunk, given the estimated
// nanoseconds of an item: enough chunks for the threads to even out, none so
// small that sharing costs more than it brings.
func (w *workers) chunkSize(items int, cost float64) int {
	threads := len(w.scratch)
	if threads == 1 || float64(items)*cost < 2*minChunk {
		return max(items, 1)
	}
	const perThread = 6
	return max(items/(threads*perThread), int(minChunk/cost), 1)
}

// run does all chunks of a task and returns when they are done.
func (w *workers) run(t task, chunks int) {
	if len(w.scratch) == 1 || chunks == 1 {
		for chunk := range chunks {
			t.run(chunk, &w.scratch[0])
		}
		return
	}
	if chunks == 0 {
		return
	}
	w.task, w.chunks = t, chunks
	w.pending.Store(int64(chunks))
	w.phase++
	w.claims.Store(w.phase<<32 | uint64(chunks))
	w.wakeParked()
	for w.work(&w.scratch[0]) {
	}
	w.spinWhile(func() bool { return w.pending.Load() > 0 })
	for w.pending.Load() > 0 {
		runtime.Gosched()
	}
}

// work does one chunk, or reports that there is none.
func (w *workers) work(s *scratch) bool {
	for {
		claims := w.claims.Load()
		left := int(uint32(claims))
		if left == 0 {
			return false
		}
		if w.claims.CompareAndSwap(claims, claims-1) {
			w.task.run(w.chunks-left, s)
			w.pending.Add(-1)
			return true
		}
	}
}

// serve is the life of a goroutine.
func (w *workers) serve(s *scratch) {
	for !w.closed.Load() {
		if w.work(s) {
			continue
		}
		w.spinWhile(w.idle)
		for i := 0; i < 4 && w.idle(); i++ {
			runtime.Gosched()
		}
		if w.idle() {
			w.park()
		}
	}
}

// idle tells whether there is nothing to claim.
func (w *workers) idle() bool { return uint32(w.claims.Load()) == 0 && !w.closed.Load() }

// spinWhile returns when the condition is false or spinTime is over.
func (w *workers) spinWhile(condition func() bool) {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 32 {
			if !condition() {
				return
			}
			w.ops.Pause(1)
		}
	}
}

// park blocks until the next phase. The goroutine counts itself first and looks
// for work again after, the caller the other way round, so one of them sees
// the other.
func (w *workers) park() {
	w.parked.Add(1)
	if w.idle() || !w.unpark() {
		<-w.wake
	}
}

// unpark takes one goroutine out of the parked count, unless the caller has
// done so already and sends a wake for it.
func (w *workers) unpark() bool {
	for {
		n := w.parked.Load()
		if n == 0 {
			return false
		}
		if w.parked.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (w *workers) wakeParked() {
	if w.parked.Load() == 0 {
		return
	}
	for range w.parked.Swap(0) {
		w.wake <- struct{}{}
	}
}
