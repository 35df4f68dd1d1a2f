package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/cost"
	"github.com/wasmeter/wasmeter/engine/kvcache"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// drafter runs the draft model. It has a pool of blocks of its own, as many as
// the model's, owned by the loop as well. Its drafts are drawn with the
// sequence's own sampler and the noise of their positions, so that two models of
// one opinion draw one token.
type drafter struct {
	model   model.Model
	vocab   int // logits of a row
	context int
	budget  int // rows of a batch
	pool    *kvcache.Pool
	now     func() time.Duration
	logger  *slog.Logger
	costs   cost.Steps // of a round
	// took is the time of the step's drafts.
	took time.Duration
	// broken: the draft model could not compute a batch; nothing is guessed any
	// more.
	broken bool

	// Storage reused from step to step.
	batch backend.Batch
	work  []*work
	row   []float32 // [the model's vocab]
}

// drafted is what the draft model has computed of a sequence.
type drafted struct {
	table kvcache.Table
	// computed leading tokens of the text are in its cache.
	computed int
	// idle counts the steps without a draft since the last one; patience is how
	// many there are before one is tried although it seems not to pay.
	idle, patience int
}

// The patience begins with minPatience, and doubles with each try that fails.
const minPatience, maxPatience = 32, 1024

// newDrafter prepares the draft model for sequences of the engine's model.
func newDrafter(o *Options, t *tokenizer.Tokenizer, shape model.Shape, blocks int) (*drafter, error) {
	s := &o.Speculative
	if s.Draft == nil || s.DraftTokenizer == nil {
		return nil, fmt.Errorf("speculative.method: draft needs a draft model")
	}
	if err := sameVocabulary(t, s.DraftTokenizer); err != nil {
		return nil, fmt.Errorf("speculative.model: %w", err)
	}
	own := s.Draft.Shape()
	if own.Vocab < t.Size() {
		return nil, fmt.Errorf("speculative.model: it has %d logits for %d tokens", own.Vocab, t.Size())
	}
	pool, err := kvcache.NewPool(blocks, o.BlockSize)
	if err != nil {
		return nil, fmt.Errorf("speculative.model: %w", err)
	}
	if o.PrefixCaching {
		pool.CachePrefixes(keptBlocks(own, blocks, *o))
	}
	if err := s.Draft.Reserve(blocks, o.BlockSize); err != nil {
		return nil, fmt.Errorf("speculative.model: reserve %d KV blocks of %d positions: %w", blocks, o.BlockSize, err)
	}
	return &drafter{
		model:   s.Draft,
		vocab:   own.Vocab,
		context: own.Context,
		budget:  min(o.MaxNumBatchedTokens, own.MaxRows),
		pool:    pool,
		now:     o.Now,
		logger:  o.Logger,
		row:     make([]float32, shape.Vocab),
	}, nil
}

// sameVocabulary compares two tokenizers token by token: a draft is a number, and
// must mean the same to both models.
func sameVocabulary(t, draft *tokenizer.Tokenizer) error {
	if t.Size() != draft.Size() {
		return fmt.Errorf("the draft model has %d tokens, and the model %d; it must be of the same vocabulary", draft.Size(), t.Size())
	}
	for id := range int32(t.Size()) {
		if a, b := t.Piece(id), draft.Piece(id); !bytes.Equal(a, b) || t.Control(id) != draft.Control(id) {
			return fmt.Errorf("token %d is %q to the draft model, and %q to the model; it must be of the same vocabulary", id, b, a)
		}
	}
	return nil
}

// most is the largest number of drafts that q could have, up to n.
func (d *drafter) most(q *sequence, n int) int {
	q.guesses.draftModel.idle++
	if d.broken {
		return 0
	}
	return min(n, d.context-len(q.tokens))
}

// impatient tells that q has gone without drafts for long.
func (g *drafted) impatient() bool { return g.idle > max(g.patience, minPatience) }

// draft guesses as many tokens for each sequence of the plan as the plan says. A
// sequence whose text the draft model has yet to read, and has not the rows or
// the blocks for, gets none.
func (d *drafter) draft(plan []work, l *loop) {
	d.work = d.work[:0]
	for i := range plan {
		if plan[i].drafts > 0 {
			d.work = append(d.work, &plan[i])
		}
	}
	for d.read(); len(d.work) > 0; d.next() {
		begun := d.now()
		logits, err := d.model.Forward(&d.batch)
		if err != nil {
			d.fail(err, plan)
			return
		}
		own := l.drawing.own()
		for i, w := range d.work {
			q, g := w.seq, w.seq.guesses
			n := len(g.drafts)
			d.row = widen(d.row, logits[i*d.vocab:(i+1)*d.vocab])
			g.drafts = append(g.drafts, q.sampler.Draw(own.scratch, d.row, len(q.tokens)+n, l.drawing.bans(own, q, n)))
		}
		took := d.now() - begun
		d.took += took
		d.costs.Observe(d.batch.Rows(), took)
	}
}

// read fills a batch with what the draft model has yet to read. Who can't be
// read to the end in it gets no drafts.
func (d *drafter) read() {
	d.batch.Reset()
	kept := d.work[:0]
	for _, w := range d.work {
		q, g := w.seq, &w.seq.guesses.draftModel
		if len(g.table.Blocks()) == 0 && q.shares() {
			g.computed = g.table.Adopt(d.pool, q.root, q.tokens)
		}
		rows := min(len(q.tokens)-g.computed, d.budget-d.batch.Rows())
		if rows < 1 || !g.table.Grow(d.pool, len(q.tokens)+w.drafts-1) {
			w.drafts = 0
			continue
		}
		d.add(g, q.tokens[g.computed:g.computed+rows], g.computed)
		g.computed += rows
		if q.shares() {
			g.table.Publish(d.pool, q.tokens[:g.computed])
		}
		if g.computed < len(q.tokens) {
			w.drafts = 0
			continue
		}
		d.batch.Sample = append(d.batch.Sample, int32(d.batch.Rows()-1))
		kept = append(kept, w)
	}
	d.work = kept
}

// next fills a batch with the latest draft of each sequence that wants more.
func (d *drafter) next() {
	d.batch.Reset()
	kept := d.work[:0]
	for _, w := range d.work {
		g := w.seq.guesses
		n := len(g.drafts)
		if n == w.drafts {
			continue
		}
		d.add(&g.draftModel, g.drafts[n-1:], len(w.seq.tokens)+n-1)
		d.batch.Sample = append(d.batch.Sample, int32(d.batch.Rows()-1))
		kept = append(kept, w)
	}
	d.work = kept
}

// add puts tokens at a position of a sequence into the batch.
func (d *drafter) add(g *drafted, tokens []int32, position int) {
	b := &d.batch
	b.Seqs = append(b.Seqs, backend.Seq{
		Row:     int32(len(b.Tokens)),
		Len:     int32(len(tokens)),
		Context: int32(position + len(tokens)),
		Blocks:  g.table.Blocks(),
	})
	for i, id := range tokens {
		b.Tokens = append(b.Tokens, id)
		b.Positions = append(b.Positions, int32(position+i))
		b.Slots = append(b.Slots, g.table.Slot(position+i))
	}
}

// checked says how many drafts of a step have come true: their keys and values
// are those of the text.
func (g *drafted) checked(drafts, hits int) {
	g.computed += min(hits, drafts-1) // the last one was never computed
	switch {
	case hits > 0:
		g.patience = minPatience
	case g.idle > minPatience: // a try
		g.patience = min(2*max(g.patience, minPatience), maxPatience)
	}
	g.idle = 0
}

// release gives the blocks of q back.
func (d *drafter) release(q *sequence) {
	g := &q.guesses.draftModel
	g.table.Release(d.pool)
	g.computed = 0
}

// fail goes on without drafts: they are no part of any answer.
func (d *drafter) fail(err error, plan []work) {
	d.logger.Error("draft model not computed: going on without drafts", "error", err, "rows", d.batch.Rows())
	d.broken = true
	for i := range plan {
		plan[i].drafts = 0
		plan[i].seq.guesses.drafts = plan[i].seq.guesses.drafts[:0]
	}
}

// widen copies logits into a row of the model's length; the model may have more
// or fewer than its tokenizer has tokens.
func widen(row, logits []float32) []float32 {
	for i := copy(row, logits); i < len(row); i++ {
		row[i] = float32(math.Inf(-1))
	}
	return row
}
