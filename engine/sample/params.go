// Package sample turns a row of logits into a token. It knows neither text nor
// devices; the engine owns one Sampler for each sequence.
package sample

import (
	"errors"
	"fmt"
	"math"
)

// Params say how tokens are drawn. The zero value of each field is not always
// its neutral one: start from Defaults.
type Params struct {
	// Temperature divides the logits; 0 is greedy. 0 … 100.
	Temperature float32
	// TopK keeps the k most likely tokens; 0 keeps all.
	TopK int
	// TopP keeps the smallest set of most likely tokens whose probabilities sum
	// to at least this. (0, 1]; 1 keeps all.
	TopP float32
	// MinP keeps the tokens at least this times as likely as the most likely
	// one. 0 … 1; 0 keeps all.
	MinP float32
	// RepetitionPenalty divides positive and multiplies negative logits of
	// tokens in the prompt or the output; 1 is off. Source:
	// https://arxiv.org/abs/1909.05858, section 4.1.
	RepetitionPenalty float32
	// PresencePenalty is taken once, FrequencyPenalty for each occurrence, from
	// the logits of tokens in the output. −2 … 2; 0 is off. Source: OpenAI API
	// reference, "frequency and presence penalties".
	PresencePenalty, FrequencyPenalty float32
	// Bias is added to the logits of single tokens, −100 … 100.
	Bias map[int32]float32
	// Seed keys the noise: the same seed, choice and position draw the same
	// number, whatever shares the batch.
	Seed uint64
	// Logprobs asks for the log probability of each token and of this many of
	// the most likely ones; −1 asks for none.
	Logprobs int
}

// Defaults are the neutral parameters: temperature 1, nothing cut, nothing
// penalized.
func Defaults() Params {
	return Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1, Logprobs: -1}
}

// Validate collects every fault. vocab is the number of logits of a row.
func (p Params) Validate(vocab int) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(p.Temperature >= 0 && p.Temperature <= 100, "temperature: %v is not in 0 … 100", p.Temperature)
	check(p.TopK >= 0, "top_k: %d is negative; use 0 to keep all tokens", p.TopK)
	check(p.TopP > 0 && p.TopP <= 1, "top_p: %v is not in (0, 1]", p.TopP)
	check(p.MinP >= 0 && p.MinP <= 1, "min_p: %v is not in 0 … 1", p.MinP)
	check(p.RepetitionPenalty > 0 && !math.IsInf(float64(p.RepetitionPenalty), 0), "repetition_penalty: %v is not a positive number", p.RepetitionPenalty)
	check(p.PresencePenalty >= -2 && p.PresencePenalty <= 2, "presence_penalty: %v is not in -2 … 2", p.PresencePenalty)
	check(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2, "frequency_penalty: %v is not in -2 … 2", p.FrequencyPenalty)
	check(p.Logprobs >= -1 && p.Logprobs <= vocab, "logprobs: %d is not in 0 … %d", p.Logprobs, vocab)
	for id, b := range p.Bias {
		check(id >= 0 && int(id) < vocab, "logit_bias: token %d is not in the vocabulary of %d tokens", id, vocab)
		check(b >= -100 && b <= 100, "logit_bias: %v for token %d is not in -100 … 100", b, id)
	}
	return errors.Join(faults...)
}
