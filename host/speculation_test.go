package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// speculationKeys are in vLLM's order.
var speculationKeys = []string{
	"mean_acceptance_length", "draft_acceptance_rate", "acceptance_histogram", "num_spec_steps", "num_accepted_draft_tokens",
	"num_draft_tokens", "num_spec_tokens", "per_step_accepted", "per_step_drafted",
}

// TestSpeculationOfVLLM compares the object with what vLLM's function gave; see
// testdata/README.md.
func TestSpeculationOfVLLM(t *testing.T) {
	recorded, err := os.ReadFile("testdata/speculation.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	vectors := bytes.Split(bytes.TrimSpace(recorded), []byte("\n"))
	if len(vectors) != 14 {
		t.Fatalf("%d vectors, want 14", len(vectors))
	}
	for i, line := range vectors {
		var v struct {
			Tokens   int            `json:"num_spec_tokens"`
			Detailed bool           `json:"detailed"`
			Steps    [][2]int       `json:"steps"`
			Want     map[string]any `json:"want"`
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		counts := engine.DraftCounts{ByAccepted: make([]int, v.Tokens+1)}
		for _, step := range v.Steps {
			counts.Count(step[0], step[1])
			if v.Detailed {
				counts.PerStep = append(counts.PerStep, engine.DraftStep{Drafted: uint8(step[0]), Accepted: uint8(step[1])})
			}
		}
		text := string(appendSpeculation(nil, &counts))
		got := decode(t, text)
		at := 0
		for _, key := range speculationKeys {
			next := strings.Index(text, `"`+key+`"`)
			if next < at {
				t.Errorf("vector %d: %q is not where it belongs in %s", i, key, text)
			}
			at = next
			if want := v.Want[key]; !alike(got[key], want) {
				t.Errorf("vector %d, %s: got %v, want %v", i, key, got[key], want)
			}
		}
		if len(got) != len(speculationKeys) {
			t.Errorf("vector %d: %s has other members", i, text)
		}
	}
}

// alike compares numbers to 5e-7 of their size, since they were computed by
// another program, and the rest exactly.
func alike(got, want any) bool {
	a, number := got.(float64)
	b, also := want.(float64)
	if number && also {
		return math.Abs(a-b) <= 5e-7*math.Abs(b)
	}
	return reflect.DeepEqual(got, want)
}

// TestSpeculationMetrics asks a server whose simulated text repeats itself, so
// that drafts come true.
func TestSpeculationMetrics(t *testing.T) {
	kept := &book{}
	with := func(level string, timings bool) *fixture {
		return serve(t, func(u *setup) {
			u.ledger = kept
			// A device that only waits, by a clock of its own: drafts pay.
			var now atomic.Int64
			now.Store(1)
			u.sim.StepBase, u.sim.Sleep = time.Millisecond, func(d time.Duration) { now.Add(int64(d)) }
			u.engine.Now = func() time.Duration { return time.Duration(now.Load()) }
			u.options.Metrics.SpecDecode, u.options.Metrics.PerRequest = level, timings
			u.engine.Speculative.Method, u.engine.Speculative.NumTokens = engine.SpeculativeNgram, 3
		})
	}
	const asks = `,"max_tokens":120,"ignore_eos":true`
	body := `{"model":"sim","prompt":"fox","temperature":0` + asks + `}`
	t.Run("summary", func(t *testing.T) {
		f := with("summary", true)
		spec := at(f.post("/v1/completions", body), "metrics", "speculative_decoding").(map[string]any)
		if spec["num_spec_tokens"] != 3.0 || spec["num_spec_steps"].(float64) < 1 || spec["num_accepted_draft_tokens"].(float64) < 1 || spec["per_step_accepted"] != nil {
			t.Errorf("got %v, want accepted drafts of up to 3 tokens, and null lists", spec)
		}
		consistent(t, spec)
		d := kept.all()[0].Drafts
		if d == nil || float64(d.Drafted) != spec["num_draft_tokens"] || float64(d.Accepted) != spec["num_accepted_draft_tokens"] {
			t.Errorf("the ledger has the drafts %+v, the answer %v", d, spec)
		}
	})
	t.Run("detailed, on every endpoint", func(t *testing.T) {
		f := with("detailed", true)
		for path, body := range map[string]string{
			"/v1/completions":      body,
			"/v1/chat/completions": chatBody(asks[1:]),
			"/v1/responses":        `{"model":"sim","input":"fox","temperature":0,"max_output_tokens":120,"ignore_eos":true}`,
		} {
			spec, _ := at(f.post(path, body), "metrics", "speculative_decoding").(map[string]any)
			if steps, _ := spec["per_step_drafted"].([]any); len(steps) == 0 || float64(len(steps)) != spec["num_spec_steps"] {
				t.Errorf("%s: got %v, want an entry for each step", path, spec)
				continue
			}
			consistent(t, spec)
		}
		list := chunks(t, f.do("POST", "/v1/completions", strings.Replace(body, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)))
		spec, _ := at(list[len(list)-1], "metrics", "speculative_decoding").(map[string]any)
		if spec == nil {
			t.Fatalf("the last chunk is %v, want statistics", list[len(list)-1])
		}
		consistent(t, spec)
	})
	t.Run("one token has no drafts", func(t *testing.T) {
		f := with("detailed", true)
		one := at(f.post("/v1/completions", `{"model":"sim","prompt":"fox","max_tokens":1}`), "metrics", "speculative_decoding")
		text, _ := json.Marshal(one)
		want := `{"acceptance_histogram":[0,0,0,0],"draft_acceptance_rate":0,"mean_acceptance_length":1,"num_accepted_draft_tokens":0,` +
			`"num_draft_tokens":0,"num_spec_steps":0,"num_spec_tokens":3,"per_step_accepted":null,"per_step_drafted":null}`
		if string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
	})
	t.Run("without timings", func(t *testing.T) {
		metrics := at(with("summary", false).post("/v1/completions", body), "metrics").(map[string]any)
		if metrics["time_to_first_token_ms"] != nil || metrics["speculative_decoding"] == nil {
			t.Errorf("got %v, want null times and the statistics", metrics)
		}
	})
	t.Run("several choices and prompts", func(t *testing.T) {
		f := with("summary", true)
		if m, there := f.post("/v1/completions", strings.Replace(body, "{", `{"n":2,`, 1))["metrics"]; m != nil || !there {
			t.Errorf("n=2: got %v, want null", m)
		}
	})
	t.Run("not asked for", func(t *testing.T) {
		if m := at(with("none", true).post("/v1/completions", body), "metrics").(map[string]any); len(m) != 5 {
			t.Errorf("got %v, want the five times alone", m)
		}
	})
}

// consistent checks the identities between the members.
func consistent(t *testing.T, spec map[string]any) {
	t.Helper()
	steps, accepted := 0.0, 0.0
	for i, n := range spec["acceptance_histogram"].([]any) {
		steps += n.(float64)
		accepted += float64(i) * n.(float64)
	}
	if spec["num_spec_steps"] != steps || spec["num_accepted_draft_tokens"] != accepted ||
		spec["mean_acceptance_length"] != 1+accepted/steps || spec["draft_acceptance_rate"] != accepted/spec["num_draft_tokens"].(float64) {
		t.Errorf("%v contradicts itself: %v steps accepted %v drafts", spec, steps, accepted)
	}
}

// TestLongLists: the lists by step leave room in the 16 KiB of a plugin's answer,
// or are left out.
func TestLongLists(t *testing.T) {
	counts := engine.DraftCounts{ByAccepted: make([]int, 65)}
	step := func() {
		counts.Count(64, 64)
		counts.PerStep = append(counts.PerStep, engine.DraftStep{Drafted: 64, Accepted: 64})
	}
	for range maxListedSteps {
		step()
	}
	if n := len(appendSpeculation(nil, &counts)); n > 15<<10 {
		t.Errorf("%d steps make %d bytes, want at most 15 KiB", maxListedSteps, n)
	}
	step()
	got := decode(t, string(appendSpeculation(nil, &counts)))
	if got["per_step_drafted"] != nil || got["num_spec_steps"] != float64(maxListedSteps+1) {
		t.Errorf("one step more: %v steps, lists %v; want all counted, and none listed", got["num_spec_steps"], got["per_step_drafted"])
	}
}

// TestDraftsInTheFrame: plugins are told of drafts by request, choice and step.
func TestDraftsInTheFrame(t *testing.T) {
	r := &run{request: &engine.Request{Prompts: [][]int32{{1}}, N: 1}, choices: make([]choice, 1)}
	r.choices[0].life.Drafts = &engine.DraftCounts{Steps: 2, Drafted: 7, Accepted: 4}
	var f plugin.Frame
	r.addLife(&f, &r.choices[0].life)
	c, e := r.choiceTable()[0], r.event(engine.Event{Kind: engine.Drafted, Time: 5, Tokens: 3, Drafts: 4, BatchTokens: 9, StepTime: 1e6})
	got := fmt.Sprint(f.DraftedTokens, f.AcceptedTokens, c.Drafted, c.Accepted, c.SpecSteps, e.Kind == plugin.EventDraft, e.NumTokens, e.Aux, e.BatchTokens)
	if want := "7 4 7 4 2 true 3 4 9"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
