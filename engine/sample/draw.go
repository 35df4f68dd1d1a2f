package sample

import (
	"math"
	"slices"
)

// Draw describes how one token is drawn, as a value: all that Sampler.Sample reads
// beside the row of logits. Whoever keeps to it draws the same token.
type Draw struct {
	// Temperature to Logprobs are those of Params.
	Temperature                                          float32
	TopK                                                 int
	TopP, MinP                                           float32
	RepetitionPenalty, PresencePenalty, FrequencyPenalty float32
	Logprobs                                             int
	// Seed, Choice and Position are the key of the noise.
	Seed             uint64
	Choice, Position int
	// Bias is added to single logits, no token twice; −∞ bans one.
	Bias []Bias
	// Seen lists the tokens that penalties are for.
	Seen []Seen
}

// Bias is what is added to a token's logit.
type Bias struct {
	ID    int32
	Value float32
}

// Seen is how often a token is in the output; 0 is one of the prompt alone.
type Seen struct{ ID, Count int32 }

// Noise is the draw's random number, uniform in 64 bits.
func (d *Draw) Noise() uint64 { return noise(d.Seed, d.Choice, d.Position) }

// Describe sets d to what Sample would do at a position, and uses d's storage again.
// It returns false for the draw that no such value describes: where bans and
// penalties may have left no token, Sample takes the lowest that is not banned.
func (s *Sampler) Describe(d *Draw, position int, banned []int32) bool {
	if len(banned) > 0 && len(banned)+len(s.seen) >= s.vocab {
		return false
	}
	p := &s.params
	*d = Draw{
		Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP,
		RepetitionPenalty: p.RepetitionPenalty, PresencePenalty: p.PresencePenalty, FrequencyPenalty: p.FrequencyPenalty,
		Logprobs: p.Logprobs, Seed: p.Seed, Choice: s.choice, Position: position,
		Bias: d.Bias[:0], Seen: d.Seen[:0],
	}
	for i, id := range banned {
		if id >= 0 && int(id) < s.vocab && !slices.Contains(banned[:i], id) {
			d.Bias = append(d.Bias, Bias{id, float32(math.Inf(-1))})
		}
	}
	for id, b := range p.Bias {
		if !slices.Contains(banned, id) {
			d.Bias = append(d.Bias, Bias{id, b})
		}
	}
	for id, n := range s.seen {
		d.Seen = append(d.Seen, Seen{id, n})
	}
	return true
}

// Penalizes tells whether a draw depends on which tokens came before.
func (s *Sampler) Penalizes() bool { return s.seen != nil }
