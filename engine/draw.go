package engine

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// drawing samples the tokens of a step. Its rows do not depend on each other, and
// going over a vocabulary for each of many sequences takes a part of a step that
// can be seen: so the sequences are shared among the threads of the device, if it
// has any on the host. A device that draws tokens itself does so where it can. The
// loop owns it.
type drawing struct {
	model   model.Model
	vocab   int
	ends    []int32      // the model's end tokens
	sharer  model.Sharer // nil: the loop's own thread does all
	threads []drawer     // the first is the loop's own
	// device draws from up to deviceRows rows of a step, with up to deviceLogprobs
	// log probabilities for each; nil: none does.
	device                     model.Drawer
	deviceRows, deviceLogprobs int

	// The step's: what is drawn from which rows, and the tokens that came.
	parts  []part
	logits []float32
	tokens []sample.Token
	// do is the method draw, kept so that a step does not make it anew.
	do func(part, thread int)
}

// drawer is what a thread needs for itself.
type drawer struct {
	scratch *sample.Scratch
	banned  []int32
}

// part is one sequence's share of the drawing.
type part struct {
	work *work
	row  int // its first in the logits
}

// minShare is the number of sequences from which on their drawing is shared:
// below, waking a thread costs as much as it brings.
const minShare = 4

func newDrawing(m model.Model, ends []int32) *drawing {
	d := &drawing{model: m, vocab: m.Shape().Vocab, ends: ends, threads: make([]drawer, 1)}
	if s, ok := m.(model.Sharer); ok && s.Threads() > 1 {
		d.sharer, d.threads = s, make([]drawer, s.Threads())
	}
	if device, ok := m.(model.Drawer); ok {
		if rows, logprobs := device.DrawLimits(); rows > 0 {
			d.device, d.deviceRows, d.deviceLogprobs = device, rows, logprobs
		}
	}
	for i := range d.threads {
		d.threads[i].scratch = sample.NewScratch(d.vocab)
	}
	d.do = d.draw
	return d
}

// own is what the loop's thread uses.
func (d *drawing) own() *drawer { return &d.threads[0] }

// compute computes the batch of a plan and draws its tokens.
func (d *drawing) compute(plan []work, b *backend.Batch) error {
	logits, err := d.model.Forward(b)
	if err == nil {
		d.all(plan, logits)
	}
	return err
}

// wait waits for the plan whose batch was queued first, and gives each sequence its
// token.
func (d *drawing) wait(plan []work) error {
	tokens, err := d.device.Wait()
	if err == nil {
		d.take(plan, tokens)
	}
	return err
}

// describe tells the device how to draw the tokens of a plan, if it can draw them all:
// one for each sequence. It scores no prompts and checks no drafts.
func (d *drawing) describe(plan []work, b *backend.Batch) bool {
	b.Draws = b.Draws[:0]
	if d.device == nil || len(b.Sample) > d.deviceRows {
		return false
	}
	for i := range plan {
		w := &plan[i]
		if w.scores() > 0 || w.drafts > 0 || w.seq.stream.req.Sampling.Logprobs > d.deviceLogprobs {
			return false
		}
	}
	for i := range plan {
		q := plan[i].seq
		if plan[i].draws() > 0 && !q.sampler.Describe(nextDraw(b), q.length(), d.bans(d.own(), q, q.drawing)) {
			b.Draws = b.Draws[:0]
			return false
		}
	}
	return true
}

// nextDraw is one more draw of a batch, with its storage of a step before.
func nextDraw(b *backend.Batch) *sample.Draw {
	n := len(b.Draws)
	if n == cap(b.Draws) {
		b.Draws = append(b.Draws[:n], sample.Draw{})
	}
	b.Draws = b.Draws[:n+1]
	return &b.Draws[n]
}

// take gives each sequence its token of those that the device drew.
func (d *drawing) take(plan []work, tokens []sample.Token) {
	for i := range plan {
		if w := &plan[i]; w.draws() > 0 {
			w.tokens, tokens = tokens[:1:1], tokens[1:]
			w.seq.sampler.Accept(w.tokens[0].ID)
		}
	}
}

// all draws the tokens of each sequence whose known tokens are all computed, and
// scores prompts, from the logits of the batch's Sample list, in its order. Each
// work has its tokens then.
func (d *drawing) all(plan []work, logits []float32) {
	d.parts, d.logits = d.parts[:0], logits
	rows, tokens := 0, 0
	for i := range plan {
		w := &plan[i]
		scores, draws := w.scores(), w.draws()
		if scores+draws == 0 {
			continue
		}
		d.parts = append(d.parts, part{w, rows})
		rows += scores + draws
		tokens += draws
	}
	for len(d.tokens) < tokens {
		d.tokens = append(d.tokens, sample.Token{})
	}
	next := d.tokens
	for _, p := range d.parts {
		n := p.work.draws()
		p.work.tokens, next = next[:0:n], next[n:]
	}
	if d.sharer != nil && len(d.parts) >= minShare {
		d.sharer.Share(len(d.parts), d.do)
		return
	}
	for i := range d.parts {
		d.draw(i, 0)
	}
}

// scores is the number of rows that score the prompt of w's sequence, draws of
// those from which tokens are drawn.
func (w *work) scores() int {
	q := w.seq
	if q.scored == nil {
		return 0
	}
	return max(0, min(w.from+w.rows, q.prompt-1)-max(w.from, len(q.scored)-1))
}

func (w *work) draws() int {
	if !w.last {
		return 0
	}
	return 1 + w.drafts
}

// draw does one part.
func (d *drawing) draw(i, thread int) {
	p, t := d.parts[i], &d.threads[thread]
	w, q := p.work, p.work.seq
	logits := d.logits[p.row*d.vocab:]
	for range w.scores() {
		id := q.tokens[len(q.scored)]
		q.scored = append(q.scored, t.scratch.Score(logits[:d.vocab], id, q.stream.req.Sampling.Logprobs))
		logits = logits[d.vocab:]
	}
	// A row goes on from the one before while that gave the draft which it was
	// computed with; what follows belongs to a text that is not.
	for n := range w.draws() {
		if n > 0 && w.tokens[n-1].ID != q.guesses.drafts[n-1] {
			return
		}
		token := q.sampler.Sample(t.scratch, logits[n*d.vocab:(n+1)*d.vocab], len(q.tokens)+n, d.bans(t, q, n))
		q.sampler.Accept(token.ID)
		w.tokens = append(w.tokens, token)
	}
}

// bans lists the tokens that q may not draw when it has drawn so many beside those
// that are known: what would end it too early.
func (d *drawing) bans(t *drawer, q *sequence, drawn int) []int32 {
	r := q.stream.req
	if q.output()+drawn >= r.MinTokens {
		return nil
	}
	t.banned = append(t.banned[:0], r.StopTokens...)
	if !r.IgnoreEOS {
		t.banned = append(t.banned, d.ends...)
	}
	return t.banned
}
