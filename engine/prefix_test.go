package engine_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// conversations are requests of two owners that begin alike in many ways: the
// same instructions, then turns that go on from each other, as a chat does, and
// the very same prompt twice.
func conversations(s subject, chats, numRounds int) [][]*engine.Request {
	rnd := rand.New(rand.NewPCG(11, 11))
	instructions := s.prompt(rnd, 37)
	rounds := make([][]*engine.Request, numRounds)
	for chat := range chats {
		prompt := append(slices.Clone(instructions[:32+chat%3]), s.prompt(rnd, 3+chat)...)
		if chat == chats-1 {
			prompt = slices.Clone(rounds[0][0].Prompts[0])
		}
		for round := range rounds {
			p := sample.Defaults()
			p.Temperature, p.Seed, p.Logprobs = 0.9, uint64(100*round+chat), 2
			r := &engine.Request{Prompts: [][]int32{prompt}, N: 1 + chat%2, Sampling: p, MaxTokens: s.output, IgnoreEOS: true}
			r.CacheRoot[0] = byte(chat * 3 / 2 / chats) // the last third is another's
			rounds[round] = append(rounds[round], r)
			prompt = append(slices.Clone(prompt), s.prompt(rnd, 9)...)
		}
	}
	return rounds
}

// turns runs the rounds one after the other. Each prompt of a round is preceded
// by what came of the round before, so that generated tokens are looked up too.
func turns(t *testing.T, e *engine.Engine, rounds [][]*engine.Request) (all []outcome) {
	t.Helper()
	before := make([][]int32, len(rounds[0]))
	for _, round := range rounds {
		requests := make([]*engine.Request, len(round))
		for i, r := range round {
			copied := *r
			copied.Prompts = [][]int32{slices.Concat(before[i], r.Prompts[0])}
			requests[i] = &copied
		}
		outcomes := run(t, e, requests)
		for i, o := range outcomes {
			// Of several choices, the first one's tokens go on.
			before[i] = slices.Clone(requests[i].Prompts[0])
			for _, token := range o.tokens[:min(len(o.tokens), 7)] {
				before[i] = append(before[i], token.ID)
			}
		}
		all = append(all, outcomes...)
	}
	return all
}

// TestPrefixCachingChangesNothing: a request draws the same tokens, with bitwise
// the same probabilities, from a prefix cache, however much of it has been taken
// by others, and whatever was cut or preempted.
func TestPrefixCachingChangesNothing(t *testing.T) {
	for name, open := range map[string]func(*testing.T) subject{"tiny": tinySubject, "SmolLM2": smolSubject} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			chats, numRounds := 6, 3
			if name != "tiny" {
				chats, numRounds, s.output = 3, 2, 6
			}
			rounds := conversations(s, chats, numRounds)
			without := s.engine(t, func(o *engine.Options) { o.PrefixCaching, o.MaxNumSeqs = false, 1 })
			want := turns(t, without, rounds)
			if cached := total(want).cached; cached != 0 {
				t.Errorf("%d tokens are cached without a cache", cached)
			}
			for _, c := range []struct {
				name    string
				change  func(*engine.Options)
				preempt bool
				tiny    bool // not worth a real model's time
			}{
				{name: "one by one", tiny: true, change: func(o *engine.Options) { o.MaxNumSeqs = 1 }},
				{name: "batched", change: func(o *engine.Options) { o.BlockSize = 8 }},
				{name: "chunked", tiny: true, change: func(o *engine.Options) { o.MaxNumBatchedTokens = 7 }},
				{name: "under pressure", change: func(o *engine.Options) {
					o.BlockSize, o.MaxModelLen = 8, 200
					o.KVCacheMemory = without.Shape().KVBytes * 8 * 25
				}, preempt: true},
			} {
				if c.tiny && name != "tiny" {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					got := turns(t, s.engine(t, c.change), rounds)
					for i := range want {
						same(t, i, got[i].tokens, want[i].tokens)
					}
					sum := total(got)
					t.Logf("%d tokens cached, %d preemptions", sum.cached, sum.preemptions)
					if sum.cached == 0 {
						t.Error("nothing was found in the cache")
					}
					if c.preempt && name == "tiny" && sum.preemptions == 0 {
						t.Error("nobody was preempted")
					}
				})
			}
		})
	}
}

func total(outcomes []outcome) (sum outcome) {
	for _, o := range outcomes {
		sum.cached += o.cached
		sum.preemptions += o.preemptions
	}
	return sum
}

// TestTenantsDoNotShare: what one asked is found by requests of the same root
// alone, and a prompt is computed but for its whole blocks.
func TestTenantsDoNotShare(t *testing.T) {
	s := tinySubject(t)
	e := s.engine(t, func(o *engine.Options) { o.BlockSize = 8 })
	prompt := s.prompt(rand.New(rand.NewPCG(3, 3)), 40)
	ask := func(root byte, prompt []int32, scored bool) outcome {
		p := sample.Defaults()
		p.Logprobs = 0
		r := &engine.Request{Prompts: [][]int32{prompt}, N: 1, Sampling: p, MaxTokens: 1, PromptLogprobs: scored, CacheRoot: [32]byte{root}}
		return run(t, e, []*engine.Request{r})[0]
	}
	for _, c := range []struct {
		name           string
		root           byte
		prompt         []int32
		scored         bool
		cached, writes int
	}{
		{"the first", 1, prompt, false, 0, 40},
		{"again: the last block is computed for its last token", 1, prompt, false, 32, 8},
		{"one token less", 1, prompt[:39], false, 32, 0},
		{"one token more", 1, append(slices.Clone(prompt), 5), false, 40, 0},
		{"another owner", 2, prompt, false, 0, 40},
		{"the other owner again", 2, prompt, false, 32, 8},
		{"scored: every row is needed", 1, prompt, true, 0, 0},
		{"the second block alone", 1, prompt[8:], false, 0, 32},
	} {
		if got := ask(c.root, c.prompt, c.scored); got.cached != c.cached || got.written != c.writes {
			t.Errorf("%s: %d tokens cached and %d written, want %d and %d", c.name, got.cached, got.written, c.cached, c.writes)
		}
	}
}

// TestChoicesShareTheirPrompt: of several continuations, the first computes the
// prompt, in the same step in which the others find it.
func TestChoicesShareTheirPrompt(t *testing.T) {
	s := tinySubject(t)
	rows := make(chan int, 100)
	e := s.engine(t, func(o *engine.Options) {
		o.BlockSize = 8
		o.Listener.Step = func(step engine.Step) { rows <- step.Rows }
	})
	r := &engine.Request{Prompts: [][]int32{s.prompt(rand.New(rand.NewPCG(4, 4)), 43)}, N: 4, Sampling: sample.Defaults(), MaxTokens: 1}
	run(t, e, []*engine.Request{r})
	if got := <-rows; got != 43+3*3 {
		t.Errorf("the first step computes %d rows, want 43 of the first choice and 3 of each other", got)
	}
}
