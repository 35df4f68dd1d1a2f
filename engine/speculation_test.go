package engine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// copies are requests whose texts repeat themselves, with every option that
// depends on which tokens came before.
func copies(s subject) []*engine.Request {
	rnd := rand.New(rand.NewPCG(5, 5))
	var all []*engine.Request
	for i, change := range []func(*engine.Request){
		func(*engine.Request) {},
		func(r *engine.Request) { r.Sampling.Temperature = 0.7 },
		func(r *engine.Request) { r.Sampling.Temperature, r.Sampling.RepetitionPenalty = 0.3, 1.2 },
		func(r *engine.Request) { r.Sampling.PresencePenalty, r.Sampling.FrequencyPenalty = 0.9, 0.4 },
		func(r *engine.Request) { r.N, r.Sampling.Temperature = 3, 0.5 },
		func(r *engine.Request) { r.PromptLogprobs = true },
		func(r *engine.Request) { r.MaxTokens = 1 },
		func(r *engine.Request) { r.MaxTokens = 2 },
		// What is likely is forbidden for a while, and ends the text afterwards.
		func(r *engine.Request) { r.MinTokens, r.StopTokens = s.output/2, r.Prompts[0][:3] },
		func(r *engine.Request) { r.Stop = []string{string(s.tokenizer.Piece(r.Prompts[0][2]))} },
		func(r *engine.Request) {
			r.MinTokens, r.IncludeStop = s.output/3, true
			r.Stop = []string{string(s.tokenizer.Piece(r.Prompts[0][1])) + string(s.tokenizer.Piece(r.Prompts[0][2]))}
		},
		func(r *engine.Request) {
			r.Sampling.Bias = map[int32]float32{r.Prompts[0][0]: 3, r.Prompts[0][1]: -100}
		},
		func(r *engine.Request) { r.Sampling.TopK, r.Sampling.Temperature = 4, 1 },
		// One token over and over, until a better one that ends the text is allowed.
		func(r *engine.Request) {
			r.Sampling.Bias = map[int32]float32{r.Prompts[0][0]: 100, r.Prompts[0][1]: 50}
			r.MinTokens, r.StopTokens = s.output/2, r.Prompts[0][:1]
		},
		// One token over and over, and two that take turns by their penalties, which
		// count each accepted draft.
		func(r *engine.Request) { r.Sampling.Bias = map[int32]float32{r.Prompts[0][0]: 100} },
		func(r *engine.Request) {
			r.Sampling.Bias = map[int32]float32{r.Prompts[0][0]: 100, r.Prompts[0][1]: 100}
			r.Sampling.FrequencyPenalty, r.Sampling.PresencePenalty = 2, 0.5
		},
	} {
		line := s.prompt(rnd, 9)
		p := sample.Defaults()
		p.Temperature, p.Seed, p.Logprobs = 0, uint64(i), 2
		r := &engine.Request{
			Prompts: [][]int32{slices.Concat(line, line, line[:4])}, N: 1, Sampling: p,
			MaxTokens: s.output, IgnoreEOS: true, DraftSteps: true,
		}
		change(r)
		all = append(all, r)
	}
	return all
}

// clock is a time that passes while models compute, and not otherwise.
type clock struct{ now atomic.Int64 }

func (c *clock) read() time.Duration { return time.Duration(c.now.Load()) }

// takes makes each batch of a model take as long as cost says.
func (c *clock) takes(m model.Model, cost func() time.Duration) model.Model {
	c.now.Add(1) // a reading is positive
	return timed{m, c, cost}
}

type timed struct {
	model.Model
	clock *clock
	cost  func() time.Duration
}

func (m timed) Forward(b *backend.Batch) ([]float32, error) {
	m.clock.now.Add(int64(m.cost()))
	return m.Model.Forward(b)
}

// flat is the cost of a device that only waits: every draft pays.
func flat() time.Duration { return 10 * time.Millisecond }

// small is that of a draft model beside it.
func small() time.Duration { return time.Millisecond / 10 }

// jumping costs, 1 µs to 10 ms, are such that drafts pay by chance, again and
// again.
func jumping() func() time.Duration {
	rnd := rand.New(rand.NewPCG(9, 9))
	return func() time.Duration {
		return time.Duration(math.Pow(10, 4*rnd.Float64()) * float64(time.Microsecond))
	}
}

func ngram(o *engine.Options) {
	o.Speculative.Method, o.Speculative.NumTokens, o.Speculative.NgramMin = engine.SpeculativeNgram, 5, 1
}

// withDraft lets a model file guess, which may be the model's own.
func (s subject) withDraft(t *testing.T, file *gguf.File, c *clock, cost func() time.Duration) func(*engine.Options) {
	return func(o *engine.Options) {
		b, err := cpu.New(cpu.Options{MaxRows: o.MaxNumBatchedTokens})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(file, b)
		if err != nil {
			t.Fatal(err)
		}
		o.Speculative.Method, o.Speculative.NumTokens = engine.SpeculativeDraft, 4
		o.Speculative.Draft, o.Speculative.DraftTokenizer = c.takes(m, cost), s.tokenizer
	}
}

// squeeze leaves room for the longest sequence, and for a part of what all need.
func squeeze(perToken int64) func(*engine.Options) {
	return func(o *engine.Options) {
		o.MaxNumSeqs, o.BlockSize, o.MaxModelLen = 16, 8, 56
		o.KVCacheMemory = perToken * 8 * 14
	}
}

// TestSpeculationChangesNothing: tokens, log probabilities to the bit, texts and
// ends are the same with drafts and without, whoever makes them, and whether
// they are right, wrong, or not worth their time.
func TestSpeculationChangesNothing(t *testing.T) {
	for name, open := range map[string]func(*testing.T) subject{"tiny": tinySubject, "SmolLM2": smolSubject} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			real := name != "tiny"
			requests := copies(s)
			if real {
				requests = append(requests[1:4], requests[len(requests)-2:]...)
			}
			without := s.engine(t, func(o *engine.Options) { o.MaxNumSeqs = 1 })
			want := run(t, without, requests)
			perToken := without.Shape().KVBytes
			chunked := func(o *engine.Options) { o.MaxNumBatchedTokens, o.MaxNumSeqs = 17, 3 }
			alone := func(o *engine.Options) { o.MaxNumSeqs = 1 }
			unshared := func(o *engine.Options) { o.PrefixCaching = false }
			type changes = []func(*engine.Options)
			for _, c := range []struct {
				name    string
				changes changes
				draft   bool                 // a draft model guesses: the model itself
				cost    func() time.Duration // default flat, and small for the draft model
				tiny    bool                 // not worth a real model's time
				preempt bool
				// least is the least share of drafts that must come true.
				least float64
			}{
				{name: "ngram alone", changes: changes{alone}, tiny: true},
				{name: "ngram batched"},
				{name: "ngram now and then", cost: jumping(), tiny: true},
				{name: "ngram chunked", changes: changes{chunked}, tiny: true},
				{name: "ngram without prefix caching", changes: changes{unshared}, tiny: true},
				{name: "ngram preempted", changes: changes{squeeze(perToken)}, tiny: true, preempt: true},
				{name: "draft model alone", draft: true, changes: changes{alone}, tiny: true, least: 0.8},
				{name: "draft model batched", draft: true, least: 0.8},
				{name: "draft model now and then", draft: true, cost: jumping(), tiny: true, least: 0.8},
				{name: "draft model chunked", draft: true, changes: changes{chunked}, tiny: true, least: 0.8},
				{name: "draft model without prefix caching", draft: true, changes: changes{unshared}, tiny: true, least: 0.8},
				{name: "draft model preempted", draft: true, changes: changes{squeeze(2 * perToken)}, tiny: true, preempt: true, least: 0.8},
			} {
				if c.tiny && real {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					time := &clock{}
					cost, draftCost := flat, small
					if c.cost != nil {
						cost, draftCost = c.cost, c.cost
					}
					s.wrap = func(m model.Model) model.Model { return time.takes(m, cost) }
					e := s.engine(t, func(o *engine.Options) {
						for _, change := range c.changes {
							change(o)
						}
						o.Now = time.read
						if ngram(o); c.draft {
							s.withDraft(t, s.file, time, draftCost)(o)
						}
					})
					sum := outcome{}
					for range 2 { // the second time, prompts are in the cache
						for i, got := range run(t, e, requests) {
							alike(t, i, got, want[i])
							sum.preemptions += got.preemptions
							sum.drafted += got.drafted
							sum.accepted += got.accepted
						}
					}
					t.Logf("%d of %d drafts accepted, %d preemptions", sum.accepted, sum.drafted, sum.preemptions)
					if sum.accepted == 0 || float64(sum.accepted) < c.least*float64(sum.drafted) {
						t.Errorf("%d of %d drafts were accepted, want more", sum.accepted, sum.drafted)
					}
					if c.preempt != (sum.preemptions > 0) {
						t.Errorf("%d preemptions, want some: %v", sum.preemptions, c.preempt)
					}
				})
			}
		})
	}
}

// alike compares all that a reader sees of two runs.
func alike(t *testing.T, request int, got, want outcome) {
	t.Helper()
	same(t, request, got.tokens, want.tokens)
	same(t, request, got.scored, want.scored)
	if !slices.Equal(got.texts, want.texts) || !slices.Equal(got.ends, want.ends) {
		t.Errorf("request %d: texts %q, ends %q; alone %q, %q", request, got.texts, got.ends, want.texts, want.ends)
	}
}
