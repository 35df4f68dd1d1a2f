package sample

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// byHand draws by a description: its changes one after the other, and then a sampler
// that makes none.
func byHand(d *Draw, row []float32) int32 {
	for _, b := range d.Bias {
		row[b.ID] += b.Value
	}
	for _, s := range d.Seen {
		x := row[s.ID]
		if x > 0 {
			x /= d.RepetitionPenalty
		} else {
			x *= d.RepetitionPenalty
		}
		if s.Count > 0 {
			x -= float32(d.FrequencyPenalty * float32(s.Count))
			x -= d.PresencePenalty
		}
		row[s.ID] = x
	}
	p := Defaults()
	p.Temperature, p.TopK, p.TopP, p.MinP, p.Seed = d.Temperature, d.TopK, d.TopP, d.MinP, d.Seed
	return NewSampler(p, d.Choice, nil, len(row)).Draw(NewScratch(len(row)), row, d.Position, nil)
}

// TestDescribe: who draws by the description draws what the sampler does.
func TestDescribe(t *testing.T) {
	const vocab, seed = 50, 11
	rng := rand.New(rand.NewPCG(seed, 2))
	oneOf := func(list ...float32) float32 { return list[rng.IntN(len(list))] }
	var d Draw
	for trial := range 2000 {
		p := Params{
			Temperature: oneOf(0, 0.7, 3), TopK: int(oneOf(0, 1, 9)), TopP: oneOf(1, 0.8), MinP: oneOf(0, 0.05),
			RepetitionPenalty: oneOf(1, 1.3), PresencePenalty: oneOf(0, 1.5), FrequencyPenalty: oneOf(0, -0.5),
			Bias: map[int32]float32{}, Seed: rng.Uint64(), Logprobs: -1,
		}
		var banned []int32
		for range rng.IntN(5) {
			p.Bias[int32(rng.IntN(vocab))] = float32(rng.NormFloat64() * 9)
			// Some twice, some biased, and some that are no tokens.
			banned = append(banned, int32(rng.IntN(vocab+4)-2))
		}
		s := NewSampler(p, trial%3, []int32{3, 5, 3}, vocab)
		for range rng.IntN(9) {
			s.Accept(int32(rng.IntN(8)))
		}
		row := make([]float32, vocab)
		for i := range row {
			row[i] = float32(rng.NormFloat64() * 5)
		}
		if !s.Describe(&d, trial, banned) {
			t.Fatalf("trial %d of seed %d: no description of %+v", trial, seed, p)
		}
		want := s.Sample(NewScratch(vocab), slices.Clone(row), trial, banned).ID
		if got := byHand(&d, row); got != want {
			t.Fatalf("trial %d of seed %d: token %d by %+v, want %d by %+v without %v", trial, seed, got, d, want, p, banned)
		}
	}
}

// TestDescribeNothingLeft: what follows from having no token left has no description.
func TestDescribeNothingLeft(t *testing.T) {
	p := Defaults()
	p.RepetitionPenalty = 3e38 // makes −Inf of most that is negative
	s, d := NewSampler(p, 0, []int32{0, 1}, 4), Draw{}
	if s.Describe(&d, 9, []int32{2, 3}) {
		t.Errorf("described as %+v", d)
	}
	if !s.Describe(&d, 9, []int32{3}) || !s.Describe(&d, 9, nil) {
		t.Error("not described, although a token is left")
	}
}
