package engine

import "time"

// flight is one step from its plan to its results.
//
// Where the device draws, the loop plans and queues the step behind the one that the
// device computes: a sequence's next row is that of a token that is being drawn, which
// the batch names by its place in the step before. It is enough to know that there will
// be a token, and not which. What comes to its end meanwhile, by a stop token or because
// its reader has left, has a row of the next step that nobody needs: its blocks are held
// until that step is done, for it writes to them, and then its row is thrown away.
type flight struct {
	plan        []work // the flight's own copy; at the end, of the sequences that have not ended
	rows        int    // of the batch
	preemptions int
	queued      bool  // on the device, which draws
	foreseen    bool  // it was planned before the step before was done
	err         error // the device has refused it
	// start is when it was planned, or the end of the step before if that was later,
	// and took what is between it and end.
	start, end, took time.Duration
}

// step completes one step: the one under way, or else one that it plans. While the device
// computes it, the next is begun, if it can be foreseen.
func (l *loop) step() {
	f := l.ahead
	l.ahead = nil
	if f == nil {
		start := l.options.Now()
		if l.lost != nil { // what was submitted before it was known
			l.failAll(start)
			return
		}
		l.expire(start)
		if f = l.begin(start); f == nil {
			return // the one sequence gave its blocks back, and begins again
		}
	}
	if f.queued && l.foreseeable() {
		if l.ahead = l.begin(l.options.Now()); l.ahead != nil {
			l.ahead.foreseen = true
		}
	}
	l.complete(f)
}

// foreseeable tells whether the step behind the one that the device computes can be
// planned without its results. The host has no part in drawing a token of it: penalties
// and bans depend on what came before, and a prompt is scored here. The plan is the one
// that would come of waiting, but for rows that nobody needs: no sequence may have to
// give way, nor one wait for the place of another that is about to reach its limit.
func (l *loop) foreseeable() bool {
	s := &l.scheduler
	if l.speculation != nil || s.maxSeqs > l.drawing.deviceRows || s.gives() {
		return false
	}
	for _, q := range s.running {
		if !l.drawing.foresees(q) || s.waiting.first != nil && q.length() >= q.limit {
			return false
		}
	}
	n := len(s.running) // those that may be admitted
	for q := s.waiting.first; q != nil && n < s.maxSeqs; q = q.next {
		if !l.drawing.foresees(q) {
			return false
		}
		n++
	}
	return true
}

// foresees tells whether the device can draw q's next token without the host.
func (d *drawing) foresees(q *sequence) bool {
	r := q.stream.req
	return q.scored == nil && !q.sampler.Penalizes() && r.Sampling.Logprobs <= d.deviceLogprobs && q.length()-q.prompt >= r.MinTokens
}

// begin plans a step, and queues it if the device draws its tokens. It returns nil if
// there is nothing to compute.
func (l *loop) begin(start time.Duration) *flight {
	f := &l.flights[l.turn]
	*f = flight{plan: f.plan[:0], start: start}
	f.plan = append(f.plan, l.schedule(f)...)
	if len(f.plan) == 0 {
		return nil
	}
	l.turn = 1 - l.turn
	if l.speculation != nil {
		l.speculation.add(l, f.plan)
	}
	fill(&l.batch, f.plan)
	f.rows = l.batch.Rows()
	if l.drawing.describe(f.plan, &l.batch) {
		f.err = l.drawing.device.Queue(&l.batch)
		f.queued = f.err == nil
	}
	l.takeOff(f)
	return f
}

// schedule asks for a plan, and says what becomes of sequences in it.
func (l *loop) schedule(f *flight) []work {
	return l.scheduler.schedule(func(q *sequence) {
		f.preemptions++
		l.preempted(q, f.start)
	}, func(q *sequence) {
		if q.life.Scheduled != 0 {
			q.event(&l.options.Listener, Event{Kind: Resumed, Time: f.start, Tokens: q.pending()})
			return
		}
		q.life.Scheduled, q.life.CachedTokens = f.start, q.computed
		l.engine.leftQueue(q.prompt)
		q.event(&l.options.Listener, Event{Kind: Scheduled, Time: f.start, Tokens: q.pending()})
	})
}

// preempted says that q has lost its blocks.
func (l *loop) preempted(q *sequence, now time.Duration) {
	q.life.Preemptions++
	l.forgetDrafts(q)
	q.event(&l.options.Listener, Event{Kind: Preempted, Time: now})
}

// takeOff enters what a step will have done into its sequences.
func (l *loop) takeOff(f *flight) {
	drawn := 0
	for i := range f.plan {
		w := &f.plan[i]
		q := w.seq
		q.flying++
		q.computed += w.rows
		if w.last {
			q.drawing++
			q.drawnAt = drawn
			drawn++
		}
	}
}

// complete waits for a step, or computes it if it is not on the device, and enters its
// results.
func (l *loop) complete(f *flight) {
	err := f.err
	switch {
	case err != nil:
	case f.queued:
		err = l.drawing.wait(f.plan)
	default:
		err = l.drawing.compute(f.plan, &l.batch)
	}
	f.end = l.options.Now()
	f.start = max(f.start, l.landed)
	f.took, l.landed = f.end-f.start, f.end
	l.land(f, err != nil)
	l.attribute(f.plan, l.took(f.took))
	l.scheduler.pace.observe(f.rows, f.took)
	step := Step{Start: f.start, End: f.end, Rows: f.rows, Preemptions: f.preemptions}
	if err != nil {
		l.fail(f, err)
		l.observe(step)
		return
	}
	step.Prompt, step.Sampled = l.advance(f)
	for _, s := range l.slow {
		l.abort(s, ErrSlowReader)
	}
	l.slow = l.slow[:0]
	if l.ahead != nil {
		l.expire(f.end) // the next step has begun, and will not do so
	}
	l.observe(step)
}

// land takes what has ended meanwhile out of the plan, and gives its blocks back. What
// the blocks of a failed step hold is not to be trusted.
func (l *loop) land(f *flight, failed bool) {
	pool, flying := l.scheduler.pool, f.plan[:0]
	for _, w := range f.plan {
		q := w.seq
		q.flying--
		if failed {
			q.table.Forget(pool)
		}
		switch {
		case !q.ended():
			flying = append(flying, w)
		case q.flying == 0:
			q.table.Release(pool)
		}
	}
	clear(f.plan[len(flying):])
	f.plan = flying
}

// cancel throws away the step that was begun behind one that failed: it has been
// computed from what that left. Its sequences, which are not the failed one's, begin
// again.
func (l *loop) cancel(now time.Duration) {
	f := l.ahead
	if f == nil {
		return
	}
	l.ahead = nil
	if f.queued {
		_, _ = l.drawing.device.Wait() // its error is that of the step before, or of nobody
		l.took(0)                      // nobody pays for it
	}
	l.land(f, true)
	for _, w := range f.plan {
		q := w.seq
		q.computed, q.drawing = w.from, 0
		l.scheduler.suspend(q)
		l.preempted(q, now)
	}
}
