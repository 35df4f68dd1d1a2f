package sample

import (
	"math"
	"math/bits"
	"slices"
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
		best, _ := greatest(logits)
		if best < 0 {
			return lowestAllowed(banned, len(logits))
		}
		return best
	}
	candidates := s.candidates(scratch, logits)
	if len(candidates) == 0 {
		return lowestAllowed(banned, len(logits))
	}
	// The high half of noise · total is uniform in 0 … total−1.
	at, _ := bits.Mul64(noise(s.params.Seed, s.choice, position), sum(candidates))
	return pick(candidates, at)
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

// candidates are the tokens that may be drawn, with their weights, in token
// order. Top-k comes before min-p, for weights are the dear part; both keep the
// most likely down to a bound that does not depend on the other, so they commute.
func (s *Sampler) candidates(scratch *Scratch, logits []float32) []entry {
	p := &s.params
	var entries []entry
	if scale := scale(float64(p.Temperature)); p.TopK > 0 && p.TopK < len(logits) {
		entries = scratch.weigh(scratch.top(logits, p.TopK), scale)
	} else {
		entries = scratch.weighAll(logits, scale)
	}
	if p.MinP > 0 {
		entries = atLeast(entries, newEntry(uint64(math.Ceil(float64(p.MinP)*one)), MaxVocab-1))
	}
	if p.TopP < 1 && len(entries) > 0 {
		entries = scratch.nucleus(entries, float64(p.TopP))
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

// greatest finds the first of the greatest logits; −1 if all are −Inf or NaN.
func greatest(logits []float32) (id int32, peak float32) {
	id, peak = -1, float32(math.Inf(-1))
	for i := next(logits, 0, peak); i < len(logits); i = next(logits, i+1, peak) {
		id, peak = int32(i), logits[i]
	}
	return id, peak
}

// next is the first index from i on whose logit is greater than floor, or
// len(logits). Four comparisons a turn halve the time of a vocabulary without
// any, which is the usual case.
func next(logits []float32, i int, floor float32) int {
	for rest := logits[i:]; len(rest) >= 4; rest = rest[4:] {
		if rest[0] > floor || rest[1] > floor || rest[2] > floor || rest[3] > floor {
			break
		}
		i += 4
	}
	for i < len(logits) && !(logits[i] > floor) {
		i++
	}
	return i
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
