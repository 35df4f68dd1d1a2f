package engine_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
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
	ngram := func(o *engine.Options) { o.Speculative.Method = engine.SpeculativeNgram }
	for _, c := range []comparison{
		{"copy", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 1},
		{"copy, 4 at once", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 4},
		{"copy, 16 at once", encode(strings.Repeat(passage, 2) + passage[:40]), 0, 16},
		{"story", story, 1, 1},
		{"story, 4 at once", story, 1, 4},
		{"random", s.prompt(rand.New(rand.NewPCG(1, 1)), 64), 5, 1},
	} {
		b.Run(c.name, func(b *testing.B) { c.run(b, s, "ngram", ngram) })
	}
}

// BenchmarkDraftModel is BenchmarkSpeculation with a draft model: of a model of float16, its
// own 4 bits, a third of the bytes, guess. A smaller model of the same vocabulary is not at
// hand.
func BenchmarkDraftModel(b *testing.B) {
	s, small := smol(b), smol(b)
	widen(b, s.file)
	story := s.tokenizer.Encode(nil, "Once upon a time there was a lighthouse keeper who", tokenizer.AsText)
	draft := func(o *engine.Options) {
		device, err := cpu.New(cpu.Options{MaxRows: o.MaxNumBatchedTokens})
		if err != nil {
			b.Fatal(err)
		}
		m, err := model.Load(small.file, device)
		if err != nil {
			b.Fatal(err)
		}
		o.Speculative.Method, o.Speculative.Draft, o.Speculative.DraftTokenizer = engine.SpeculativeDraft, m, small.tokenizer
	}
	for _, c := range []comparison{
		{"greedy", story, 0, 1},
		{"temperature 1", story, 1, 1},
		{"greedy, 4 at once", story, 0, 4},
	} {
		b.Run(c.name, func(b *testing.B) { c.run(b, s, "draft", draft) })
	}
}

// widen makes a file's matrices float16.
func widen(b *testing.B, f *gguf.File) {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if len(t.Shape) < 2 { // norms stay as they are
			continue
		}
		n := len(t.Data) / t.Type.BlockBytes() * t.Type.BlockLen()
		values, halves := make([]float32, n), make([]byte, 0, 2*n)
		if err := gguf.Dequantize(values, t.Data, t.Type); err != nil {
			b.Fatal(err)
		}
		for _, v := range values {
			halves = binary.LittleEndian.AppendUint16(halves, kernels.F16FromF32(v))
		}
		t.Type, t.Data = gguf.F16, halves
	}
}

// comparison is some requests at once of one prompt.
type comparison struct {
	name        string
	prompt      []int32
	temperature float32
	at          int
}

// run times the requests without and with speculation, in turn.
func (c comparison) run(b *testing.B, s subject, name string, speculate func(*engine.Options)) {
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
	engines := []*engine.Engine{s.engine(b, func(*engine.Options) {}), s.engine(b, speculate)}
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
	b.ReportMetric(float64(c.at*length)/median(took[1]), name+"-tok/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(float64(accepted)/float64(max(drafted, 1)), "accepted")
	b.ReportMetric(float64(drafted)/float64(b.N*c.at*length), "drafts/tok")
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	return sorted[len(sorted)/2]
}
