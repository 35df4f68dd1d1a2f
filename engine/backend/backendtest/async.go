package backendtest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// Async makes a model.Drawer of a model that is none: a goroutine computes the steps
// that are queued, one after the other, and draws their tokens by engine/sample. It
// panics where its caller breaks the contract.
type Async struct {
	model.Model
	rows, logprobs int // DrawLimits

	// Queued counts the steps that drew here, Ahead those of them that were queued
	// while another was under way, Forwarded the others. They are the caller's, like
	// the methods.
	Queued, Ahead, Forwarded int

	steps   chan *backend.Batch // queued
	done    chan asyncResult
	ended   chan struct{} // closed when the goroutine has ended
	flying  int           // steps under way; owned by the caller
	took    time.Duration // owned by the caller
	vocab   int
	scratch *sample.Scratch
	last    []int32 // the tokens of the step before; owned by the goroutine
}

type asyncResult struct {
	tokens []sample.Token
	err    error
	took   time.Duration // the model's clock after the step
}

// NewAsync wraps m, which it owns.
func NewAsync(m model.Model, rows, logprobs int) *Async {
	a := &Async{
		Model: m, rows: rows, logprobs: logprobs, vocab: m.Shape().Vocab,
		steps: make(chan *backend.Batch, 2), done: make(chan asyncResult, 2), ended: make(chan struct{}),
	}
	a.scratch = sample.NewScratch(a.vocab)
	a.took = a.clock()
	go a.run()
	return a
}

// clock is the model's, 0 if it has none.
func (a *Async) clock() time.Duration {
	if t, ok := a.Model.(model.Timer); ok {
		return t.DeviceTime()
	}
	return 0
}

// DeviceTime implements model.Timer: of the steps that were waited for.
func (a *Async) DeviceTime() time.Duration { return a.took }

// DrawLimits implements model.Drawer.
func (a *Async) DrawLimits() (rows, logprobs int) { return a.rows, a.logprobs }

// Forward implements model.Model.
func (a *Async) Forward(b *backend.Batch) ([]float32, error) {
	if a.flying > 0 {
		panic("backendtest: Forward with a step under way")
	}
	defer func() { a.took = a.clock() }()
	a.Forwarded++
	return a.Model.Forward(b)
}

// Queue implements model.Drawer.
func (a *Async) Queue(b *backend.Batch) error {
	if a.flying == cap(a.steps) {
		panic("backendtest: Queue with as many steps under way as may be")
	}
	if len(b.Draws) != len(b.Sample) || len(b.Sample) > a.rows {
		panic(fmt.Sprintf("backendtest: %d draws of %d rows, at most %d can be drawn from", len(b.Draws), len(b.Sample), a.rows))
	}
	if a.flying > 0 {
		a.Ahead++
	}
	a.Queued++
	a.steps <- cloneBatch(b)
	a.flying++
	return nil
}

// cloneBatch copies all that the caller may change.
func cloneBatch(b *backend.Batch) *backend.Batch {
	c := &backend.Batch{
		Tokens: slices.Clone(b.Tokens), Positions: slices.Clone(b.Positions), Slots: slices.Clone(b.Slots),
		Seqs: slices.Clone(b.Seqs), Sample: slices.Clone(b.Sample), Draws: slices.Clone(b.Draws),
	}
	for i := range c.Seqs {
		c.Seqs[i].Blocks = slices.Clone(c.Seqs[i].Blocks)
	}
	for i := range c.Draws {
		c.Draws[i].Bias, c.Draws[i].Seen = slices.Clone(c.Draws[i].Bias), slices.Clone(c.Draws[i].Seen)
	}
	return c
}

// Wait implements model.Drawer.
func (a *Async) Wait() ([]sample.Token, error) {
	if a.flying == 0 {
		panic("backendtest: Wait without a step under way")
	}
	a.flying--
	r := <-a.done
	a.took = r.took
	return r.tokens, r.err
}

// Close implements model.Model.
func (a *Async) Close() error {
	close(a.steps)
	<-a.ended
	return a.Model.Close()
}

// run computes what is queued.
func (a *Async) run() {
	defer close(a.ended)
	for b := range a.steps {
		r := asyncResult{}
		r.tokens, r.err = a.compute(b)
		r.took = a.clock()
		a.done <- r
	}
}

// compute computes a step. Of one that fails, the next gets the token 0.
func (a *Async) compute(b *backend.Batch) ([]sample.Token, error) {
	for row, id := range b.Tokens {
		if id < 0 {
			b.Tokens[row] = a.last[-1-id]
		}
	}
	a.last = make([]int32, len(b.Draws))
	logits, err := a.Model.Forward(b)
	if err != nil {
		return nil, err
	}
	tokens := make([]sample.Token, len(b.Draws))
	for i := range tokens {
		s, banned := samplerOf(&b.Draws[i], a.vocab)
		tokens[i] = s.Sample(a.scratch, logits[i*a.vocab:(i+1)*a.vocab], b.Draws[i].Position, banned)
		a.last[i] = tokens[i].ID
	}
	return tokens, nil
}

// samplerOf is the sampler that a draw describes.
func samplerOf(d *sample.Draw, vocab int) (s *sample.Sampler, banned []int32) {
	p := sample.Params{
		Temperature: d.Temperature, TopK: d.TopK, TopP: d.TopP, MinP: d.MinP,
		RepetitionPenalty: d.RepetitionPenalty, PresencePenalty: d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty,
		Bias: map[int32]float32{}, Seed: d.Seed, Logprobs: d.Logprobs,
	}
	for _, b := range d.Bias {
		if math.IsInf(float64(b.Value), -1) {
			banned = append(banned, b.ID)
		} else {
			p.Bias[b.ID] = b.Value
		}
	}
	var prompt []int32
	for _, seen := range d.Seen {
		prompt = append(prompt, seen.ID)
	}
	s = sample.NewSampler(p, d.Choice, prompt, vocab)
	for _, seen := range d.Seen {
		for range seen.Count {
			s.Accept(seen.ID)
		}
	}
	return s, banned
}
