package cpu_test

import (
	"sync/atomic"
	"testing"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// TestShare: each part is done once, by a thread that does one at a time, and all
// are done when Share returns; nothing is allocated for it.
func TestShare(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		b := open(t, threads, kernels.Best())
		if got := b.Threads(); got != threads {
			t.Errorf("%d threads, want %d", got, threads)
		}
		for _, parts := range []int{0, 1, 2, 7, 100} {
			done := make([]atomic.Int32, parts)
			busy := make([]atomic.Int32, threads)
			do := func(part, thread int) {
				if busy[thread].Add(1) != 1 {
					t.Errorf("thread %d does two parts at once", thread)
				}
				done[part].Add(1)
				busy[thread].Add(-1)
			}
			if n := testing.AllocsPerRun(10, func() { b.Share(parts, do) }); n != 0 {
				t.Errorf("%d parts on %d threads: %v allocations, want 0", parts, threads, n)
			}
			for i := range done {
				if got := done[i].Load(); got != 11 { // AllocsPerRun begins with one more
					t.Errorf("%d parts on %d threads: part %d is done %d times in 11 runs", parts, threads, i, got)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
