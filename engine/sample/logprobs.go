package sample

import (
	"math"
	"slices"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Logprob is a token and the natural logarithm of its probability.
type Logprob struct {
	ID    int32
	Value float32
}

// Score is a given token with its log probability in a row and the top most
// likely ones, as Sample reports them for the token it draws.
func (s *Scratch) Score(logits []float32, id int32, top int) Token {
	raw := newLogprobs(s, logits)
	return Token{id, raw.of(id), raw.top(s, top)}
}

// logprobs are a row's log probabilities as the model gave them: before bias,
// bans, penalties and temperature, as vLLM reports them by default
// (logprobs_mode "raw_logprobs", https://docs.vllm.ai, "Sampling parameters").
type logprobs struct {
	row  []float32 // [vocab]
	peak float32   // the greatest logit
	norm float64   // the logarithm of the sum of e^(logit − peak)
}

// newLogprobs keeps a copy of the row in the scratch, for the row is about to be
// changed.
func newLogprobs(s *Scratch, logits []float32) logprobs {
	row := s.raw[:copy(s.raw, logits)]
	best, peak := s.greatest(row)
	if best < 0 {
		return logprobs{row, 0, 0} // no token has any
	}
	total := s.ops.SumWeights(row, peak, kernels.WeightScale(1))
	return logprobs{row, peak, math.Log(float64(total) / kernels.OneWeight)}
}

// of is a token's log probability; −Inf where it has none.
func (l logprobs) of(id int32) float32 {
	switch x := l.row[id]; {
	case !(float64(x) > math.Inf(-1)):
		return float32(math.Inf(-1))
	case x == l.peak: // also where both are infinite
		return float32(-l.norm)
	default:
		return float32(float64(x) - float64(l.peak) - l.norm)
	}
}

// top lists the n most likely tokens, the lowest id first among equals; fewer
// when fewer have a probability.
func (l logprobs) top(s *Scratch, n int) []Logprob {
	if n == 0 {
		return nil
	}
	entries := s.top(l.row, n)
	slices.Sort(entries)
	list := make([]Logprob, len(entries))
	for i, e := range entries {
		list[len(list)-1-i] = Logprob{e.id(), l.of(e.id())}
	}
	return list
}
