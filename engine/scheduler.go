package engine

import (
	"slices"

	"github.com/wasmeter/wasmeter/engine/kvcache"
)

// scheduler decides what each step computes. There are no prefill and decode
// phases: a sequence has computed and known tokens, and each step's budget of
// rows is spent on letting the first catch up with the second, oldest sequence
// first. Chunked prefill, decoding and the return from preemption are all this
// one rule.
//
// It is pure bookkeeping over integers and is owned by the loop.
type scheduler struct {
	pool *kvcache.Pool
	// budget is the number of rows of a step, maxSeqs the number of sequences
	// that may run at once.
	budget, maxSeqs int
	// waiting is in order of arrival, preempted sequences first; running is in
	// the order in which they were admitted.
	waiting queue
	running []*sequence
	plan    []work
}

// work is one sequence's share of a step: its next rows tokens.
type work struct {
	seq  *sequence
	rows int
}

// schedule plans a step that starts at now. The plan is valid until the next
// call. preempted is called for each sequence that loses its blocks, admitted
// for each that begins to run.
func (s *scheduler) schedule(preempted, admitted func(*sequence)) []work {
	s.plan = s.plan[:0]
	budget := s.budget
	short := false
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		rows := q.rows(budget)
		for !q.table.Grow(s.pool, q.computed+rows) {
			// The newest gives way: it has waited least and lost least. It has
			// no place in the plan yet, since the plan is in running order.
			short = true
			last := s.running[len(s.running)-1]
			s.preempt(last)
			preempted(last)
			if last == q {
				return s.plan
			}
		}
		budget -= s.add(q, rows)
	}
	for !short && budget > 0 && len(s.running) < s.maxSeqs && s.waiting.first != nil {
		q := s.waiting.first
		if !s.admit(q) {
			break
		}
		admitted(q)
		budget -= s.add(q, q.rows(budget))
	}
	return s.plan
}

// admit lets q run if there is room for all of its known tokens beside what the
// prefix cache holds of them.
func (s *scheduler) admit(q *sequence) bool {
	if q.shares() {
		q.computed = q.table.Adopt(s.pool, q.root, q.tokens)
	}
	if !q.table.Grow(s.pool, len(q.tokens)) {
		q.table.Release(s.pool)
		q.computed = 0
		return false
	}
	s.waiting.remove(q)
	s.running = append(s.running, q)
	return true
}

// add puts rows of q into the plan, and returns their number. The blocks that
// they fill can be found from here on: a step stores all keys and values of a
// layer before it reads any, so that a sequence admitted to the same step may
// share them.
func (s *scheduler) add(q *sequence, rows int) int {
	s.plan = append(s.plan, work{q, rows})
	if q.shares() {
		q.table.Publish(s.pool, q.tokens[:q.computed+rows])
	}
	return rows
}

// idle tells that there is nothing to compute.
func (s *scheduler) idle() bool { return len(s.running) == 0 && s.waiting.len == 0 }

// preempt takes the newest running sequence's blocks and puts it at the head of
// the queue; it computes again what the prefix cache has lost when it returns.
func (s *scheduler) preempt(q *sequence) {
	q.table.Release(s.pool)
	q.highest = max(q.highest, q.computed)
	q.computed = 0
	s.running = s.running[:len(s.running)-1]
	s.waiting.addFirst(q)
}

// remove forgets q, wherever it is, and gives its blocks back.
func (s *scheduler) remove(q *sequence) {
	if s.waiting.has(q) {
		s.waiting.remove(q)
		return
	}
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
	}
	q.table.Release(s.pool)
}
