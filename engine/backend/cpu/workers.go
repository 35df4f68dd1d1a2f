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
// idle engine uses no processor. The crew says how many of them take part. See
// RATIONALE.md: why are the workers a word and a spin, why do threads step back.
type workers struct {
	ops     *kernels.Ops
	scratch []scratch            // one for each thread; the caller's is the first
	now     func() time.Duration // a monotonic clock
	crew    crew                 // owned by the caller

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
	size   atomic.Int32 // the crew's: threads from it on stay away
	beds   []bed        // one for each thread; the caller's is not used
	closed atomic.Bool
	done   sync.WaitGroup
}

// bed is where a goroutine sleeps.
type bed struct {
	// parked: it waits for wake, or is about to, and nobody wakes it yet.
	parked atomic.Bool
	wake   chan struct{} // of one place
	_      [64]byte      // no cache line in common with the next
}

// spinTime is how long a thread spins before it gives way to others. A gap
// between phases is below it, the gap between steps is often above.
const spinTime = 50 * time.Microsecond

// minChunk is the smallest work, in estimated nanoseconds, that is worth being
// a chunk: handing one over costs about a tenth of it.
const minChunk = 1250

func newWorkers(ops *kernels.Ops, threads int) *workers {
	start := time.Now()
	return newWorkersBy(func() time.Duration { return time.Since(start) }, ops, threads)
}

// newWorkersBy takes the clock.
func newWorkersBy(now func() time.Duration, ops *kernels.Ops, threads int) *workers {
	w := &workers{
		ops:     ops,
		scratch: make([]scratch, threads),
		beds:    make([]bed, threads),
		crew:    newCrew(threads),
		now:     now,
	}
	w.size.Store(int32(threads))
	for i := range w.scratch {
		w.scratch[i].thread = i
		w.beds[i].wake = make(chan struct{}, 1)
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
	w.wake(len(w.beds))
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
	if len(w.scratch) == 1 || chunks <= 1 {
		w.alone(t, chunks)
		return
	}
	start := w.now()
	w.crew.begin(start)
	w.size.Store(int32(w.crew.size))
	if w.crew.size == 1 {
		w.alone(t, chunks)
		return
	}
	w.task, w.chunks = t, chunks
	w.pending.Store(int64(chunks))
	w.phase++
	w.claims.Store(w.phase<<32 | uint64(chunks))
	w.wake(w.crew.size)
	for w.work(&w.scratch[0]) {
	}
	done := w.now()
	waited := w.wait(done)
	w.crew.end(w.now(), done-start, waited)
}

// alone does all chunks in the caller.
func (w *workers) alone(t task, chunks int) {
	for chunk := range chunks {
		t.run(chunk, &w.scratch[0])
	}
}

// wait returns when all claimed chunks are done, with the time that this took. An
// interval that is too long for a spin was the caller's own, in which it was put
// aside itself or another goroutine ran.
func (w *workers) wait(start time.Duration) (waited time.Duration) {
	for last := start; ; {
		for range 32 {
			if w.pending.Load() == 0 {
				return waited
			}
			w.ops.Pause(1)
		}
		now := w.now()
		if now-last < spinTime {
			waited += now - last
		}
		last = now
		if now-start > spinTime {
			runtime.Gosched()
		}
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
		switch {
		case w.away(s):
			w.park(s)
		case w.work(s):
		default:
			w.spinWhileIdle(s)
			for i := 0; i < 4 && w.idle(s); i++ {
				runtime.Gosched()
			}
			if w.idle(s) {
				w.park(s)
			}
		}
	}
}

// away tells that a thread does not take part.
func (w *workers) away(s *scratch) bool { return s.thread >= int(w.size.Load()) }

// idle tells whether there is nothing for a thread to claim.
func (w *workers) idle(s *scratch) bool {
	return (uint32(w.claims.Load()) == 0 || w.away(s)) && !w.closed.Load()
}

// spinWhileIdle returns when there is something to claim or spinTime is over.
func (w *workers) spinWhileIdle(s *scratch) {
	for start := w.now(); w.now()-start < spinTime; {
		for range 32 {
			if !w.idle(s) {
				return
			}
			w.ops.Pause(1)
		}
	}
}

// park blocks until a phase that the thread takes part in. The goroutine says
// that it sleeps and looks for work again after, the caller the other way round,
// so one of them sees the other.
func (w *workers) park(s *scratch) {
	b := &w.beds[s.thread]
	b.parked.Store(true)
	if w.idle(s) || !b.parked.CompareAndSwap(true, false) {
		<-b.wake
	}
}

// wake wakes those of the first n threads that sleep.
func (w *workers) wake(n int) {
	for i := 1; i < n; i++ {
		if b := &w.beds[i]; b.parked.Load() && b.parked.CompareAndSwap(true, false) {
			b.wake <- struct{}{}
		}
	}
}
