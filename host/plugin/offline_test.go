package plugin

import (
	"context"
	"testing"
	"time"
)

// TestNoBreaker: a tool sees each failure as what it is.
func TestNoBreaker(t *testing.T) {
	b := newBench(t)
	b.noBreaker = true
	chain := newChain(t, b.mustLoad(t, hookGuest(HookShape, `{"fields":3}`)))
	for i := range 100 {
		if _, err := chain.Shape(context.Background(), &Frame{}, new(State)); failureOf(t, err) != FailureBadResult {
			t.Fatalf("call %d: got %v, want %s", i+1, err, FailureBadResult)
		}
	}
}

// TestMemoryKVAt: values end by the clock that the store was given.
func TestMemoryKVAt(t *testing.T) {
	moment := time.Unix(1_000_000, 0)
	kv := NewMemoryKVAt(func() time.Time { return moment })
	if err := kv.Write([]Write{{Plugin: "p", Key: []byte("k"), Value: []byte("v"), TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pass  time.Duration
		there bool
	}{{time.Hour - 1, true}, {1, false}} {
		moment = moment.Add(c.pass)
		if _, found, err := kv.Get("p", []byte("k")); found != c.there || err != nil {
			t.Errorf("at %v: found %v, %v; want %v", moment, found, err, c.there)
		}
	}
}
