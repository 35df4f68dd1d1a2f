package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// subject is a model to run requests on, opened anew for each engine.
type subject struct {
	file      *gguf.File
	tokenizer *tokenizer.Tokenizer
	prompt    func(rnd *rand.Rand, n int) []int32
	// requests run at once, of output tokens each; a real model takes its time.
	requests, output int
	// wrap, if set, stands before the model.
	wrap func(model.Model) model.Model
}

func tinySubject(t *testing.T) subject {
	names := make([]string, 101) // the tiny model's vocabulary
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
	}
	tok, err := tokenizer.New(tokenizer.Vocab{Model: "gpt2", Pre: "gpt2", Tokens: names, Types: slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(names)), BOS: tokenizer.None, EOS: tokenizer.None})
	if err != nil {
		t.Fatal(err)
	}
	return subject{file: backendtest.TinyFile(t), tokenizer: tok, prompt: randomPrompt(len(names)), requests: 16, output: 24}
}

func smolSubject(t *testing.T) subject { return smol(t) }

func smol(t testing.TB) subject {
	if testing.Short() {
		t.Skip("runs a real model: leave out -short")
	}
	path := filepath.Join("..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the model file: run `make model` (%v)", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return subject{file: f, tokenizer: tok, prompt: randomPrompt(tok.Size()), requests: 8, output: 14}
}

func randomPrompt(vocab int) func(*rand.Rand, int) []int32 {
	return func(rnd *rand.Rand, n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = rnd.Int32N(int32(vocab))
		}
		return ids
	}
}

func (s subject) engine(t testing.TB, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Default()
	o.KVCacheMemory = 64 << 20
	change(&o)
	b, err := cpu.New(cpu.Options{MaxRows: o.MaxNumBatchedTokens})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(s.file, b)
	if err != nil {
		t.Fatal(err)
	}
	if s.wrap != nil {
		m = s.wrap(m)
	}
	e, err := engine.New(m, s.tokenizer, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// outcome is all that a request's numbers say: tokens, and the log
// probabilities of each and of the most likely others, to the bit.
type outcome struct {
	// tokens are those of the first choice, then the next one's.
	tokens                       []sample.Token
	preemptions, cached, written int
	// scored are the prompt's tokens, if they were asked for; texts and ends are
	// the choices' texts and why they ended.
	scored      []sample.Token
	texts, ends []string
	// drafts is what became of all choices' drafts.
	drafted, accepted int
}

func run(t testing.TB, e *engine.Engine, requests []*engine.Request) []outcome {
	t.Helper()
	streams := make([]*engine.Stream, len(requests))
	for i, r := range requests {
		var err error
		if streams[i], err = e.Submit(r); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]outcome, len(requests))
	for i, s := range streams {
		var d engine.Delivery
		choices := make([][]sample.Token, requests[i].N)
		out[i].texts, out[i].ends = make([]string, requests[i].N), make([]string, requests[i].N)
		for s.Receive(&d, nil) == nil {
			for _, o := range d.Outputs {
				choices[o.Choice] = append(choices[o.Choice], o.Tokens...)
				out[i].scored = append(out[i].scored, o.Prompt...)
				out[i].texts[o.Choice] += string(o.Text)
				if o.Finish != engine.None {
					out[i].preemptions += o.Life.Preemptions
					out[i].cached += o.Life.CachedTokens
					out[i].written += o.Life.CacheWriteTokens
					out[i].ends[o.Choice] = fmt.Sprintf("%v %q %d, %d tokens", o.Finish, o.StopString, o.StopToken, o.Life.CompletionTokens)
					if d := o.Life.Drafts; d != nil {
						out[i].drafted += d.Drafted
						out[i].accepted += d.Accepted
					}
				}
				if o.Finish == engine.Failed {
					t.Fatalf("request %d: %v", i, o.Err)
				}
			}
		}
		out[i].tokens = slices.Concat(choices...)
	}
	return out
}

// TestSharingChangesNothing: a request draws the same tokens, with bitwise the
// same probabilities, alone, in a batch, with its prompt cut into
// chunks, and preempted and resumed.
func TestSharingChangesNothing(t *testing.T) {
	for name, open := range map[string]func(*testing.T) subject{"tiny": tinySubject, "SmolLM2": smolSubject} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			rnd := rand.New(rand.NewPCG(7, 7))
			requests := make([]*engine.Request, s.requests)
			for i := range requests {
				p := sample.Defaults()
				p.Temperature, p.TopP, p.Seed, p.Logprobs = 0.9, 0.95, uint64(i), 2
				p.RepetitionPenalty = 1.1
				requests[i] = &engine.Request{Prompts: [][]int32{s.prompt(rnd, 5+2*i)}, N: 1, Sampling: p, MaxTokens: s.output, IgnoreEOS: true}
			}
			alone := s.engine(t, func(o *engine.Options) { o.MaxNumSeqs = 1 })
			want := run(t, alone, requests)
			for _, c := range []struct {
				name   string
				change func(*engine.Options)
				want   bool // preemptions
			}{
				{name: "batched", change: func(o *engine.Options) { o.MaxNumSeqs = 16 }},
				{name: "chunked", change: func(o *engine.Options) { o.MaxNumBatchedTokens = 7 }},
				{name: "preempted", change: func(o *engine.Options) {
					o.MaxNumSeqs, o.BlockSize = 16, 8
					// Room for the longest, and for a part of what all need.
					o.KVCacheMemory = alone.Shape().KVBytes * 8 * 14
				}, want: true},
			} {
				t.Run(c.name, func(t *testing.T) {
					e := s.engine(t, c.change)
					preemptions := 0
					for i, got := range run(t, e, requests) {
						preemptions += got.preemptions
						same(t, i, got.tokens, want[i].tokens)
					}
					if (preemptions > 0) != c.want {
						t.Errorf("%d preemptions, want some: %v", preemptions, c.want)
					}
				})
			}
		})
	}
}

// same compares two runs of a request to the bit.
func same(t *testing.T, request int, got, want []sample.Token) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("request %d: %d tokens, alone %d", request, len(got), len(want))
	}
	for j, g := range got {
		if w := want[j]; g.ID != w.ID || math.Float32bits(g.Logprob) != math.Float32bits(w.Logprob) || !slices.Equal(g.Top, w.Top) {
			t.Fatalf("request %d, token %d: %+v, alone %+v", request, j, g, w)
		}
	}
}
