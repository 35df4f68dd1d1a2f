package engine_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// passage is a text to repeat. From Darwin, On the Origin of Species, 1859, the
// last paragraph.
const passage = `It is interesting to contemplate an entangled bank, clothed with many plants of many kinds, with birds singing on the bushes, with various insects flitting about, and with worms crawling through the damp earth, and to reflect that these elaborately constructed forms, so different from each other, and dependent on each other in so complex a manner, have all been produced by laws acting around us. `

// BenchmarkSpeculation runs the same requests with and without n-gram drafts, in
// turn, and prints output tokens a second and their ratio. A copied text is what
// drafts are for; random tokens, and a story at temperature 1, are what must not
// become slower.
func BenchmarkSpeculation(b *testing.B) {
	s := smol(b)
	encode := func(text string) []int32 { return s.tokenizer.Encode(nil, text, tokenizer.AsText) }
	story := encode("Once upon a time there was a lighthouse keeper who")
	for _, c := range []struct {
		name        string
		prompt      []int32
		temperature float32
		at          int // requests at once
	}{
		{"copy", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 1},
		{"copy, 4 at once", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 4},
		{"copy, 16 at once", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 16},
		{"story", story, 1, 1},
		{"story, 4 at once", story, 1, 4},
		{"random", s.prompt(rand.New(rand.NewPCG(1, 1)), 64), 5, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			const length = 96
			ask := func(seed int) (all []*engine.Request) {
				p := sample.Defaults()
				p.Temperature, p.Seed = c.temperature, uint64(seed)
				for i := range c.at {
					p.Seed += uint64(i)
					all = append(all, &engine.Request{Prompts: [][]int32{c.prompt}, N: 1, Sampling: p, MaxTokens: length, IgnoreEOS: true})
				}
				return all
			}
			engines := []*engine.Engine{
				s.engine(b, func(*engine.Options) {}),
				s.engine(b, func(o *engine.Options) { o.Speculative.Method = engine.SpeculativeNgram }),
			}
			took := make([][]float64, len(engines))
			accepted, drafted := 0, 0
			for i := range b.N {
				for k := range engines {
					j := (i + k) % len(engines) // in turn, and who is first in turn
					begun := time.Now()
					for _, o := range run(b, engines[j], ask(i)) {
						accepted, drafted = accepted+o.accepted, drafted+o.drafted
					}
					took[j] = append(took[j], time.Since(begun).Seconds())
				}
			}
			// Neighbours make rounds slower: the median of each, and of their ratios.
			ratios := make([]float64, b.N)
			for i := range ratios {
				ratios[i] = took[0][i] / took[1][i]
			}
			b.ReportMetric(float64(c.at*length)/median(took[0]), "plain-tok/s")
			b.ReportMetric(float64(c.at*length)/median(took[1]), "ngram-tok/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(float64(accepted)/float64(max(drafted, 1)), "accepted")
			b.ReportMetric(float64(drafted)/float64(b.N*c.at*length), "drafts/tok")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	return sorted[len(sorted)/2]
}
