package engine

import (
	"errors"
	"strings"
	"testing"
	"time"
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
