package engine

import (
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// drawing samples the tokens of a step. Its rows do not depend on each other, and
// going over a vocabulary for each of many sequences takes a part of a step that
// can be seen: so the sequences are shared among the threads of the device, if it
// has any on the host. It is owned by the loop.
type drawing struct {
	vocab   int
	ends    []int32      // the model's end tokens
	sharer  model.Sharer // nil: the loop's own thread does all
	threads []drawer     // the first is the loop's own

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
	d := &drawing{vocab: m.Shape().Vocab, ends: ends, threads: make([]drawer, 1)}
	if s, ok := m.(model.Sharer); ok && s.Threads() > 1 {
		d.sharer, d.threads = s, make([]drawer, s.Threads())
	}
	for i := range d.threads {
		d.threads[i].scratch = sample.NewScratch(d.vocab)
	}
	d.do = d.draw
	return d
}

// own is what the loop's thread uses.
func (d *drawing) own() *drawer { return &d.threads[0] }

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
	return max(0, min(q.computed+w.rows, q.prompt-1)-max(q.computed, len(q.scored)-1))
}

func (w *work) draws() int {
	if w.rows < w.seq.pending() {
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

// bans lists the tokens that q may not draw when it has drawn so many in this
// step: what would end it too early.
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
