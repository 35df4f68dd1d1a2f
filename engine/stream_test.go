package engine

import (
	"errors"
	"io"
	"testing"
	"time"
)

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
