package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
)

// loop is the one goroutine that owns scheduler, sequences, blocks, drawing and
// model. It never waits for a reader.
type loop struct {
	engine    *Engine
	options   *Options // the engine's
	scheduler scheduler
	// speculation is nil where nothing is guessed.
	speculation *speculation
	drawing     *drawing
	// streams holds the sequences that have not ended, by stream; a choice that
	// has ended is nil.
	streams map[*Stream][]*sequence
	// arrivals counts the sequences that have come.
	arrivals uint64
	// timers are the models' clocks; deviceTime is their sum after the last step.
	timers     []model.Timer
	deviceTime time.Duration
	// flights take turns; ahead is the one that is under way while step is not, nil
	// if there is none. landed is when the step before was done.
	flights [2]flight
	turn    int
	ahead   *flight
	landed  time.Duration
	// lost is why the device computes no more, nil while it does.
	lost error
	// deadline is not later than the first one of a stream; 0 if none has any.
	deadline time.Duration

	// The rest is storage reused from step to step.
	inbox []command
	batch backend.Batch
	text  []byte
	slow  []*Stream // to be aborted after the step
}

// run steps until the engine is closed.
func (l *loop) run() {
	for l.drain() {
		l.step()
	}
	for s := range l.streams {
		l.abort(s, nil)
	}
	if l.ahead != nil {
		now := l.options.Now()
		l.cancel(now)
		l.observe(Step{Start: now, End: now})
	}
}

// drain takes what handlers have asked, waiting while there is nothing to
// compute. It returns false when the engine is closed.
func (l *loop) drain() bool {
	for {
		select {
		case <-l.engine.stop:
			l.receive() // what was submitted before Close ends with it
			return false
		default:
		}
		l.receive()
		if !l.scheduler.idle() || l.ahead != nil {
			return true
		}
		select {
		case <-l.engine.wake:
		case <-l.engine.stop:
		}
	}
}

// receive carries out the inbox's commands.
func (l *loop) receive() {
	e := l.engine
	e.mu.Lock()
	l.inbox, e.inbox = e.inbox, l.inbox[:0]
	e.mu.Unlock()
	for _, c := range l.inbox {
		if c.abort {
			l.abort(c.stream, nil)
		} else {
			l.admit(c.stream, c.queued)
		}
	}
	clear(l.inbox)
}

// admit puts a request's sequences into the waiting queue.
func (l *loop) admit(s *Stream, queued time.Duration) {
	seqs := make([]*sequence, s.open)
	if d := s.req.Deadline; d > 0 && (l.deadline == 0 || d < l.deadline) {
		l.deadline = d
	}
	for i := range seqs {
		seqs[i] = newSequence(s, i, queued, l.engine)
		if l.options.SchedulingPolicy == PolicyPriority {
			seqs[i].priority = s.req.Priority
		}
		l.arrivals++
		seqs[i].arrival = l.arrivals
		l.scheduler.waiting.add(seqs[i])
		seqs[i].event(&l.options.Listener, Event{Kind: Queued, Time: queued})
	}
	l.streams[s] = seqs
}

// expire aborts the requests whose deadline has passed.
func (l *loop) expire(now time.Duration) {
	if l.deadline == 0 || now < l.deadline {
		return
	}
	l.deadline = 0
	for s := range l.streams {
		switch d := s.req.Deadline; {
		case d == 0:
		case d <= now:
			l.abort(s, ErrDeadline)
		case l.deadline == 0 || d < l.deadline:
			l.deadline = d
		}
	}
}

// abort ends what still runs of a stream. err is ErrSlowReader or ErrDeadline, or
// nil where the reader asked for it.
func (l *loop) abort(s *Stream, err error) {
	now := l.options.Now()
	for _, q := range l.streams[s] {
		if q != nil {
			l.finish(q, Output{Finish: Abort}, End{Err: err, StopToken: -1}, now)
		}
	}
	if l.scheduler.idle() {
		l.observe(Step{Start: now, End: now})
	}
}

// took is the time that the device has computed for a step: by its own clock, or
// else all of the step's time.
func (l *loop) took(step time.Duration) time.Duration {
	var total time.Duration
	for _, t := range l.timers {
		total += t.DeviceTime()
	}
	computed := total - l.deviceTime
	l.deviceTime = total
	if computed <= 0 {
		return step
	}
	return computed
}

// attribute shares a step's time among its sequences by rows, to the
// nanosecond: what the division leaves goes to the first rows.
func (l *loop) attribute(plan []work, d time.Duration) {
	rows, done := time.Duration(0), time.Duration(0)
	for i := range plan {
		rows += time.Duration(plan[i].all())
	}
	for _, w := range plan {
		before := d * done / rows
		done += time.Duration(w.all())
		w.seq.life.DeviceTime += d*done/rows - before
	}
}

// advance enters the step's results into its sequences and returns how many
// prompt tokens were computed for the first time, and how many tokens came out.
func (l *loop) advance(f *flight) (prompt, sampled int) {
	for i := range f.plan {
		w, q := &f.plan[i], f.plan[i].seq
		computed := w.from + w.rows
		again := max(min(w.highest, computed)-w.from, 0)
		q.life.RecomputedTokens += again
		known := max(w.from, w.highest)
		prompt += max(min(computed, q.prompt)-known, 0)
		if size := l.options.BlockSize; l.options.PrefixCaching && q.shares() {
			q.life.CacheWriteTokens += max(min(computed, q.prompt)/size-known/size, 0) * size
		}
		if f.foreseen && q.shares() {
			q.table.Publish(l.scheduler.pool, q.tokens[:computed]) // they were not all known
		}
		if len(w.tokens) > 0 {
			q.drawing--
			sampled += l.accept(f, w)
		}
	}
	if l.speculation != nil {
		l.speculation.observe(f.rows, f.took)
	}
	return prompt, sampled
}

// accept appends a step's tokens to their sequence up to the one that ends it,
// publishes them, and returns their number.
func (l *loop) accept(f *flight, w *work) int {
	q, r, tokens := w.seq, w.seq.stream.req, w.tokens
	if l.speculation != nil {
		l.speculation.learn(w, len(tokens), tokens[0].ID)
	}
	o, last := Output{}, End{StopToken: -1}
	if q.output() == 0 {
		o.Prompt = q.scored
	}
	l.text = l.text[:0]
	for o.Finish == None && len(o.Tokens) < len(tokens) {
		o.Tokens = tokens[:len(o.Tokens)+1]
		o.Finish = l.take(q, tokens[len(o.Tokens)-1].ID, &last)
	}
	o.Text = l.text
	n := len(o.Tokens)
	q.computed += n - 1 // what was drafted and has come true
	l.tell(f, w, n)
	if o.Finish != None {
		l.finish(q, o, last, f.end)
		return n
	}
	o.Choice = q.choice
	backlog := q.stream.put(o, false)
	if r.MaxBacklog > 0 && backlog > r.MaxBacklog && !slices.Contains(l.slow, q.stream) {
		l.slow = append(l.slow, q.stream)
	}
	return n
}

// take appends a token to its sequence and its text to the step's, and decides
// whether that ends the sequence.
func (l *loop) take(q *sequence, id int32, last *End) (finish FinishReason) {
	r := q.stream.req
	early := q.output() < r.MinTokens
	q.tokens = append(q.tokens, id)
	q.life.CompletionTokens++
	switch {
	case !r.IgnoreEOS && slices.Contains(l.drawing.ends, id):
		finish = Stop
	case slices.Contains(r.StopTokens, id):
		finish, last.StopToken = Stop, id
	}
	switch {
	case finish == Stop && !r.IncludeStop:
		// The token that ends the sequence is not part of its text.
	case early:
		l.text = q.text.release(l.text, id)
	default:
		var hit string
		if l.text, hit = q.text.push(l.text, id); hit != "" {
			finish, last.StopString = Stop, hit
		}
	}
	if finish == None && len(q.tokens) >= q.limit {
		finish = Length
	}
	if finish != None && last.StopString == "" {
		l.text = q.text.flush(l.text)
	}
	return finish
}

// tell stamps n tokens of a step, and says what has happened.
func (l *loop) tell(f *flight, w *work, n int) {
	q := w.seq
	if w.drafts > 0 {
		accepted, counts := min(n, len(w.tokens)-1), q.life.Drafts
		counts.Count(w.drafts, accepted)
		if q.stream.req.DraftSteps {
			counts.PerStep = append(counts.PerStep, DraftStep{uint8(w.drafts), uint8(accepted)})
		}
		q.event(&l.options.Listener, Event{Kind: Drafted, Time: f.end, Tokens: accepted, Drafts: w.drafts, BatchTokens: f.rows, StepTime: f.took})
	}
	e := Event{Kind: Tokens, Time: f.end, Tokens: n, BatchTokens: f.rows, StepTime: f.took, Gap: f.end - q.life.Last}
	if q.life.First == 0 {
		q.life.First, e.Kind, e.Gap = f.end, FirstToken, 0
	}
	q.life.Last = f.end
	q.event(&l.options.Listener, e)
}

// finish ends a sequence in whatever way and publishes its last output.
func (l *loop) finish(q *sequence, o Output, end End, at time.Duration) {
	s := q.stream
	if q.life.Scheduled == 0 {
		l.engine.leftQueue(q.prompt)
	}
	l.scheduler.remove(q)
	l.forgetDrafts(q)
	q.life.Finished = at
	kind := Finished
	if o.Finish == Abort {
		kind = Aborted
		// What was held back belongs to the text: no stop string came.
		o.Text = q.text.flush(l.text[:0])
		l.text = o.Text
	}
	q.event(&l.options.Listener, Event{Kind: kind, Time: at})
	if f := l.options.Listener.Finish; f != nil {
		f(s.req, o.Finish, &q.life)
	}
	end.Life, end.Events = q.life, q.events
	o.Choice, o.End = q.choice, &end
	l.streams[s][q.choice] = nil
	s.open--
	if s.open == 0 {
		delete(l.streams, s)
	}
	s.put(o, s.open == 0)
}

// forgetDrafts gives back what the draft model holds of q.
func (l *loop) forgetDrafts(q *sequence) {
	if l.speculation != nil && l.speculation.drafter != nil {
		l.speculation.drafter.release(q)
	}
}

// fail ends the sequences of a step that the device could not compute; the
// others go on, unless the device is lost.
func (l *loop) fail(f *flight, err error) {
	l.options.Logger.Error("step not computed", "error", err, "sequences", len(f.plan), "rows", f.rows)
	if errors.Is(err, backend.ErrLost) {
		l.lost = err
		l.engine.lose(err)
	}
	for _, w := range f.plan {
		l.finish(w.seq, Output{Finish: Failed}, End{Err: err, StopToken: -1}, f.end)
	}
	if l.lost != nil {
		l.failAll(f.end)
	}
	l.cancel(f.end)
}

// failAll ends every sequence: the device is lost.
func (l *loop) failAll(now time.Duration) {
	for _, seqs := range l.streams {
		for _, q := range seqs {
			if q != nil {
				l.finish(q, Output{Finish: Failed}, End{Err: l.lost, StopToken: -1}, now)
			}
		}
	}
}

// observe publishes the state after a step.
func (l *loop) observe(s Step) {
	s.Running, s.Waiting = len(l.scheduler.running), l.scheduler.waiting.len
	s.Blocks = l.scheduler.pool.NumBlocks()
	s.UsedBlocks = s.Blocks - l.scheduler.pool.NumFree()
	s.CachedBlocks = l.scheduler.pool.NumCached()
	l.engine.publish(s)
	if f := l.options.Listener.Step; f != nil {
		f(s)
	}
}
