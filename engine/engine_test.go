package engine

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

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
