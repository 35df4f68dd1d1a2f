package sample

import (
	"math"
	"math/bits"
	"slices"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Sampler draws the tokens of one sequence. A token depends on its row of
// logits, the tokens before it and the key (seed, choice, position) alone,
// never on what else is in the batch.
type Sampler struct {
	params Params
	choice int
	vocab  int
	// seen counts the output's tokens; those of the prompt alone stand at 0.
	// nil when nothing is penalized.
	seen map[int32]int32
}

// Token is what was drawn.
type Token struct {
	ID int32
	// Logprob and Top are filled when Params.Logprobs is not negative: the log
	// probabilities of the model itself, before bias, bans, penalties and
	// temperature, so that they can be compared between requests. −Inf is a
	// token that the model excludes.
	Logprob float32
	Top     []Logprob
}

// NewSampler makes the sampler of one of a request's choices. The parameters
// have been validated; the prompt is not kept.
func NewSampler(p Params, choice int, prompt []int32, vocab int) *Sampler {
	s := &Sampler{params: p, choice: choice, vocab: vocab}
	if p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0 {
		s.seen = make(map[int32]int32)
	}
	if p.RepetitionPenalty != 1 {
		for _, id := range prompt {
			if id >= 0 && int(id) < vocab {
				s.seen[id] = 0
			}
		}
	}
	return s
}

// Accept counts a token of the output for the penalties. Sample does not: a
// token may be drawn and refused, or known and never drawn.
func (s *Sampler) Accept(id int32) {
	if s.seen != nil && id >= 0 && int(id) < s.vocab {
		s.seen[id]++
	}
}

// Sample draws the token at a position of the sequence from its row of logits,
// which it may change. [vocab] Banned tokens are out of the question. The order
// is vLLM's: bias and bans, penalties, greedy at temperature 0; otherwise
// temperature, min-p, top-k, top-p and one number against the sums of the
// probabilities in token order.
//
// Logits that are NaN never win. If none is left, the token is the lowest that
// is not banned.
func (s *Sampler) Sample(scratch *Scratch, logits []float32, position int, banned []int32) Token {
	if s.params.Logprobs < 0 {
		return Token{ID: s.Draw(scratch, logits, position, banned)}
	}
	raw := newLogprobs(scratch, logits)
	id := s.Draw(scratch, logits, position, banned)
	return Token{id, raw.of(id), raw.top(scratch, s.params.Logprobs)}
}

// Draw is Sample without log probabilities.
func (s *Sampler) Draw(scratch *Scratch, logits []float32, position int, banned []int32) int32 {
	s.bias(logits, banned)
	s.penalize(logits)
	if s.params.Temperature == 0 {
		best, _ := scratch.greatest(logits)
		if best < 0 {
			return lowestAllowed(banned, len(logits))
		}
		return best
	}
	p, u := &s.params, noise(s.params.Seed, s.choice, position)
	if p.MinP == 0 && p.TopP == 1 && !s.cutsTop(logits) {
		if id := scratch.drawAny(logits, s.scale(), u); id >= 0 {
			return id
		}
		return lowestAllowed(banned, len(logits))
	}
	candidates := s.candidates(scratch, logits)
	if len(candidates) == 0 {
		return lowestAllowed(banned, len(logits))
	}
	// The high half of noise · total is uniform in 0 … total−1.
	at, _ := bits.Mul64(u, sum(candidates))
	return pick(candidates, at)
}

// scale turns distances between logits into those between weights.
func (s *Sampler) scale() float64 { return kernels.WeightScale(float64(s.params.Temperature)) }

// cutsTop tells whether top-k leaves any token out.
func (s *Sampler) cutsTop(logits []float32) bool {
	return s.params.TopK > 0 && s.params.TopK < len(logits)
}

// pick returns the token whose weight covers at, 0 … sum−1, when the weights are
// laid end to end: the inverse of their cumulative distribution.
func pick(candidates []entry, at uint64) int32 {
	for _, c := range candidates {
		if at < c.value() {
			return c.id()
		}
		at -= c.value()
	}
	panic("sample: the number drawn is not below the sum of the weights")
}

// candidates are the tokens that may be drawn where some cut is made, with their
// weights, in token order. Top-k comes before min-p, for weights are the dear
// part; both keep the most likely down to a bound that does not depend on the
// other, so they commute.
func (s *Sampler) candidates(scratch *Scratch, logits []float32) []entry {
	p, scale := &s.params, s.scale()
	least := max(uint64(math.Ceil(float64(p.MinP)*kernels.OneWeight)), 1)
	var entries []entry
	switch {
	case s.cutsTop(logits):
		entries = atLeast(weigh(scratch.top(logits, p.TopK), scale), newEntry(least, MaxVocab-1))
	default:
		best, peak := scratch.greatest(logits)
		if best < 0 {
			return nil
		}
		if p.MinP == 0 && p.TopP < 1 {
			return scratch.topShare(logits, peak, scale, float64(p.TopP))
		}
		entries = scratch.heavy(logits, peak, scale, least)
	}
	if p.TopP < 1 && len(entries) > 0 {
		entries = scratch.nucleus(entries, need(float64(p.TopP), sum(entries)))
	}
	return entries
}

// bias adds to single logits and takes the banned ones out.
func (s *Sampler) bias(logits []float32, banned []int32) {
	for id, b := range s.params.Bias {
		logits[id] += b
	}
	for _, id := range banned {
		if id >= 0 && int(id) < len(logits) {
			logits[id] = float32(math.Inf(-1))
		}
	}
}

// penalize takes the repetition penalty first, then frequency and presence, as
// vLLM does. Each token's logit is changed on its own, so the map's order does
// not matter.
func (s *Sampler) penalize(logits []float32) {
	p := &s.params
	for id, n := range s.seen {
		x := logits[id]
		if x > 0 {
			x /= p.RepetitionPenalty
		} else {
			x *= p.RepetitionPenalty
		}
		if n > 0 {
			x -= float32(p.FrequencyPenalty * float32(n))
			x -= p.PresencePenalty
		}
		logits[id] = x
	}
}

// lowestAllowed is the token of a row without any.
func lowestAllowed(banned []int32, vocab int) int32 {
	for id := range int32(vocab) {
		if !slices.Contains(banned, id) {
			return id
		}
	}
	return 0
}
