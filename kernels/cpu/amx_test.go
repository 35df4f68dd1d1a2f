package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMatMulTokens expects the twin's bits of every number of tokens around those that levels take
// at a time, and of columns and tokens beyond what they take.
func TestMatMulTokens(t *testing.T) {
	r := random()
	var problems []*problem
	for _, f := range formats {
		for tokens := 1; tokens <= 50; tokens++ {
			for _, k := range []int{f.columns(), 288} {
				problems = append(problems, newProblem(t, f, r, 17, k, tokens))
			}
		}
		problems = append(problems, newProblem(t, f, r, 33, 33*32, 37), newProblem(t, f, r, 16, 33*32, 529))
	}
	eachLevel(t, func(t *testing.T, o *Ops) {
		for _, p := range problems {
			if err := sameBits(p.product(o), p.want); err != nil {
				t.Fatalf("%v: %v", p, err)
			}
		}
	})
}

// TestMatMulStorm multiplies on many threads while the collector stops them by signals: what a
// kernel keeps in its thread must survive.
func TestMatMulStorm(t *testing.T) {
	r := random()
	var problems []*problem
	for _, name := range []string{"Q4_1", "Q6_K", "Q8_0"} {
		problems = append(problems, newProblem(t, formatNamed(name), r, 64, 1024, 67))
	}
	eachLevel(t, func(t *testing.T, o *Ops) {
		if o.Level() == Generic {
			t.Skip("keeps nothing in its thread, and takes long")
		}
		var multiply, collect sync.WaitGroup
		var ended atomic.Bool
		faults := make(chan error, 8)
		for i := range cap(faults) {
			multiply.Go(func() {
				for j := range 50 {
					p := problems[(i+j)%len(problems)]
					if err := sameBits(p.product(o), p.want); err != nil {
						faults <- fmt.Errorf("%v: %w", p, err)
						return
					}
				}
			})
		}
		collect.Go(func() {
			for !ended.Load() {
				runtime.GC()
			}
		})
		multiply.Wait()
		ended.Store(true)
		collect.Wait()
		close(faults)
		for err := range faults {
			t.Error(err)
		}
	})
}
