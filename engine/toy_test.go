package engine

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// toy is a model that says the alphabet: after each letter comes the next one,
// after z the end. Steps can be held and made to fail.
type toy struct {
	vocab int
	end   int32
	// gate, if set, is received from before each step.
	gate chan struct{}
	// fail makes the next step fail.
	fail   atomic.Bool
	steps  atomic.Int64
	rows   atomic.Int64 // of the largest step
	closed atomic.Int64
	logits []float32
}

var errToy = errors.New("the toy is broken")

func newToy() *toy {
	t := tokenizer.Bytes()
	end, _ := t.EOS()
	return &toy{vocab: t.Size(), end: end}
}

func (m *toy) Shape() model.Shape {
	return model.Shape{Name: "toy", Vocab: m.vocab, Context: 64, KVBytes: 1, MaxRows: 4096}
}
func (m *toy) Reserve(int, int) error { return nil }
func (m *toy) Close() error           { m.closed.Add(1); return nil }

func (m *toy) Forward(b *backend.Batch) ([]float32, error) {
	if m.gate != nil {
		<-m.gate
	}
	m.steps.Add(1)
	m.rows.Store(max(m.rows.Load(), int64(b.Rows())))
	if m.fail.CompareAndSwap(true, false) {
		return nil, errToy
	}
	n := len(b.Sample) * m.vocab
	if cap(m.logits) < n {
		m.logits = make([]float32, n)
	}
	m.logits = m.logits[:n]
	clear(m.logits)
	for i, row := range b.Sample {
		next := b.Tokens[row] + 1
		if next > 'z' {
			next = m.end
		}
		m.logits[i*m.vocab+int(next)] = 20
	}
	return m.logits, nil
}

// ticks is a clock that goes on by a millisecond with each reading.
func ticks() func() time.Duration {
	var t atomic.Int64
	return func() time.Duration { return time.Duration(t.Add(1)) * time.Millisecond }
}

func newEngine(t *testing.T, m model.Model, change func(*Options)) *Engine {
	t.Helper()
	o := Default()
	o.Now = ticks()
	if change != nil {
		change(&o)
	}
	e, err := New(m, tokenizer.Bytes(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if s := e.Stats(); s.UsedBlocks != 0 || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("after close: %+v, want nothing running, waiting or held", s)
		}
		if e.waitingSeqs != 0 || e.waitingTokens != 0 {
			t.Errorf("after close: %d sequences with %d tokens are counted as waiting", e.waitingSeqs, e.waitingTokens)
		}
	})
	return e
}

// ask is a greedy request for each of the prompts.
func ask(prompts ...string) *Request {
	r := &Request{N: 1, Sampling: sample.Defaults()}
	r.Sampling.Temperature = 0
	for _, p := range prompts {
		r.Prompts = append(r.Prompts, tokenizer.Bytes().Encode(nil, p, tokenizer.AsText))
	}
	return r
}

// answer is all that came for one choice.
type answer struct {
	text   string
	tokens []int32
	last   Output
}

// submit queues r and fails the test if it is refused.
func submit(t *testing.T, e *Engine, r *Request) *Stream {
	t.Helper()
	s, err := e.Submit(r)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return s
}

// collect receives a stream to its end and checks its form.
func collect(t *testing.T, s *Stream) []answer {
	t.Helper()
	answers := make([]answer, s.req.choices())
	texts := make([]strings.Builder, len(answers))
	var d Delivery
	for {
		err := s.Receive(&d, nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		for _, o := range d.Outputs {
			a := &answers[o.Choice]
			if a.last.Finish != None {
				t.Fatalf("choice %d: an output after its last one: %+v", o.Choice, o)
			}
			texts[o.Choice].Write(o.Text)
			for _, tok := range o.Tokens {
				a.tokens = append(a.tokens, tok.ID)
			}
			a.last = o
		}
	}
	for i := range answers {
		a := &answers[i]
		a.text = texts[i].String()
		if a.last.Finish == None {
			t.Errorf("choice %d has no end", i)
		}
		if got := a.last.Life.CompletionTokens; got != len(a.tokens) {
			t.Errorf("choice %d: life counts %d tokens, %d came", i, got, len(a.tokens))
		}
	}
	return answers
}
