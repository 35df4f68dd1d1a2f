package sim

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Options{Vocab: testVocab, EOS: testEOS}
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   []string // faults; none is valid
	}{
		{"the least", func(*Options) {}, nil},
		{"the most", func(o *Options) {
			o.StepBase, o.PerSequence, o.PrefillPerToken, o.Jitter = time.Minute, time.Minute, time.Minute, time.Minute
			o.Context, o.MaxRows, o.Vocab, o.EOS = 1<<24, 512, 1<<20, 1<<20-1
		}, nil},
		{"all negative", func(o *Options) { *o = Options{-1, -1, -1, -1, 0, -1, -1, -1, -1, nil} }, []string{
			"simulated device: prefill time per token -1ns is not in 0s … 1m0s",
			"base time of a step -1ns", "time per sequence -1ns", "jitter -1ns",
			"context of -1 tokens", "largest batch of -1 rows", "vocabulary of -1 tokens is not in 257 … 1048576", "end token -1",
		}},
		{"slow", func(o *Options) { o.StepBase = time.Hour }, []string{"base time of a step 1h0m0s is not in 0s … 1m0s"}},
		{"no end token", func(o *Options) { o.Vocab = 256 }, []string{"vocabulary of 256 tokens", "end token 257 is not behind the bytes, 256 … 255"}},
		{"end token is a byte", func(o *Options) { o.EOS = 'e' }, []string{"end token 101 is not behind the bytes, 256 … 258"}},
		{"end token behind the vocabulary", func(o *Options) { o.EOS = testVocab }, []string{"end token 259"}},
		{"too many logits", func(o *Options) { o.MaxRows, o.Vocab = 1<<20, 1<<20 }, []string{"1048576 rows of 1048576 logits are more than 536870912 values; use fewer rows"}},
	} {
		o := good
		c.change(&o)
		err := o.Validate()
		if _, newErr := New(o); (newErr == nil) != (err == nil) {
			t.Errorf("%s: New says %v, Validate %v", c.name, newErr, err)
		}
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v, want it valid", c.name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: %+v is valid, want %q", c.name, o, c.want)
			continue
		}
		if got := strings.Count(err.Error(), "\n") + 1; got != len(c.want) {
			t.Errorf("%s: %d faults, want %d: %v", c.name, got, len(c.want), err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
}
