package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/kvcache"
)

// TestSchedulerNeverStarves runs random sequences in a pool that is too small
// for them, and holds the promises of the order: the one with the right of way
// always computes, each that runs has a row, nobody who came later is ahead, and
// all end.
func TestSchedulerNeverStarves(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		size := 1 << rng.IntN(4)
		longest := 1 + rng.IntN(60)
		blocks := (longest+size-1)/size + rng.IntN(6)
		pool, err := kvcache.NewPool(blocks, size)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			pool.CachePrefixes(blocks)
		}
		s := scheduler{pool: pool, budget: 8 + rng.IntN(24), maxSeqs: 1 + rng.IntN(8)}
		var open []*sequence
		waiting := 40
		for step := 0; waiting > 0 || len(open) > 0; step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: %d sequences have not ended", seed, len(open))
			}
			for waiting > 0 && rng.IntN(3) == 0 {
				n := 1 + rng.IntN(longest)
				q := &sequence{tokens: make([]int32, n, longest+1), prompt: n, limit: longest, priority: rng.IntN(3), arrival: uint64(100 - waiting)}
				q.tokens[n-1] = int32(rng.IntN(2))
				s.waiting.add(q)
				open = append(open, q)
				waiting--
			}
			checkStep(t, seed, step, &s)
			open = slices.DeleteFunc(open, func(q *sequence) bool {
				// It ends when it has computed as much as it may, or at random.
				if q.computed < q.limit && rng.IntN(200) > 0 {
					return false
				}
				s.remove(q)
				return true
			})
		}
		if got := pool.NumFree(); got != blocks {
			t.Errorf("seed %d: %d of %d blocks are free at the end", seed, got, blocks)
		}
	}
}

// checkStep schedules and computes a step.
func checkStep(t *testing.T, seed uint64, step int, s *scheduler) {
	t.Helper()
	preempted := 0
	plan := s.schedule(func(*sequence) { preempted++ }, func(*sequence) {})
	rows, planned := 0, map[*sequence]bool{}
	for _, w := range plan {
		if w.rows < 1 || w.rows > w.seq.pending() || planned[w.seq] || w.seq.queued {
			t.Fatalf("seed %d, step %d: %d rows of a sequence with %d pending, planned before: %v, waiting: %v", seed, step, w.rows, w.seq.pending(), planned[w.seq], w.seq.queued)
		}
		planned[w.seq] = true
		rows += w.rows
	}
	if rows > s.budget {
		t.Fatalf("seed %d, step %d: %d rows with a budget of %d", seed, step, rows, s.budget)
	}
	tables := []*kvcache.Table{}
	for i, q := range s.running {
		if !planned[q] {
			t.Fatalf("seed %d, step %d: sequence %d of %d that run has no row", seed, step, i, len(s.running))
		}
		if i > 0 && !s.running[i-1].before(q) {
			t.Fatalf("seed %d, step %d: sequence %d that runs is not behind the one before it", seed, step, i)
		}
		tables = append(tables, &q.table)
	}
	for q := s.waiting.first; q != nil && q.next != nil; q = q.next {
		if !q.before(q.next) {
			t.Fatalf("seed %d, step %d: the queue is not in order", seed, step)
		}
	}
	if first := s.waiting.first; first != nil && rows < s.budget && preempted == 0 && s.fits(first) {
		t.Fatalf("seed %d, step %d: there are rows and room for the first that waits", seed, step)
	}
	if s.waiting.first != nil && len(s.running) == 0 && preempted == 0 {
		t.Fatalf("seed %d, step %d: nobody runs and somebody waits", seed, step)
	}
	if err := s.pool.Check(tables...); err != nil {
		t.Fatalf("seed %d, step %d: %v", seed, step, err)
	}
	for _, w := range plan {
		if w.seq.computed += w.rows; w.seq.pending() == 0 && len(w.seq.tokens) < w.seq.limit {
			w.seq.tokens = append(w.seq.tokens, 1)
		}
	}
}

// TestPriorityPolicy: where the policy is priority, the lower one runs first and
// takes the place of one that runs; otherwise it is the order of arrival.
func TestPriorityPolicy(t *testing.T) {
	for _, c := range []struct {
		policy string
		want   []int // the order in which the requests end
	}{
		{PolicyFCFS, []int{0, 1, 2, 3}},
		{PolicyPriority, []int{3, 1, 0, 2}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			m := newToy()
			m.gate = make(chan struct{})
			var ended []int
			requests := map[*Request]int{}
			e := newEngine(t, m, func(o *Options) {
				o.MaxNumSeqs, o.SchedulingPolicy = 1, c.policy
				o.Listener.Finish = func(r *Request, _ FinishReason, _ *Life) { ended = append(ended, requests[r]) }
			})
			var streams []*Stream
			for i, priority := range []int{5, -3, 5, -4} {
				r := ask("a")
				r.MaxTokens, r.Priority = 4, priority
				requests[r] = i
				streams = append(streams, submit(t, e, r))
				if i == 0 {
					m.gate <- struct{}{} // it runs before the others come
				}
			}
			close(m.gate)
			for i, s := range streams {
				a := collect(t, s)[0]
				if a.text != "bcde" {
					t.Errorf("request %d says %q, want bcde", i, a.text)
				}
			}
			e.Close()
			if !slices.Equal(ended, c.want) {
				t.Errorf("requests end in the order %v, want %v", ended, c.want)
			}
		})
	}
}

// TestDeadline: a request ends at its deadline whether it waits or runs, in the
// step after it, and others go on.
func TestDeadline(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) { o.MaxNumSeqs = 2 })
	submitWith := func(deadline time.Duration) *Stream {
		r := ask("a")
		r.IgnoreEOS, r.Deadline, r.MaxTokens = true, deadline, 20
		return submit(t, e, r)
	}
	past := e.Now() // any later reading is behind it
	soon, never := e.Now()+8*time.Millisecond, e.Now()+time.Hour
	late, runs, waits, goesOn := submitWith(past), submitWith(soon), submitWith(soon+time.Millisecond), submitWith(never)
	close(m.gate)
	for _, c := range []struct {
		name        string
		stream      *Stream
		expired     bool
		least, most int // tokens
	}{
		{"late from the beginning", late, true, 0, 1}, // the first step may have begun
		{"while it runs", runs, true, 0, 8},
		{"while it waits or runs", waits, true, 0, 8},
		{"not at all", goesOn, false, 20, 20},
	} {
		a := collect(t, c.stream)[0]
		if expired := errors.Is(a.last.Err, ErrDeadline); expired != c.expired || (a.last.Finish == Abort) != c.expired {
			t.Errorf("%s: ends with %v, %v; want its deadline: %v", c.name, a.last.Finish, a.last.Err, c.expired)
		}
		if n := len(a.tokens); n < c.least || n > c.most {
			t.Errorf("%s: %d tokens, want %d … %d", c.name, n, c.least, c.most)
		}
	}
}
