package metrics

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine"
)

// TestDrafts counts two steps' drafts: 2 of 3 accepted, and 0 of 1.
func TestDrafts(t *testing.T) {
	m := New(Options{ModelName: "tiny", LogStats: true, NumSpeculative: 3})
	l := m.Listener()
	l.Start(engine.Capacity{Context: 64, Blocks: 4, BlockSize: 16})
	r := &engine.Request{N: 1}
	l.Event(r, engine.Event{Kind: engine.Drafted, Drafts: 3, Tokens: 2}, &engine.Life{})
	l.Event(r, engine.Event{Kind: engine.Drafted, Drafts: 1, Tokens: 0}, &engine.Life{})
	got := samples(t, m)
	for name, want := range map[string]float64{
		`spec_decode_num_drafts_total`:                                2,
		`spec_decode_num_draft_tokens_total`:                          4,
		`spec_decode_num_accepted_tokens_total`:                       2,
		`spec_decode_num_accepted_tokens_per_pos_total{position="0"}`: 1,
		`spec_decode_num_accepted_tokens_per_pos_total{position="1"}`: 1,
		`spec_decode_num_accepted_tokens_per_pos_total{position="2"}`: 0,
	} {
		if v, there := got[name]; v != want || !there {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}

// TestNoDrafts: without speculation there are no such series, as in vLLM.
func TestNoDrafts(t *testing.T) {
	m, _ := tiny(t, nil)
	for name := range samples(t, m) {
		if strings.HasPrefix(name, "spec_decode") {
			t.Errorf("%s is there without speculation", name)
		}
	}
}
