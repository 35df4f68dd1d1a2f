package engine_test

import (
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/model"
)

// TestDrawingOnTheDevice: all that readers see is the same to the bit, whether the host
// draws tokens or the device does, where it can.
func TestDrawingOnTheDevice(t *testing.T) {
	s := tinySubject(t)
	requests := copies(s)
	without := s.engine(t, func(o *engine.Options) { o.MaxNumSeqs = 1 })
	want := run(t, without, requests)
	perToken := without.Shape().KVBytes
	for _, c := range []struct {
		name           string
		rows, logprobs int // that the device can draw
		change         func(*engine.Options)
		// all says that only the steps that score the prompt are left to the host,
		// none that all are.
		all, none, preempt bool
	}{
		{name: "all rows", rows: 64, logprobs: 20, all: true},
		{name: "alone", rows: 64, logprobs: 20, all: true, change: func(o *engine.Options) { o.MaxNumSeqs = 1 }},
		{name: "few rows", rows: 15, logprobs: 20},
		{name: "few log probabilities", rows: 64, logprobs: 1, none: true},
		{name: "chunked", rows: 64, logprobs: 20, change: func(o *engine.Options) { o.MaxNumBatchedTokens, o.MaxNumSeqs = 17, 3 }},
		{name: "without prefix caching", rows: 64, logprobs: 20, all: true, change: func(o *engine.Options) { o.PrefixCaching = false }},
		{name: "preempted", rows: 64, logprobs: 20, preempt: true, change: squeeze(perToken)},
		{name: "guesses", rows: 64, logprobs: 20, change: ngram},
	} {
		t.Run(c.name, func(t *testing.T) {
			var device *backendtest.Async
			s.wrap = func(m model.Model) model.Model {
				device = backendtest.NewAsync(m, c.rows, c.logprobs)
				return device
			}
			e := s.engine(t, func(o *engine.Options) {
				if c.change != nil {
					c.change(o)
				}
			})
			preemptions := 0
			for range 2 { // the second time, prompts are in the cache
				for i, got := range run(t, e, requests) {
					alike(t, i, got, want[i])
					preemptions += got.preemptions
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d steps drawn on the device, %d of them ahead, and %d on the host; %d preemptions", device.Queued, device.Ahead, device.Forwarded, preemptions)
			if c.all && device.Forwarded > 4 || (device.Queued == 0) != c.none {
				t.Errorf("%d steps were drawn on the device and %d on the host", device.Queued, device.Forwarded)
			}
			if c.preempt != (preemptions > 0) {
				t.Errorf("%d preemptions, want some: %v", preemptions, c.preempt)
			}
		})
	}
}

// TestStepsAheadChangeNothing: all that readers see is the same to the bit, whether the
// loop waits for each step or prepares the next meanwhile.
func TestStepsAheadChangeNothing(t *testing.T) {
	s := tinySubject(t)
	requests := slices.DeleteFunc(copies(s), func(r *engine.Request) bool {
		p := &r.Sampling
		return p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || r.MinTokens > 0 || r.PromptLogprobs
	})
	for i, change := range []func(*engine.Request){
		func(r *engine.Request) { r.StopTokens = r.Prompts[0] },
		func(r *engine.Request) { r.Sampling.Temperature, r.StopTokens = 1.5, r.Prompts[0][:1] },
		func(r *engine.Request) { r.N, r.Sampling.Temperature, r.Sampling.MinP = 4, 2, 0.05 },
		func(r *engine.Request) { r.Sampling.Logprobs, r.Priority = -1, -1 },
		func(r *engine.Request) { r.MaxTokens, r.Whole = 3, true },
	} {
		r := *requests[i]
		change(&r)
		requests = append(requests, &r)
	}
	without := s.engine(t, func(o *engine.Options) { o.MaxNumSeqs = 1 })
	want := run(t, without, requests)
	for _, c := range []struct {
		name    string
		change  func(*engine.Options)
		preempt bool
		ahead   float64 // the least share of the steps
	}{
		{name: "batched", change: func(o *engine.Options) {}, ahead: 0.8},
		{name: "alone", change: func(o *engine.Options) { o.MaxNumSeqs = 1 }, ahead: 0.8},
		{name: "chunked", change: func(o *engine.Options) { o.MaxNumBatchedTokens, o.MaxNumSeqs = 17, 3 }, ahead: 0.5},
		{name: "ranked", change: func(o *engine.Options) { o.SchedulingPolicy, o.MaxNumSeqs = engine.PolicyPriority, 4 }, ahead: 0.5},
		{name: "preempted", change: squeeze(without.Shape().KVBytes), preempt: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var device *backendtest.Async
			s.wrap = func(m model.Model) model.Model {
				device = backendtest.NewAsync(m, 64, 20)
				return device
			}
			e := s.engine(t, c.change)
			preemptions := 0
			for range 3 { // prompts are in the cache then
				for i, got := range run(t, e, requests) {
					alike(t, i, got, want[i])
					preemptions += got.preemptions
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d steps ahead, %d preemptions", device.Ahead, device.Queued, preemptions)
			if c.preempt && preemptions == 0 {
				t.Error("nothing was preempted")
			}
			if float64(device.Ahead) < c.ahead*float64(device.Queued) || device.Forwarded > 0 {
				t.Errorf("%d of %d steps were queued ahead, and %d drawn on the host", device.Ahead, device.Queued, device.Forwarded)
			}
		})
	}
}
