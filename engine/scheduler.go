package engine

import (
	"slices"

	"github.com/wasmeter/wasmeter/engine/kvcache"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// scheduler decides what each step computes. There are no prefill and decode
// phases: a sequence has computed and known tokens, and each step's budget of
// rows is spent on letting the first catch up with the second. Chunked prefill,
// decoding and the return from preemption are all this one rule.
//
// One order decides who comes first, sequence.before: who is admitted next, who
// has the first rows of a step, and, from the other end, who gives way. What was
// preempted keeps its rank, so that it is the next to return and those that came
// after it give way before it does.
//
// It is pure bookkeeping over integers and is owned by the loop.
type scheduler struct {
	pool *kvcache.Pool
	// budget is the number of rows of a step, maxSeqs the number of sequences
	// that may run at once.
	budget, maxSeqs int
	pace            pace
	// Both are in the order of sequence.before.
	waiting queue
	running []*sequence
	plan    []work
	refused refusal
}

// refusal is why a sequence did not fit: it need not be asked again, which takes
// a search for its whole prompt, before others have given something back.
type refusal struct {
	seq           *sequence
	free, running int
}

// work is one sequence's share of a step: its next rows tokens, and behind them
// drafts, which speculation adds.
type work struct {
	seq          *sequence
	rows, drafts int
	// from and highest are the sequence's computed and highest before the step; last
	// says that all its known tokens are computed then, and one is drawn.
	from, highest int
	last          bool
	// tokens came of it.
	tokens []sample.Token
}

// all is the number of rows, drafts among them.
func (w *work) all() int { return w.rows + w.drafts }

// schedule plans a step that starts at now. The plan is valid until the next
// call. preempted is called for each sequence that loses its blocks, admitted
// for each that begins to run.
func (s *scheduler) schedule(preempted, admitted func(*sequence)) []work {
	s.plan = s.plan[:0]
	for s.displaces() {
		preempted(s.preempt())
	}
	budget := s.pace.bound(s.budget, s.decoding())
	short := false
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		rows := q.rows(s.share(budget, i))
		if rows == 0 {
			continue // its last token is being drawn
		}
		for !q.table.Grow(s.pool, q.computed+rows) {
			// The last gives way. It has no place in the plan yet, since the plan
			// is in running order.
			short = true
			last := s.preempt()
			preempted(last)
			if last == q {
				return s.plan
			}
		}
		budget -= s.add(q, rows)
	}
	for !short && budget > 0 && s.waiting.first != nil {
		q := s.waiting.first
		if !s.fits(q) {
			break
		}
		s.admit(q)
		admitted(q)
		budget -= s.add(q, q.rows(budget))
	}
	return s.plan
}

// decoding is the number of sequences whose reader waits for another token.
func (s *scheduler) decoding() int {
	n := 0
	for _, q := range s.running {
		if q.length() > q.prompt {
			n++
		}
	}
	return n
}

// share is the part of the budget that the i-th running sequence may take: it
// leaves a row to each behind it.
func (s *scheduler) share(budget, i int) int {
	return max(budget-(len(s.running)-1-i), 1)
}

// displaces tells whether the last that runs must give way to a sequence of a
// lower priority, for which there is no room. Of equals, nobody gives way to who
// waits.
func (s *scheduler) displaces() bool {
	q := s.waiting.first
	if q == nil || len(s.running) == 0 || s.running[len(s.running)-1].priority <= q.priority {
		return false
	}
	if !s.fits(q) {
		return true
	}
	s.release(q)
	return false
}

// fits tells whether q may run: whether there is room for all of its known
// tokens beside what the prefix cache holds of them, and a block for each that
// runs, so that the next to need one need not be preempted for it. Then q holds
// its blocks.
func (s *scheduler) fits(q *sequence) bool {
	if r := &s.refused; len(s.running) >= s.maxSeqs || q == r.seq && s.pool.NumFree() <= r.free && len(s.running) >= r.running {
		return false
	}
	s.refused.seq = nil
	if q.shares() {
		q.computed = q.table.Adopt(s.pool, q.root, q.tokens)
	}
	missing := q.table.Need(len(q.tokens), s.pool.BlockSize())
	if missing+len(s.running) <= s.pool.NumFree() && q.table.Grow(s.pool, len(q.tokens)) {
		return true
	}
	s.release(q)
	s.refused = refusal{q, s.pool.NumFree(), len(s.running)}
	return false
}

// admit moves q, which holds its blocks, from those that wait to those that run.
func (s *scheduler) admit(q *sequence) {
	s.waiting.remove(q)
	s.running = append(s.running, q)
	for i := len(s.running) - 1; i > 0 && q.before(s.running[i-1]); i-- {
		s.running[i-1], s.running[i] = q, s.running[i-1]
	}
}

// add puts rows of q into the plan, and returns their number. The blocks that
// they fill can be found from here on: a step stores all keys and values of a
// layer before it reads any, so that a sequence admitted to the same step may
// share them.
func (s *scheduler) add(q *sequence, rows int) int {
	s.plan = append(s.plan, work{seq: q, rows: rows, from: q.computed, highest: q.highest, last: rows == q.pending()})
	if q.shares() {
		q.table.Publish(s.pool, q.tokens[:min(q.computed+rows, len(q.tokens))])
	}
	return rows
}

// idle tells that there is nothing to compute.
func (s *scheduler) idle() bool { return len(s.running) == 0 && s.waiting.len == 0 }

// preempt takes the last running sequence's blocks and lets it wait; it computes
// again what the prefix cache has lost when it returns.
func (s *scheduler) preempt() *sequence {
	q := s.running[len(s.running)-1]
	s.suspend(q)
	return q
}

// suspend takes a running sequence's blocks and lets it wait.
func (s *scheduler) suspend(q *sequence) {
	i := slices.Index(s.running, q)
	s.running = slices.Delete(s.running, i, i+1)
	q.highest = max(q.highest, q.computed)
	s.release(q)
	s.waiting.add(q)
}

// gives tells whether the next step may take a sequence's blocks from it. It may say so
// of one that will not.
func (s *scheduler) gives() bool {
	if n := len(s.running); n > 0 && s.waiting.first != nil && s.running[n-1].priority > s.waiting.first.priority {
		return true
	}
	return s.pool.NumFree() < len(s.running) // each may need a block for its next token
}

// release gives q's blocks back.
func (s *scheduler) release(q *sequence) {
	q.table.Release(s.pool)
	q.computed = 0
}

// remove forgets q, wherever it is, and gives its blocks back, unless a step under way
// writes to them.
func (s *scheduler) remove(q *sequence) {
	if s.waiting.has(q) {
		s.waiting.remove(q)
		return
	}
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
	}
	if q.flying == 0 {
		q.table.Release(s.pool)
	}
}
