package engine

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

func TestEnds(t *testing.T) {
	e := newEngine(t, newToy(), nil)
	for _, c := range []struct {
		name   string
		prompt string
		change func(*Request)
		text   string
		tokens int
		finish FinishReason
		stop   string
	}{
		{name: "end token", prompt: "w", text: "xyz", tokens: 4, finish: Stop},
		{name: "length", prompt: "a", change: func(r *Request) { r.MaxTokens = 3 }, text: "bcd", tokens: 3, finish: Length},
		{name: "one token", prompt: "a", change: func(r *Request) { r.MaxTokens = 1 }, text: "b", tokens: 1, finish: Length},
		{name: "stop string", prompt: "a", change: func(r *Request) { r.Stop = []string{"ef"} }, text: "bcd", tokens: 5, finish: Stop, stop: "ef"},
		{name: "stop string at the limit", prompt: "a", change: func(r *Request) { r.Stop, r.MaxTokens = []string{"d"}, 3 }, text: "bc", tokens: 3, finish: Stop, stop: "d"},
		{name: "limit inside a stop string", prompt: "a", change: func(r *Request) { r.Stop, r.MaxTokens = []string{"cde"}, 3 }, text: "bcd", tokens: 3, finish: Length},
		{name: "stop string kept", prompt: "a", change: func(r *Request) { r.Stop, r.IncludeStop = []string{"ef"}, true }, text: "bcdef", tokens: 5, finish: Stop, stop: "ef"},
		{name: "stop token", prompt: "a", change: func(r *Request) { r.StopTokens = []int32{'d'} }, text: "bc", tokens: 3, finish: Stop},
		{name: "stop token kept", prompt: "a", change: func(r *Request) { r.StopTokens, r.IncludeStop = []int32{'d'}, true }, text: "bcd", tokens: 3, finish: Stop},
		{name: "no stop before the least", prompt: "a", change: func(r *Request) { r.Stop, r.MinTokens, r.MaxTokens = []string{"cd"}, 4, 6 }, text: "bcdefg", tokens: 6, finish: Length},
		{name: "end of the context", prompt: "a", change: func(r *Request) { r.IgnoreEOS = true }, tokens: 63, finish: Length},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(c.prompt)
			if c.change != nil {
				c.change(r)
			}
			a := collect(t, submit(t, e, r))[0]
			if c.name != "end of the context" && a.text != c.text {
				t.Errorf("text %q, want %q", a.text, c.text)
			}
			if len(a.tokens) != c.tokens || a.last.Finish != c.finish || a.last.StopString != c.stop {
				t.Errorf("%d tokens, %v, stop string %q; want %d, %v, %q", len(a.tokens), a.last.Finish, a.last.StopString, c.tokens, c.finish, c.stop)
			}
		})
	}
}

func TestMinTokensBansTheEnd(t *testing.T) {
	e := newEngine(t, newToy(), nil)
	r := ask("y")
	r.MinTokens, r.MaxTokens = 5, 8
	a := collect(t, submit(t, e, r))[0]
	if len(a.tokens) < 5 {
		t.Errorf("%d tokens, want at least 5: %v", len(a.tokens), a.tokens)
	}
}

func TestChoicesAndPrompts(t *testing.T) {
	e := newEngine(t, newToy(), nil)
	r := ask("a", "m")
	r.N, r.MaxTokens = 2, 2
	want := []string{"bc", "bc", "no", "no"}
	for i, a := range collect(t, submit(t, e, r)) {
		if a.text != want[i] {
			t.Errorf("choice %d: %q, want %q", i, a.text, want[i])
		}
	}
}

func TestRefusals(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) { o.MaxQueuedRequests, o.MaxQueuedTokens, o.MaxNumSeqs = 3, 10, 1 })
	t.Cleanup(func() { close(m.gate) })

	var long *TooLongError
	if _, err := e.Submit(ask(strings.Repeat("a", 64))); !errors.As(err, &long) || !errors.Is(err, ErrTooLong) || long.PromptTokens != 64 || long.Context != 64 {
		t.Errorf("a prompt as long as the context: %v", err)
	}
	for name, r := range map[string]*Request{
		"no prompt":     {N: 1, Sampling: ask("a").Sampling},
		"empty prompt":  {N: 1, Sampling: ask("a").Sampling, Prompts: [][]int32{{}}},
		"unknown token": {N: 1, Sampling: ask("a").Sampling, Prompts: [][]int32{{1 << 20}}},
		"negative":      {N: 1, Sampling: ask("a").Sampling, Prompts: [][]int32{{-1}}},
		"n":             {N: 0, Sampling: ask("a").Sampling, Prompts: [][]int32{{1}}},
		"choices":       {N: 2000, Sampling: ask("a").Sampling, Prompts: [][]int32{{1}}},
		"sampling":      {N: 1, Prompts: [][]int32{{1}}},
		"empty stop":    {N: 1, Sampling: ask("a").Sampling, Prompts: [][]int32{{1}}, Stop: []string{""}},
	} {
		if _, err := e.Submit(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}

	submit(t, e, ask("a")) // runs, held at its first step
	m.gate <- struct{}{}
	var full *QueueFullError
	submit(t, e, ask("aa", "aaa"))
	if _, err := e.Submit(ask("a", "b")); !errors.As(err, &full) || !errors.Is(err, ErrQueueFull) || full.Unit != "requests" || full.Asked != 2 {
		t.Errorf("two more sequences: %v", err)
	}
	if _, err := e.Submit(ask(strings.Repeat("a", 20))); !errors.As(err, &full) || full.Unit != "prompt tokens" || full.Asked != 20 {
		t.Errorf("20 more tokens: %v", err)
	}
}

func TestStampsAndDeviceTime(t *testing.T) {
	var steps []Step
	lives := map[string]Life{}
	var capacities []Capacity
	m := newToy()
	e := newEngine(t, m, func(o *Options) {
		o.MaxNumBatchedTokens = 3
		o.MaxNumSeqs, o.MaxModelLen = 2, 40
		o.Listener.Start = func(c Capacity) { capacities = append(capacities, c) }
		o.Listener.Step = func(s Step) { steps = append(steps, s) }
		o.Listener.Finish = func(r *Request, _ FinishReason, l *Life) { lives[r.ID] = *l }
	})
	// Two sequences of 40 positions take 3 blocks of 16 each.
	if want := (Capacity{Context: 40, Blocks: 6, BlockSize: 16}); len(capacities) != 1 || capacities[0] != want {
		t.Errorf("the listener was started with %+v, want once with %+v", capacities, want)
	}
	one, two := ask("abcdefgh"), ask("mm")
	one.ID, two.ID = "one", "two"
	one.Events = true
	s1, s2 := submit(t, e, one), submit(t, e, two)
	a1, a2 := collect(t, s1)[0], collect(t, s2)[0]
	e.Close()
	var busy, attributed time.Duration
	rows, prompt, sampled := 0, 0, 0
	for _, s := range steps {
		busy += s.End - s.Start
		rows += s.Rows
		prompt += s.Prompt
		sampled += s.Sampled
		if s.Rows > 3 {
			t.Errorf("a step of %d rows, budget 3", s.Rows)
		}
	}
	for name, a := range map[string]answer{"one": a1, "two": a2} {
		l := a.last.Life
		attributed += l.DeviceTime
		if l != lives[name] {
			t.Errorf("%s: the reader's life %+v, the listener's %+v", name, l, lives[name])
		}
		if !(0 < l.Queued && l.Queued < l.Scheduled && l.Scheduled < l.First && l.First < l.Last && l.Last == l.Finished) {
			t.Errorf("%s: stamps out of order: %+v", name, l)
		}
	}
	if busy != attributed {
		t.Errorf("device time adds up to %v, and the device was busy %v", attributed, busy)
	}
	if prompt != 10 || sampled != len(a1.tokens)+len(a2.tokens) {
		t.Errorf("steps computed %d prompt tokens and sampled %d, want 10 and %d", prompt, sampled, len(a1.tokens)+len(a2.tokens))
	}
	kinds := []EventKind{Queued, Scheduled, FirstToken}
	for range len(a1.tokens) - 1 {
		kinds = append(kinds, Tokens)
	}
	kinds = append(kinds, Finished)
	var gaps time.Duration
	for i, e := range a1.last.Events {
		if i >= len(kinds) || e.Kind != kinds[i] {
			t.Fatalf("event %d is %v, want the kinds %v: %+v", i, e.Kind, kinds, a1.last.Events)
		}
		if (e.Kind == Tokens) != (e.Gap > 0) {
			t.Errorf("event %d of kind %v has a gap of %v", i, e.Kind, e.Gap)
		}
		gaps += e.Gap
	}
	if l := a1.last.Life; gaps != l.Last-l.First {
		t.Errorf("gaps add up to %v, from the first to the last token it is %v", gaps, l.Last-l.First)
	}
}

// TestPreemption gives a cache too small for all: everyone must get the same
// text as alone, and the account of recomputation must hold.
func TestPreemption(t *testing.T) {
	for name, caching := range map[string]bool{"computed again": false, "from the prefix cache": true} {
		t.Run(name, func(t *testing.T) { preempt(t, caching) })
	}
}

func preempt(t *testing.T, caching bool) {
	preemptions := 0
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) {
		o.BlockSize, o.KVCacheMemory = 8, 64 // the toy's position takes one byte: 64 positions
		o.PrefixCaching = caching
		o.Listener.Step = func(s Step) { preemptions += s.Preemptions }
	})
	var streams []*Stream
	for range 6 {
		r := ask("abcd")
		r.MaxTokens = 20
		streams = append(streams, submit(t, e, r))
	}
	close(m.gate)
	recomputed, preempted := 0, 0
	for i, s := range streams {
		a := collect(t, s)[0]
		if a.text != "efghijklmnopqrstuvwx" {
			t.Errorf("sequence %d: %q", i, a.text)
		}
		recomputed += a.last.Life.RecomputedTokens
		preempted += a.last.Life.Preemptions
	}
	e.Close()
	if preempted == 0 || preempted != preemptions {
		t.Errorf("%d preemptions in the sequences' lives, %d in the steps; want some, and equal", preempted, preemptions)
	}
	// All say the same, so that there is always one whose blocks are held: what is
	// computed again is less than a block.
	if caching && recomputed > 7*preempted || !caching && recomputed < 8*preempted {
		t.Errorf("%d rows are computed again after %d preemptions, with a cache: %v", recomputed, preempted, caching)
	}
}

func TestAbort(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	finished := map[FinishReason]int{}
	e := newEngine(t, m, func(o *Options) {
		o.MaxNumSeqs = 1
		o.Listener.Finish = func(_ *Request, f FinishReason, _ *Life) { finished[f]++ }
	})
	r := ask("a")
	r.IgnoreEOS = true
	running, waiting := submit(t, e, r), submit(t, e, ask("b"))
	m.gate <- struct{}{}
	m.gate <- struct{}{}
	waiting.Abort()
	running.Abort()
	running.Abort() // again is nothing
	close(m.gate)
	a := collect(t, running)[0]
	if a.last.Finish != Abort || len(a.tokens) == 0 || len(a.tokens) > 4 {
		t.Errorf("running: %v after %d tokens, want abort after at most one step more", a.last.Finish, len(a.tokens))
	}
	if l := a.last.Life; l.First == 0 || l.Finished == 0 {
		t.Errorf("running: life %+v lacks its stamps", l)
	}
	b := collect(t, waiting)[0]
	if b.last.Finish != Abort || len(b.tokens) != 0 || b.last.Life.Scheduled != 0 {
		t.Errorf("waiting: %v, %d tokens, life %+v; want abort and never scheduled", b.last.Finish, len(b.tokens), b.last.Life)
	}
	if got := collect(t, submit(t, e, ask("x")))[0]; got.text != "yz" {
		t.Errorf("after the aborts: %q, want yz", got.text)
	}
	e.Close()
	if finished[Abort] != 2 || finished[Stop] != 1 {
		t.Errorf("listener saw the ends %v, want 2 aborts and a stop", finished)
	}
}

// TestAbortGivesHeldText: text held back for a stop string that never came is
// not lost.
func TestAbortGivesHeldText(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, nil)
	r := ask("a")
	r.Stop = []string{"bcdefghijklmnop"}
	s := submit(t, e, r)
	m.gate <- struct{}{}
	m.gate <- struct{}{}
	s.Abort()
	close(m.gate)
	a := collect(t, s)[0]
	if len(a.text) != len(a.tokens) || !strings.HasPrefix("bcdefghijklmnop", a.text) || a.text == "" {
		t.Errorf("text %q of %d tokens", a.text, len(a.tokens))
	}
}

func TestFailedStep(t *testing.T) {
	m := newToy()
	e := newEngine(t, m, nil)
	m.fail.Store(true)
	a := collect(t, submit(t, e, ask("a")))[0]
	if a.last.Finish != Failed || !errors.Is(a.last.Err, errToy) {
		t.Errorf("got %v with %v, want the device's error", a.last.Finish, a.last.Err)
	}
	if got := collect(t, submit(t, e, ask("x")))[0]; got.text != "yz" || got.last.Finish != Stop {
		t.Errorf("after the failure: %q, %v", got.text, got.last.Finish)
	}
}

// TestFailedStepIsNotCached: nobody finds what a failed step was to compute, nor
// what was computed before it for the same sequences.
func TestFailedStepIsNotCached(t *testing.T) {
	m := newToy()
	e := newEngine(t, m, nil)
	prompt := strings.Repeat("a", 40)
	for i, want := range []int{0, 32, 0, 32} {
		m.fail.Store(i == 1)
		if got := collect(t, submit(t, e, ask(prompt)))[0].last; got.Life.CachedTokens != want || (got.Finish == Failed) != (i == 1) {
			t.Errorf("request %d: %d tokens cached, finish %v; want %d, and only request 1 failed", i, got.Life.CachedTokens, got.Finish, want)
		}
	}
}

func TestClose(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) { o.MaxNumSeqs = 1 })
	s1, s2 := submit(t, e, ask("a")), submit(t, e, ask("b"))
	m.gate <- struct{}{}
	close(m.gate)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { e.Close() })
	}
	for _, s := range []*Stream{s1, s2} {
		if f := collect(t, s)[0].last.Finish; f == Failed {
			t.Errorf("ended with %v", f)
		}
	}
	wg.Wait()
	if m.closed.Load() != 1 {
		t.Errorf("model closed %d times", m.closed.Load())
	}
	if _, err := e.Submit(ask("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
	s1.Abort() // nobody is there to hear it
}

// TestPromptLogprobs: the toy says the alphabet with logit 20 for the next letter
// and 0 for the other tokens of its vocabulary.
func TestPromptLogprobs(t *testing.T) {
	m := newToy()
	e := newEngine(t, m, func(o *Options) { o.MaxNumBatchedTokens = 5 })
	r := ask("abcdxy")
	r.PromptLogprobs, r.Sampling.Logprobs, r.MaxTokens = true, 1, 2
	s := submit(t, e, r)
	var prompt []sample.Token
	var d Delivery
	for s.Receive(&d, nil) == nil {
		for _, o := range d.Outputs {
			prompt = append(prompt, o.Prompt...)
		}
	}
	if len(prompt) != 6 {
		t.Fatalf("%d prompt tokens scored, want 6: %v", len(prompt), prompt)
	}
	norm := math.Log(math.Exp(20) + float64(m.vocab-1))
	for i, p := range prompt {
		want := 20 - norm
		switch {
		case i == 0:
			if !math.IsNaN(float64(p.Logprob)) {
				t.Errorf("the first token has log probability %v, want none", p.Logprob)
			}
			continue
		case p.ID == 'x': // comes after d, which is not the alphabet
			want = -norm
		}
		if p.ID != r.Prompts[0][i] || math.Abs(float64(p.Logprob)-want) > 1e-4 || len(p.Top) != 1 {
			t.Errorf("token %d: %+v, want id %d with log probability %v", i, p, r.Prompts[0][i], want)
		}
	}
}

func TestSlowReader(t *testing.T) {
	e := newEngine(t, newToy(), nil)
	r := ask("a")
	r.IgnoreEOS, r.MaxBacklog = true, 5
	s := submit(t, e, r)
	quick := ask("a")
	quick.MaxTokens = 50
	quick.IgnoreEOS = true
	other := submit(t, e, quick)
	if a := collect(t, other)[0]; len(a.tokens) != 50 {
		t.Errorf("another reader got %d tokens", len(a.tokens))
	}
	a := collect(t, s)[0]
	if a.last.Finish != Abort || !errors.Is(a.last.Err, ErrSlowReader) || len(a.tokens) != 6 {
		t.Errorf("%v with %v after %d tokens, want abort, ErrSlowReader, 6", a.last.Finish, a.last.Err, len(a.tokens))
	}
}

// TestWhole: a reader that wants everything at once gets it in one delivery.
func TestWhole(t *testing.T) {
	e := newEngine(t, newToy(), nil)
	r := ask("a", "m")
	r.MaxTokens, r.Whole = 5, true
	s := submit(t, e, r)
	var d Delivery
	if err := s.Receive(&d, nil); err != nil || len(d.Outputs) != 10 {
		t.Fatalf("first delivery: %d outputs, %v; want 10", len(d.Outputs), err)
	}
	if err := s.Receive(&d, nil); err != io.EOF {
		t.Errorf("second delivery: %v, want EOF", err)
	}
}

func TestReceiveTimeout(t *testing.T) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, nil)
	s := submit(t, e, ask("x"))
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	var d Delivery
	if err := s.Receive(&d, fired); err != ErrTimeout {
		t.Errorf("got %v, want ErrTimeout", err)
	}
	close(m.gate)
	if a := collect(t, s)[0]; a.text != "yz" {
		t.Errorf("after the timeout: %q", a.text)
	}
}

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"block size":      {func(o *Options) { o.BlockSize = 20 }, "20 is not a power of two in 8 … 256; use 16 or 32"},
		"context":         {func(o *Options) { o.MaxModelLen = 65 }, "65 is more than the model's context of 64 tokens"},
		"budget":          {func(o *Options) { o.MaxNumBatchedTokens = 5000 }, "5000 is more than the 4096 rows"},
		"memory":          {func(o *Options) { o.KVCacheMemory = 1 }, "less than one block"},
		"memory and room": {func(o *Options) { o.KVCacheMemory, o.MaxModelLen = 32, 60 }, "give at least 64 bytes"},
	} {
		o := Default()
		c.change(&o)
		m := newToy()
		_, err := New(m, tokenizer.Bytes(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if m.closed.Load() != 1 {
			t.Errorf("%s: the model was closed %d times, want once", name, m.closed.Load())
		}
	}
}

// TestHammer submits, aborts and reads from many goroutines; every stream must
// end, and nothing be held at the end (see newEngine).
func TestHammer(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"plain": func(*Options) {},
		"ngram": func(o *Options) { o.Speculative.Method, o.Speculative.NgramMin = SpeculativeNgram, 1 },
		"draft": guessing(newToy(), 5),
	} {
		t.Run(name, func(t *testing.T) { hammer(t, change) })
	}
}

func hammer(t *testing.T, change func(*Options)) {
	e := newEngine(t, newToy(), func(o *Options) {
		change(o)
		o.BlockSize, o.KVCacheMemory, o.MaxNumSeqs = 8, 160, 16
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range 60 {
				r := ask("abcdefghijklmnop"[:1+rnd.IntN(16)])
				r.N, r.MaxTokens = 1+rnd.IntN(3), 1+rnd.IntN(30)
				s, err := e.Submit(r)
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				if rnd.IntN(3) == 0 {
					for range rnd.IntN(4) {
						var d Delivery
						if s.Receive(&d, nil) != nil {
							break
						}
					}
					s.Abort()
				}
				var d Delivery
				for s.Receive(&d, nil) == nil {
				}
			}
		})
	}
	wg.Wait()
}

// TestStepAllocates nothing once it runs, with and without drafts.
func TestStepAllocates(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"plain": nil,
		"ngram": func(o *Options) { o.Speculative.Method, o.Speculative.NumTokens = SpeculativeNgram, 2 },
		"draft": guessing(newToy(), 2),
	} {
		t.Run(name, func(t *testing.T) { stepAllocates(t, change) })
	}
}

// stepAllocates runs steps of 16 sequences in lockstep with their readers.
func stepAllocates(t *testing.T, change func(*Options)) {
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) {
		if change != nil {
			change(o)
		}
		o.BlockSize = 64 // a sequence's table of blocks does not grow meanwhile
	})
	var streams []*Stream
	for range 16 {
		r := ask("a")
		// The toy goes on with the end token, over and over.
		r.Prompts[0][0], r.IgnoreEOS = m.end, true
		streams = append(streams, submit(t, e, r))
	}
	// The first step may have begun before all were there.
	deliveries := make([]Delivery, len(streams))
	m.gate <- struct{}{}
	if err := streams[0].Receive(&deliveries[0], nil); err != nil {
		t.Fatal(err)
	}
	step := func() {
		m.gate <- struct{}{}
		for i, s := range streams {
			if err := s.Receive(&deliveries[i], nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 6 {
		step()
	}
	if n := testing.AllocsPerRun(10, step); n > 0 {
		t.Errorf("a step of 16 sequences allocates %v times, want 0", n)
	}
	close(m.gate)
	for _, s := range streams {
		s.Abort()
	}
}
