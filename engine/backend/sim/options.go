package sim

import (
	"errors"
	"fmt"
	"time"
)

// Options are the device's latency profile and its size. A step takes
//
//	StepBase + prefill rows · PrefillPerToken + sequences · PerSequence + jitter
//
// where the prefill rows are those of sequences that bring more than one, and
// the jitter is uniform in 0 … Jitter. The zero durations are a device that
// takes no time.
type Options struct {
	// PrefillPerToken, StepBase, PerSequence and Jitter are 0 … 1 minute.
	PrefillPerToken, StepBase, PerSequence, Jitter time.Duration
	// Seed keys the jitter: the same seed draws the same times, step by step.
	Seed uint64
	// Context is the longest sequence in tokens. Default 8192, up to 2²⁴.
	Context int
	// MaxRows is the largest batch in rows. Default 8192, up to 2²⁰.
	MaxRows int
	// Vocab is the size of the tokenizer's vocabulary, whose first 256 tokens
	// are the bytes. 257 … 2²⁰.
	Vocab int
	// EOS is the token that ends a text: one behind the bytes.
	EOS int32
	// Sleep lets a step's time pass; default time.Sleep. It is called once a
	// step, so that a test can read the times instead of waiting.
	Sleep func(time.Duration)
}

// The defaults of the sizes, and their limits.
const (
	defaultContext = 8192
	defaultMaxRows = 8192

	numBytes = 256

	maxDuration = time.Minute
	maxContext  = 1 << 24
	maxRows     = 1 << 20
	maxVocab    = 1 << 20
	maxLogits   = 1 << 29 // values, 2 GiB
)

// withDefaults fills what is zero.
func (o Options) withDefaults() Options {
	if o.Context == 0 {
		o.Context = defaultContext
	}
	if o.MaxRows == 0 {
		o.MaxRows = defaultMaxRows
	}
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	return o
}

// Validate collects every fault. Zero sizes are their defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("simulated device: "+format, args...))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"prefill time per token", o.PrefillPerToken},
		{"base time of a step", o.StepBase},
		{"time per sequence", o.PerSequence},
		{"jitter", o.Jitter},
	} {
		check(d.value >= 0 && d.value <= maxDuration, "%s %s is not in 0s … %s", d.name, d.value, maxDuration)
	}
	check(o.Context >= 1 && o.Context <= maxContext, "context of %d tokens is not in 1 … %d", o.Context, maxContext)
	check(o.MaxRows >= 1 && o.MaxRows <= maxRows, "largest batch of %d rows is not in 1 … %d", o.MaxRows, maxRows)
	check(o.Vocab > numBytes && o.Vocab <= maxVocab, "vocabulary of %d tokens is not in %d … %d: the bytes and an end token", o.Vocab, numBytes+1, maxVocab)
	check(o.EOS >= numBytes && int(o.EOS) < o.Vocab, "end token %d is not behind the bytes, %d … %d", o.EOS, numBytes, o.Vocab-1)
	if len(faults) == 0 {
		check(o.MaxRows <= maxLogits/o.Vocab, "%d rows of %d logits are more than %d values; use fewer rows", o.MaxRows, o.Vocab, maxLogits)
	}
	return errors.Join(faults...)
}
