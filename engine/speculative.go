package engine

import (
	"fmt"

	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// Speculative says how tokens are guessed that the model then checks several at
// a time. It changes when tokens come, never which: see RATIONALE.md, why does
// speculation change no token.
type Speculative struct {
	// Method is SpeculativeNone, SpeculativeNgram (guess what followed the last
	// tokens where they stood before in the same text) or SpeculativeDraft (ask a
	// smaller model). Default none.
	Method string
	// NumTokens bounds the tokens that are guessed for a sequence at a time; fewer
	// are checked, or none, where that does not pay. Default 8, 1 … 64.
	NumTokens int
	// NgramMin and NgramMax are how many of the last tokens must have stood there
	// before, and up to how many the better of two places is found by. Defaults 2
	// and 8; 1 … 64.
	NgramMin, NgramMax int
	// Draft is the smaller model, which the engine owns and closes, with its own
	// tokenizer, which must have the same tokens. Both nil without SpeculativeDraft.
	Draft          model.Model
	DraftTokenizer *tokenizer.Tokenizer
}

// The values of Speculative.Method.
const (
	SpeculativeNone  = "none"
	SpeculativeNgram = "ngram"
	SpeculativeDraft = "draft"
)

// NumSpeculative is the largest number of tokens that are guessed for a sequence
// at a time; 0: none are.
func (s *Speculative) NumSpeculative() int {
	if !s.on() {
		return 0
	}
	return s.NumTokens
}

// on tells whether anything is guessed.
func (s *Speculative) on() bool { return s.Method != SpeculativeNone }

// faults lists what is wrong with what can be configured.
func (s *Speculative) faults() (faults []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("speculative."+format, args...))
		}
	}
	check(s.Method == SpeculativeNone || s.Method == SpeculativeNgram || s.Method == SpeculativeDraft,
		"method: %q is not one of none, ngram, draft", s.Method)
	check(s.NumTokens >= 1 && s.NumTokens <= maxSpeculative, "num_tokens: %d is not in 1 … %d", s.NumTokens, maxSpeculative)
	check(s.NgramMin >= 1 && s.NgramMin <= maxSpeculative, "ngram_min: %d is not in 1 … %d", s.NgramMin, maxSpeculative)
	check(s.NgramMax >= s.NgramMin && s.NgramMax <= maxSpeculative, "ngram_max: %d is not in ngram_min … %d, that is %d … %d",
		s.NgramMax, maxSpeculative, s.NgramMin, maxSpeculative)
	return faults
}

// maxSpeculative bounds the guessed tokens of a sequence, and those that are
// compared to guess them.
const maxSpeculative = 64

// DraftCounts is what became of a sequence's drafts. A step counts if it checked
// a draft. Tokens that a check has made sure of and that come behind the end of
// the sequence are not accepted: nobody gets them.
type DraftCounts struct {
	Steps, Drafted, Accepted int
	// ByAccepted counts the steps by the number of drafts that they accepted, 0 …
	// Speculative.NumTokens.
	ByAccepted []int
	// PerStep has an entry for each step, if the request asked for it.
	PerStep []DraftStep
}

// DraftStep is what one step checked for one sequence.
type DraftStep struct{ Drafted, Accepted uint8 }

// Count enters a step.
func (c *DraftCounts) Count(drafted, accepted int) {
	c.Steps++
	c.Drafted += drafted
	c.Accepted += accepted
	c.ByAccepted[accepted]++
}
