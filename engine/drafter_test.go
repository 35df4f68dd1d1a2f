package engine

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// named is a tokenizer with these tokens.
func named(t *testing.T, names ...string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(tokenizer.Vocab{Model: "gpt2", Pre: "gpt2", Tokens: names, Types: slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(names)), BOS: tokenizer.None, EOS: tokenizer.None})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// guessing makes a draft model guess for a toy. No time passes, so that every
// draft pays.
func guessing(draft model.Model, tokens int) func(*Options) {
	return func(o *Options) {
		o.Speculative.Method, o.Speculative.NumTokens = SpeculativeDraft, tokens
		o.Speculative.Draft, o.Speculative.DraftTokenizer = draft, tokenizer.Bytes()
		o.Now = func() time.Duration { return 1 }
	}
}

// TestDraftModelRefused: the vocabularies are compared token by token, and both
// models are closed.
func TestDraftModelRefused(t *testing.T) {
	bytes := tokenizer.Bytes()
	for _, c := range []struct {
		name      string
		model     model.Model
		tokenizer *tokenizer.Tokenizer
		want      string
	}{
		{"none", nil, nil, "draft needs a draft model"},
		{"fewer tokens", newToy(), named(t, "a", "b"), "the draft model has 2 tokens, and the model 259"},
		{"fewer logits", &toy{vocab: 7}, bytes, "7 logits for 259 tokens"},
	} {
		m := newToy()
		o := Default()
		o.Speculative.Method, o.Speculative.Draft, o.Speculative.DraftTokenizer = SpeculativeDraft, c.model, c.tokenizer
		_, err := New(m, bytes, o)
		if err == nil || !strings.Contains(err.Error(), "speculative.") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if m.closed.Load() != 1 {
			t.Errorf("%s: the model was closed %d times", c.name, m.closed.Load())
		}
		if d, ok := c.model.(*toy); ok && d.closed.Load() != 1 {
			t.Errorf("%s: the draft model was closed %d times", c.name, d.closed.Load())
		}
	}
	err := sameVocabulary(named(t, "a", "b", "c"), named(t, "a", "x", "c"))
	if want := `token 1 is "x" to the draft model, and "b" to the model`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestDraftModel: the toy says the alphabet; a draft model that says it too
// saves steps, and both give back what they hold.
func TestDraftModel(t *testing.T) {
	m, d := newToy(), newToy()
	e := newEngine(t, m, guessing(d, 4))
	a := collect(t, submit(t, e, ask("a")))[0]
	if a.text != "bcdefghijklmnopqrstuvwxyz" {
		t.Errorf("text %q, want the rest of the alphabet", a.text)
	}
	// b, then 5 by 5: 25 letters and the end are 26 tokens of 6 steps.
	if n := m.steps.Load(); n != 6 {
		t.Errorf("%d steps, want 6", n)
	}
	counts := a.last.Life.Drafts
	if counts.Steps != 5 || counts.Drafted != 20 || counts.Accepted != 20 {
		t.Errorf("counts %+v, want 5 steps with 4 drafts each, all accepted", counts)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if d.closed.Load() != 1 {
		t.Errorf("the draft model was closed %d times", d.closed.Load())
	}
}

// costly is a toy whose steps take some time, and some for each row.
type costly struct {
	*toy
	now       *atomic.Int64
	step, row time.Duration
}

func (m *costly) Forward(b *backend.Batch) ([]float32, error) {
	m.now.Add(int64(m.step) + int64(m.row)*int64(b.Rows()))
	return m.toy.Forward(b)
}

func (m *costly) Shape() model.Shape {
	s := m.toy.Shape()
	s.Context = 1024
	return s
}

// TestDraftModelTried: a draft model whose first batch reads a long text, as long as fourteen
// steps take, is found out to take the fourteenth of one for a draft.
func TestDraftModelTried(t *testing.T) {
	var now atomic.Int64
	now.Store(1)
	m := &costly{newToy(), &now, 10 * time.Millisecond, 4 * time.Millisecond}
	d := &costly{newToy(), &now, 0, time.Millisecond}
	e := newEngine(t, m, func(o *Options) {
		guessing(d, 4)(o)
		o.Now = func() time.Duration { return time.Duration(now.Load()) }
	})
	r := ask(strings.Repeat("a", 200))
	r.MaxTokens, r.IgnoreEOS = 400, true
	a := collect(t, submit(t, e, r))[0]
	// A try comes after 32 tokens; from then on it is four drafts for each token.
	if counts := a.last.Life.Drafts; counts.Accepted < 200 || counts.Accepted != counts.Drafted {
		t.Errorf("counts %+v, want 200 drafts or more, all accepted", counts)
	}
}

// TestDraftModelFails: answers go on without drafts.
func TestDraftModelFails(t *testing.T) {
	m, d := newToy(), newToy()
	d.fail.Store(true)
	e := newEngine(t, m, guessing(d, 4))
	for range 2 {
		if a := collect(t, submit(t, e, ask("a")))[0]; a.text != "bcdefghijklmnopqrstuvwxyz" || a.last.Life.Drafts.Steps != 0 {
			t.Errorf("text %q, drafts %+v; want the rest of the alphabet without drafts", a.text, a.last.Life.Drafts)
		}
	}
	if n := d.steps.Load(); n != 1 {
		t.Errorf("the draft model was asked %d times, want once", n)
	}
}

// TestFailedStepWithDrafts: a step that is not computed ends its sequences, and
// the next ones find nothing of it.
func TestFailedStepWithDrafts(t *testing.T) {
	m, d := newToy(), newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, guessing(d, 4))
	s := submit(t, e, ask("a"))
	m.gate <- struct{}{} // b
	m.gate <- struct{}{} // c … g
	m.fail.Store(true)
	close(m.gate)
	if a := collect(t, s)[0]; a.last.Finish != Failed {
		t.Errorf("finish %v, want error", a.last.Finish)
	}
	if a := collect(t, submit(t, e, ask("a")))[0]; a.text != "bcdefghijklmnopqrstuvwxyz" {
		t.Errorf("afterwards: text %q, want the rest of the alphabet", a.text)
	}
}

// TestDraftsEndWithTheText: drafts that are right and come behind a stop string
// or the token limit are not delivered, not counted and not paid for.
func TestDraftsEndWithTheText(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           func(*Request)
		text             string
		tokens, accepted int
	}{
		{name: "stop string", change: func(r *Request) { r.Stop = []string{"de"} }, text: "bc", tokens: 4, accepted: 3},
		{name: "stop token", change: func(r *Request) { r.StopTokens = []int32{'e'} }, text: "bcd", tokens: 4, accepted: 3},
		{name: "limit", change: func(r *Request) { r.MaxTokens = 4 }, text: "bcde", tokens: 4, accepted: 2},
		{name: "limit of one", change: func(r *Request) { r.MaxTokens = 1 }, text: "b", tokens: 1, accepted: 0},
	} {
		e := newEngine(t, newToy(), guessing(newToy(), 4))
		r := ask("a")
		c.change(r)
		a := collect(t, submit(t, e, r))[0]
		if a.text != c.text || len(a.tokens) != c.tokens || a.last.Life.Drafts.Accepted != c.accepted {
			t.Errorf("%s: text %q, %d tokens, %+v; want %q, %d tokens, %d accepted",
				c.name, a.text, len(a.tokens), a.last.Life.Drafts, c.text, c.tokens, c.accepted)
		}
	}
}
