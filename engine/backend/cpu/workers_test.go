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

// waitParked waits until all goroutines wait for a phase without spinning.
func waitParked(t *testing.T, w *workers) {
	t.Helper()
	for start := time.Now(); int(w.parked.Load()) != len(w.scratch)-1; {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%d of %d goroutines are parked after 20 s", w.parked.Load(), len(w.scratch)-1)
		}
		runtime.Gosched()
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
