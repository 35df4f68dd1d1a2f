package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

func testWorkers(t testing.TB, threads int) *workers {
	w := newWorkers(mustOps(t), threads)
	t.Cleanup(w.close)
	return w
}

// counting counts how often each chunk runs. The plain counters of a phase are
// read after it: the race detector finds a phase that ends too early.
type counting struct {
	runs []int
	all  atomic.Int64
}

func (c *counting) run(chunk int, _ *scratch) {
	c.runs[chunk]++
	c.all.Add(1)
}

func TestEachChunkRunsOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		w := testWorkers(t, threads)
		for phase := range 3000 {
			chunks := phase * 7 % 40
			c := &counting{runs: make([]int, chunks)}
			w.run(c, chunks)
			for chunk, n := range c.runs {
				if n != 1 {
					t.Fatalf("%d threads, phase %d: chunk %d of %d ran %d times", threads, phase, chunk, chunks, n)
				}
			}
			if phase%1000 == 999 {
				waitParked(t, w) // so that the next phase wakes them
			}
		}
	}
}

// waitParked waits until all goroutines sleep.
func waitParked(t *testing.T, w *workers) {
	t.Helper()
	for i := range w.beds[1:] {
		waitUntil(t, "a goroutine sleeps", w.beds[1+i].parked.Load)
	}
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("after 20 s it does not hold that %s", what)
		}
	}
}

// Every thread has a scratch of its own; two chunks never share one at a time.
type exclusive struct {
	t    *testing.T
	busy map[*scratch]*atomic.Bool
}

func (e *exclusive) run(_ int, s *scratch) {
	if !e.busy[s].CompareAndSwap(false, true) {
		e.t.Error("two chunks use one scratch at the same time")
	}
	runtime.Gosched()
	e.busy[s].Store(false)
}

func TestScratchIsExclusive(t *testing.T) {
	w := testWorkers(t, 4)
	e := &exclusive{t: t, busy: map[*scratch]*atomic.Bool{}}
	for i := range w.scratch {
		e.busy[&w.scratch[i]] = new(atomic.Bool)
	}
	for range 200 {
		w.run(e, 50)
	}
}

// meeting is a phase of two chunks that two threads do: the caller's waits for the
// other's to be claimed, and that one until the clock shows a time.
type meeting struct {
	clock   *atomic.Int64
	until   int64
	claimed atomic.Bool
}

func (m *meeting) run(_ int, s *scratch) {
	if s.thread == 0 {
		for !m.claimed.Load() {
			runtime.Gosched()
		}
		return
	}
	m.claimed.Store(true)
	for m.clock.Load() < m.until {
		runtime.Gosched()
	}
}

// threadsOf notes who did the chunks.
type threadsOf struct{ chunks [20]int }

func (t *threadsOf) run(chunk int, s *scratch) { t.chunks[chunk] = s.thread }

// A worker that was put aside in the middle of a chunk is not counted on for a
// while, sleeps, and comes back.
func TestWorkersStepBack(t *testing.T) {
	var clock atomic.Int64 // a reading takes a microsecond
	now := func() time.Duration { return time.Duration(clock.Add(int64(time.Microsecond))) }
	w := newWorkersBy(now, mustOps(t), 2)
	w.crew.threadTime = unknownThread
	t.Cleanup(w.close)

	w.run(&meeting{clock: &clock, until: clock.Load() + int64(5*time.Millisecond)}, 2)
	if w.crew.size != 1 {
		t.Fatalf("after 5 ms of waiting for a chunk the crew has %d threads, want 1", w.crew.size)
	}
	for w.now() < w.crew.until-time.Millisecond {
		var by threadsOf
		w.run(&by, len(by.chunks))
		if by != (threadsOf{}) {
			t.Fatalf("chunks are done by threads %v, want the caller alone", by.chunks)
		}
	}
	waitParked(t, w)
	clock.Add(int64(2 * time.Millisecond))
	w.run(&meeting{clock: &clock}, 2) // or it would not end
	if w.crew.size != 2 {
		t.Errorf("after the pause the crew has %d threads, want 2", w.crew.size)
	}
}

func TestClosedWorkersEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		w := newWorkers(mustOps(t), 4)
		w.run(&counting{runs: make([]int, 8)}, 8)
		w.close()
	}
	// close returns when the goroutines have said that they are done, a moment before
	// they are gone.
	for start := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%d goroutines before, %d after all workers were closed", before, runtime.NumGoroutine())
		}
	}
}

func TestChunkSize(t *testing.T) {
	one, two := testWorkers(t, 1), testWorkers(t, 2)
	for _, c := range []struct {
		name      string
		w         *workers
		items     int
		cost      float64
		low, high int
	}{
		{"one thread", one, 1000, 1e6, 1000, 1000},
		{"too little work", two, 100, 1, 100, 100},
		{"no items", two, 0, 1, 1, 1},
		{"small items are put together", two, 100000, 1, minChunk, 10000},
		{"large items stand alone", two, 8, 1e5, 1, 1},
	} {
		if got := c.w.chunkSize(c.items, c.cost); got < c.low || got > c.high {
			t.Errorf("%s: chunks of %d of %d items, want %d to %d", c.name, got, c.items, c.low, c.high)
		}
	}
}

func mustOps(t testing.TB) *kernels.Ops {
	ops, err := kernels.Select(kernels.Best())
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// BenchmarkPhase measures an empty phase: what a barrier costs.
func BenchmarkPhase(b *testing.B) {
	w := testWorkers(b, 2)
	c := &counting{runs: make([]int, 8)}
	b.ReportAllocs()
	for b.Loop() {
		w.run(c, 8)
	}
}
