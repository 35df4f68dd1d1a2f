package backendtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// drawTrial is a tiny model whose tokens are drawn by the backend and by
// engine/sample.
type drawTrial struct {
	t       *testing.T
	model   model.Model
	drawer  model.Drawer
	rng     *rand.Rand
	scratch *sample.Scratch
}

func newDrawTrial(t *testing.T, file *gguf.File, b backend.Backend) *drawTrial {
	m := Load(t, file, b)
	if err := m.Reserve(256, 16); err != nil {
		t.Fatal(err)
	}
	return &drawTrial{t, m, m.(model.Drawer), rand.New(rand.NewPCG(8, 9)), sample.NewScratch(tinyVocab)}
}

// sampler is one with parameters of all kinds, that has drawn some tokens, and what it
// must not draw.
func (d *drawTrial) sampler(logprobs int) (s *sample.Sampler, banned []int32) {
	oneOf := func(list ...float32) float32 { return list[d.rng.IntN(len(list))] }
	p := sample.Params{
		Temperature: oneOf(0, 0.6, 1, 50), TopK: int(oneOf(0, 0, 1, 7, 1<<30)), TopP: oneOf(1, 0.9, 0.2), MinP: oneOf(0, 0, 0.1),
		RepetitionPenalty: oneOf(1, 1.4), PresencePenalty: oneOf(0, 1), FrequencyPenalty: oneOf(0, 0.7),
		Seed: d.rng.Uint64(), Logprobs: []int{-1, 0, 1, 5, 90, tinyVocab}[d.rng.IntN(6)],
	}
	p.Logprobs = min(p.Logprobs, logprobs)
	if d.rng.IntN(2) == 0 {
		p.Bias = map[int32]float32{}
		for range 9 {
			id := int32(d.rng.IntN(tinyVocab))
			p.Bias[id] = float32(d.rng.NormFloat64() * 4)
			banned = append(banned, id, int32(d.rng.IntN(tinyVocab)))
		}
	}
	s = sample.NewSampler(p, d.rng.IntN(3), []int32{1, 2, 3}, tinyVocab)
	for range d.rng.IntN(20) {
		s.Accept(int32(d.rng.IntN(tinyVocab)))
	}
	return s, banned
}

// drawn are a batch's tokens by engine/sample, from the logits that the backend gives.
// The batch has their draws then.
func (d *drawTrial) drawn(b *backend.Batch, logprobs int) []sample.Token {
	b.Draws = nil
	logits, err := d.model.Forward(b)
	if err != nil {
		d.t.Fatal(err)
	}
	logits = slices.Clone(logits)
	want := make([]sample.Token, len(b.Sample))
	b.Draws = make([]sample.Draw, len(b.Sample))
	for i, row := range b.Sample {
		s, banned := d.sampler(logprobs)
		position := int(b.Positions[row]) + 1
		if !s.Describe(&b.Draws[i], position, banned) {
			d.t.Fatalf("row %d: no description", i)
		}
		want[i] = s.Sample(d.scratch, logits[i*tinyVocab:][:tinyVocab], position, banned)
	}
	return want
}

// wait compares the earliest step's tokens. Log probabilities are rounded to float32
// from sums that agree to 1e-9.
func (d *drawTrial) wait(want []sample.Token, draws []sample.Draw) {
	d.t.Helper()
	got, err := d.drawer.Wait()
	if err != nil || len(got) != len(want) {
		d.t.Fatalf("%d tokens, error %v, want %d", len(got), err, len(want))
	}
	near := func(a, b float32) bool { return a == b || math.Abs(float64(a-b)) <= 1e-6*(1+math.Abs(float64(b))) }
	for i, w := range want {
		g := got[i]
		same := g.ID == w.ID && near(g.Logprob, w.Logprob) && len(g.Top) == len(w.Top)
		for j := 0; same && j < len(w.Top); j++ {
			same = g.Top[j].ID == w.Top[j].ID && near(g.Top[j].Value, w.Top[j].Value)
		}
		if !same {
			d.t.Fatalf("row %d of %d: drew %+v, want %+v by %+v", i, len(want), g, w, draws[i])
		}
	}
}

// decoding is a step of one token of each of n sequences.
func (d *drawTrial) decoding(n int) *backend.Batch {
	b, next := &backend.Batch{}, int32(0)
	for i := range n {
		Append(b, []int32{int32(d.rng.IntN(tinyVocab))}, 2+i%3, Blocks(&next, 16, 16), 16)
		b.Sample = append(b.Sample, int32(i))
	}
	return b
}

// testDraws: a Drawer draws what engine/sample does from the same logits, whatever is
// asked of it, in steps of all shapes, and with a step under way.
func testDraws(t *testing.T, open func(t *testing.T) backend.Backend) {
	d := newDrawTrial(t, TinyFile(t), open(t))
	rows, logprobs := d.drawer.DrawLimits()
	if rows == 0 {
		t.Skip("it draws no tokens")
	}
	var batches []*backend.Batch
	for _, n := range []int{1, 2, 3, 7, 17} {
		batches = append(batches, d.decoding(n))
	}
	mixed, next := &backend.Batch{Sample: []int32{0, 21}}, int32(0)
	Append(mixed, []int32{7}, 4, Blocks(&next, 16, 16), 16)
	Append(mixed, count(21), 0, Blocks(&next, 32, 16), 16)
	Append(mixed, count(9), 0, Blocks(&next, 16, 16), 16) // gives no token yet
	batches = append(batches, mixed)
	check := func(b *backend.Batch) {
		want := d.drawn(b, logprobs)
		d.queue(b)
		d.wait(want, b.Draws)
	}
	check(d.decoding(min(rows, MaxRows)))
	for range 3 {
		for _, b := range batches {
			check(b)
		}
	}
	for i := 1; i < len(batches); i++ {
		first, second := batches[i-1], batches[i]
		// Both steps write where they have written before, so that they draw the same.
		firstWant, secondWant := d.drawn(first, logprobs), d.drawn(second, logprobs)
		firstDraws := slices.Clone(first.Draws)
		d.queue(first)
		first.Tokens = append(first.Tokens[:0], count(first.Rows())...) // it has been read
		clear(first.Draws)
		d.queue(second)
		d.wait(firstWant, firstDraws)
		d.wait(secondWant, second.Draws)
	}
}

// testDrawnTokens: a step may compute tokens that the step before has yet to draw.
func testDrawnTokens(t *testing.T, open func(t *testing.T) backend.Backend) {
	d := newDrawTrial(t, TinyFile(t), open(t))
	rows, logprobs := d.drawer.DrawLimits()
	if rows == 0 {
		t.Skip("it draws no tokens")
	}
	for trial := range 12 {
		first, second := d.decoding(1+trial%5), d.decoding(1+trial%7)
		firstWant := d.drawn(first, logprobs)
		names := make([]int32, second.Rows())
		for row := range names {
			names[row] = second.Tokens[row]
			if i := d.rng.IntN(len(firstWant) + 1); i < len(firstWant) {
				names[row], second.Tokens[row] = int32(-1-i), firstWant[i].ID
			}
		}
		secondWant := d.drawn(second, logprobs)
		second.Tokens = names
		d.queue(first)
		if trial%3 == 0 { // it may be known by then
			d.wait(firstWant, first.Draws)
			d.queue(second)
		} else {
			d.queue(second)
			d.wait(firstWant, first.Draws)
		}
		d.wait(secondWant, second.Draws)
	}
}

func (d *drawTrial) queue(b *backend.Batch) {
	d.t.Helper()
	if err := d.drawer.Queue(b); err != nil {
		d.t.Fatal(err)
	}
}
