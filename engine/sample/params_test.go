package sample

import (
	"math"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Params)
		want   []string // faults; none is valid
	}{
		{"defaults", func(*Params) {}, nil},
		{"least", func(p *Params) {
			*p = Params{TopP: math.SmallestNonzeroFloat32, RepetitionPenalty: 0.01, PresencePenalty: -2, FrequencyPenalty: -2, Logprobs: -1, Bias: map[int32]float32{0: -100}}
		}, nil},
		{"greatest", func(p *Params) {
			*p = Params{Temperature: 100, TopK: math.MaxInt, TopP: 1, MinP: 1, RepetitionPenalty: 1e6, PresencePenalty: 2, FrequencyPenalty: 2, Logprobs: 10, Bias: map[int32]float32{9: 100}}
		}, nil},
		{"all below", func(p *Params) {
			*p = Params{Temperature: -1, TopK: -1, TopP: 0, MinP: -0.1, RepetitionPenalty: 0, PresencePenalty: -2.1, FrequencyPenalty: -3, Logprobs: -2, Bias: map[int32]float32{-1: -101}}
		}, []string{
			"temperature: -1 is not in 0 … 100", "top_k: -1 is negative", "top_p: 0 is not in (0, 1]", "min_p: -0.1",
			"repetition_penalty: 0", "presence_penalty: -2.1", "frequency_penalty: -3", "logprobs: -2 is not in 0 … 10",
			"logit_bias: token -1 is not in the vocabulary of 10 tokens", "logit_bias: -101 for token -1",
		}},
		{"all NaN", func(p *Params) {
			*p = Params{Temperature: nan, TopP: nan, MinP: nan, RepetitionPenalty: nan, PresencePenalty: nan, FrequencyPenalty: nan, Logprobs: -1, Bias: map[int32]float32{1: nan}}
		}, []string{"temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias: NaN for token 1"}},
		{"infinite", func(p *Params) { p.Temperature, p.RepetitionPenalty = inf, inf }, []string{"temperature: +Inf", "repetition_penalty: +Inf"}},
		{"bias behind the vocabulary", func(p *Params) { p.Bias = map[int32]float32{10: 1} }, []string{"token 10 is not in the vocabulary"}},
		{"more logprobs than tokens", func(p *Params) { p.Logprobs = 11 }, []string{"logprobs: 11 is not in 0 … 10"}},
	} {
		p := Defaults()
		c.change(&p)
		err := p.Validate(10)
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d faults, want %d: %q", c.name, len(got), len(c.want), got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: fault %q, want %q", c.name, got[i], want)
			}
		}
	}
}
