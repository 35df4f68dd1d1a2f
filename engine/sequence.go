package engine

import (
	"math"
	"time"

	"github.com/wasmeter/wasmeter/engine/kvcache"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// sequence is one choice of a request inside the loop, which owns it.
type sequence struct {
	stream *Stream
	choice int
	// tokens holds the prompt and what was sampled; prompt is the number of
	// prompt tokens.
	tokens []int32
	prompt int
	// limit is the length of tokens at which the sequence ends.
	limit int
	// drawing is the number of tokens behind these that steps under way draw, and
	// drawnAt the place of the last of them in its step's Sample list.
	drawing, drawnAt int
	// computed is the number of leading tokens whose keys and values are in the
	// cache when the steps under way are done. The scheduler's one rule is that
	// computed catches up with length.
	computed int
	// flying counts the steps under way that compute rows of the sequence.
	flying int
	// highest is the largest value that computed had before a preemption: rows
	// below it are computed again.
	highest int
	table   kvcache.Table
	// root names those with whom the table's blocks are shared.
	root kvcache.Root
	// scored holds the prompt's tokens with their log probabilities, as far as
	// they are known and if they are wanted; delivered with the first token.
	scored  []sample.Token
	sampler *sample.Sampler
	text    text
	life    Life
	events  []Event
	// guesses is nil without speculation.
	guesses *guesses

	// priority and arrival, the number of those that came before, are its rank.
	priority int
	arrival  uint64
	// previous, next and queued are the waiting queue's.
	previous, next *sequence
	queued         bool
}

func newSequence(s *Stream, choice int, queued time.Duration, e *Engine) *sequence {
	r := s.req
	prompt := r.Prompts[choice/r.N]
	limit := e.context
	if r.MaxTokens > 0 {
		limit = min(limit, len(prompt)+r.MaxTokens)
	}
	q := &sequence{
		stream:  s,
		choice:  choice,
		tokens:  append(make([]int32, 0, min(limit, len(prompt)+256)), prompt...),
		prompt:  len(prompt),
		limit:   limit,
		root:    r.CacheRoot,
		sampler: sample.NewSampler(r.Sampling, choice, prompt, e.shape.Vocab),
		text:    newText(r, e.tokenizer),
	}
	if r.PromptLogprobs {
		q.scored = append(make([]sample.Token, 0, len(prompt)), sample.Token{ID: prompt[0], Logprob: float32(math.NaN())})
	}
	q.life.Queued, q.life.PromptTokens = queued, len(prompt)
	q.guesses = e.options.Speculative.newGuesses(q)
	return q
}

// event records what happened, for the request and for the listener.
func (q *sequence) event(l *Listener, e Event) {
	e.Choice = q.choice
	if q.stream.req.Events {
		q.events = append(q.events, e)
	}
	if l.Event != nil {
		l.Event(q.stream.req, e, &q.life)
	}
}

// before tells whether q has the right of way: the lower priority first, and of
// equals the one that came first.
func (q *sequence) before(other *sequence) bool {
	if q.priority != other.priority {
		return q.priority < other.priority
	}
	return q.arrival < other.arrival
}

// length is the number of tokens, with those that are being drawn.
func (q *sequence) length() int { return len(q.tokens) + q.drawing }

// pending is the number of tokens that are not computed.
func (q *sequence) pending() int { return q.length() - q.computed }

// ended tells that the reader has its last output.
func (q *sequence) ended() bool { return q.life.Finished != 0 }

// shares tells whether q's blocks come from and go to the prefix cache. A prompt
// that is scored needs the logits of all its rows.
func (q *sequence) shares() bool { return q.scored == nil }

// output is the number of tokens sampled so far.
func (q *sequence) output() int { return len(q.tokens) - q.prompt }

// maxScoredRows bounds the rows of a step whose logits are all wanted: a row of
// logits is as long as the vocabulary.
const maxScoredRows = 32

// rows is the number of rows that a step with so much budget computes; 0 if the last
// token is being drawn.
func (q *sequence) rows(budget int) int {
	if q.drawing > 0 && q.length() >= q.limit {
		return 0
	}
	n := min(q.pending(), budget)
	if q.scored != nil && q.computed < q.prompt {
		n = min(n, maxScoredRows)
	}
	return n
}
