package engine

import (
	"time"

	"github.com/wasmeter/wasmeter/engine/cost"
	"github.com/wasmeter/wasmeter/engine/draft"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// speculation puts drafts behind the rows of decoding sequences, and learns from
// what becomes of them. It is owned by the loop.
//
// A sequence that decodes computes its last token. With k drafts it computes k
// rows more, each with logits: the row before a draft tells which token would
// have come there, drawn with the noise of its own position. While that is the
// draft, the next row is that of the text, and its keys and values stay. From the
// first difference on they are those of no text; the next steps put others in
// their slots. The cache ends with a sequence's computed tokens, whatever else
// lies behind.
type speculation struct {
	options *Speculative
	drafter *drafter // nil without a draft model
	costs   cost.Steps
	prior   draft.Prior
	chooser draft.Chooser

	// Storage reused from step to step.
	candidates []draft.Candidate
	places     []int // in the plan, of each candidate
}

// guesses is what speculation keeps of a sequence.
type guesses struct {
	index      draft.Index
	acceptance draft.Acceptance
	// drafts are the tokens that are guessed to come next. The step's work says
	// how many of them it checks; the others are compared with what comes.
	drafts []int32
	// draftModel is what the draft model has computed.
	draftModel drafted
}

// maxDrafts bounds the drafts of a step: a row of logits is as long as the
// vocabulary.
const maxDrafts = 64

// try is the number of drafts of a sequence that a draft model makes although they seem not
// to pay: before the first it reads what the text has become since the last one, and only the
// second tells what a draft takes.
const try = 2

func newSpeculation(o *Options, t *tokenizer.Tokenizer, shape model.Shape, blocks int) (*speculation, error) {
	s := &speculation{options: &o.Speculative}
	if o.Speculative.Method != SpeculativeDraft {
		return s, nil
	}
	var err error
	s.drafter, err = newDrafter(o, t, shape, blocks)
	return s, err
}

// newGuesses prepares a sequence; nil without speculation.
func (s *Speculative) newGuesses(q *sequence) *guesses {
	if !s.on() {
		return nil
	}
	g := &guesses{drafts: make([]int32, 0, s.NumTokens)}
	if s.Method == SpeculativeNgram {
		g.index = draft.NewIndex(s.NgramMin, s.NgramMax, cap(q.tokens))
	}
	q.life.Drafts = &DraftCounts{ByAccepted: make([]int, s.NumTokens+1)}
	return g
}

// add decides on the drafts of a step. Nobody is preempted for them, and they
// take no row that a known token could have.
func (s *speculation) add(l *loop, plan []work) {
	sc := &l.scheduler
	s.candidates, s.places = s.candidates[:0], s.places[:0]
	if s.drafter != nil {
		s.drafter.took = 0
	}
	step := draft.Step{}
	for i := range plan {
		w := &plan[i]
		q := w.seq
		step.Rows += w.rows
		if w.rows == q.pending() {
			step.Decoding++
		}
		q.guesses.drafts = q.guesses.drafts[:0]
		if w.rows == 1 && q.pending() == 1 && q.output() > 0 {
			s.consider(q, i)
		}
	}
	if len(s.candidates) == 0 {
		return
	}
	step.Room = min(sc.budget-step.Rows, maxDrafts)
	var drafting *cost.Steps
	if s.drafter != nil {
		drafting = &s.drafter.costs
	}
	s.chooser.Choose(step, s.candidates, &s.costs, drafting)
	for j, i := range s.places {
		q, n := plan[i].seq, s.candidates[j].Take
		if n == 0 && s.drafter != nil && q.guesses.draftModel.impatient() {
			n = min(try, s.candidates[j].Max, step.Room)
		}
		if n > 0 && q.table.Grow(sc.pool, len(q.tokens)+n) {
			plan[i].drafts = n
		}
	}
	if s.drafter != nil {
		s.drafter.draft(plan, l)
	}
}

// consider makes a candidate of a sequence that decodes, if a token can be
// guessed.
func (s *speculation) consider(q *sequence, place int) {
	g := q.guesses
	// The last token that may come needs no draft: the row before draws it.
	n, evidence := min(s.options.NumTokens, q.limit-len(q.tokens)-1), 0
	if n < 1 {
		return
	}
	if s.drafter == nil {
		matched := 0
		if g.drafts, matched = g.index.Guess(g.drafts, q.tokens, n); matched == 0 {
			return
		}
		evidence = matched - s.options.NgramMin
	} else if n = s.drafter.most(q, n); n < 1 {
		return
	}
	s.candidates = append(s.candidates, draft.Candidate{Rate: g.acceptance.Rate(s.prior.Rate(), evidence), Max: n})
	s.places = append(s.places, place)
}

// learn compares what a step has sampled with what was guessed, also where it
// was not checked: a guess that is free to compare tells whether the next is
// worth a row.
func (s *speculation) learn(w *work, sampled int, token int32) {
	g := w.seq.guesses
	if len(g.drafts) == 0 {
		return
	}
	hits, misses := 0, 0
	switch {
	case w.drafts > 0:
		hits = sampled - 1
		misses = min(w.drafts-hits, 1) // behind a miss nothing is known
	case token == g.drafts[0]:
		hits = 1
	default:
		misses = 1
	}
	g.acceptance.Observe(hits, misses)
	s.prior.Observe(hits, misses)
	if s.drafter != nil && w.drafts > 0 {
		g.draftModel.checked(w.drafts, hits)
	}
}

// observe takes the time of a step that computed so many rows. The draft model's
// part has been counted as its own.
func (s *speculation) observe(rows int, took time.Duration) {
	if s.drafter != nil {
		took -= s.drafter.took
	}
	s.costs.Observe(rows, took)
}
