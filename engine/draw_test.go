package engine

import (
	"math"
	"testing"

	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// sharing is a toy with a second thread, which does every other part.
type sharing struct {
	*toy
	begun bool // owned by the loop
	parts chan int
	done  chan struct{}
}

func newSharing(m *toy) *sharing {
	return &sharing{toy: m, parts: make(chan int), done: make(chan struct{})}
}

func (m *sharing) Threads() int { return 2 }

func (m *sharing) Share(parts int, do func(part, thread int)) {
	if !m.begun {
		m.begun = true
		go func() {
			for part := range m.parts {
				do(part, 1)
				m.done <- struct{}{}
			}
		}()
	}
	for part := 0; part < parts; part += 2 {
		if part+1 < parts {
			m.parts <- part + 1
		}
		do(part, 0)
		if part+1 < parts {
			<-m.done
		}
	}
}

func (m *sharing) Close() error {
	close(m.parts)
	return m.toy.Close()
}

// TestDrawingAllocates nothing, whatever is drawn and whoever draws, while 64
// sequences decode over the ends of their blocks.
func TestDrawingAllocates(t *testing.T) {
	for name, change := range map[string]func(*sample.Params){
		"greedy":      func(p *sample.Params) { p.Temperature = 0 },
		"temperature": func(p *sample.Params) { p.Temperature = 0.8 },
		"top-k top-p": func(p *sample.Params) { p.Temperature, p.TopK, p.TopP = 0.8, 40, 0.9 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newToy()
			drawingAllocates(t, m, m, change)
		})
		t.Run(name+" on two threads", func(t *testing.T) {
			m := newToy()
			drawingAllocates(t, m, newSharing(m), change)
		})
	}
}

func drawingAllocates(t *testing.T, m *toy, device model.Model, change func(*sample.Params)) {
	m.gate = make(chan struct{})
	// The clock goes on with each reading, so that a step's time says nothing.
	e := newEngine(t, device, func(o *Options) { o.ITLTarget = 0 })
	var streams []*Stream
	for range 64 {
		r := ask("a")
		r.IgnoreEOS = true
		change(&r.Sampling)
		streams = append(streams, submit(t, e, r))
	}
	deliveries := make([]Delivery, len(streams))
	step := func() {
		m.gate <- struct{}{}
		for i, s := range streams {
			if err := s.Receive(&deliveries[i], nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The first step may have begun before all were there.
	m.gate <- struct{}{}
	if err := streams[0].Receive(&deliveries[0], nil); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		step()
	}
	if n := testing.AllocsPerRun(32, step); n > 0 {
		t.Errorf("a step of 64 sequences allocates %v times, want 0", n)
	}
	close(m.gate)
	for _, s := range streams {
		s.Abort()
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
