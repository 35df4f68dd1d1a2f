package metrics

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend/sim"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// gated is a real engine on a simulated device whose steps wait for a test.
type gated struct {
	*engine.Engine
	t *testing.T
	// gate lets a step pass; closed, it lets all pass.
	gate chan struct{}
	// steps are told when the listener has heard of them.
	steps chan engine.Step
}

func newGated(t *testing.T, m *Metrics) *gated {
	t.Helper()
	g := &gated{t: t, gate: make(chan struct{}), steps: make(chan engine.Step, 1000)}
	tok := tokenizer.Bytes()
	eos, _ := tok.EOS()
	device, err := sim.New(sim.Options{Vocab: tok.Size(), EOS: eos, Sleep: func(time.Duration) { <-g.gate }})
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Default()
	o.MaxNumSeqs, o.MaxModelLen, o.MaxQueuedRequests, o.MaxQueuedTokens = 1, 64, 6, 60
	o.Listener = m.Listener()
	step := o.Listener.Step
	o.Listener.Step = func(s engine.Step) {
		step(s)
		g.steps <- s
	}
	if g.Engine, err = engine.New(device, tok, o); err != nil {
		t.Fatal(err)
	}
	return g
}

// submit queues n continuations of prompts of these lengths.
func (g *gated) submit(n, maxTokens int, lengths ...int) (*engine.Stream, error) {
	r := &engine.Request{N: n, MaxTokens: maxTokens, IgnoreEOS: true, Sampling: sample.Defaults(), Arrival: g.Now()}
	for _, length := range lengths {
		prompt := make([]int32, length)
		for i := range prompt {
			prompt[i] = 'a'
		}
		r.Prompts = append(r.Prompts, prompt)
	}
	return g.Submit(r)
}

func (g *gated) must(s *engine.Stream, err error) *engine.Stream {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// refused submits what the queue has no room for.
func (g *gated) refused(n, length int) *engine.QueueFullError {
	g.t.Helper()
	var full *engine.QueueFullError
	if _, err := g.submit(n, 1, length); !errors.As(err, &full) {
		g.t.Fatalf("%d × %d prompt tokens: %v, want a full queue", n, length, err)
	}
	return full
}

// drain reads a stream to its end and gives the tokens that were sampled.
func (g *gated) drain(s *engine.Stream) (tokens int) {
	g.t.Helper()
	var d engine.Delivery
	for {
		err := s.Receive(&d, nil)
		if errors.Is(err, io.EOF) {
			return tokens
		}
		if err != nil {
			g.t.Fatal(err)
		}
		for i := range d.Outputs {
			tokens += len(d.Outputs[i].Tokens)
		}
	}
}

// TestMixedRequests runs completed, aborted and refused requests on a real
// engine. The expected counts follow from what is asked; only how far the
// aborted sequence came is read from its stream.
func TestMixedRequests(t *testing.T) {
	m := New(Options{ModelName: "tiny", LogStats: true})
	g := newGated(t, m)
	before := samples(t, m)

	running := g.must(g.submit(1, 0, 7)) // may have 57 tokens
	g.gate <- struct{}{}
	<-g.steps
	queued := g.must(g.submit(1, 5, 9))
	g.gate <- struct{}{} // this step may have been planned before the second came
	<-g.steps
	g.gate <- struct{}{}
	<-g.steps
	during := samples(t, m)
	for name, want := range map[string]float64{
		`num_requests_running`:                              1,
		`num_requests_waiting`:                              1,
		`num_requests_waiting_by_reason{reason="capacity"}`: 1,
		`num_requests_waiting_by_reason{reason="deferred"}`: 0,
		`kv_cache_usage_perc`:                               0.25, // one block of the four that 64 positions take
		`generation_tokens_total`:                           3,
	} {
		if during[name] != want {
			t.Errorf("meanwhile %s is %v, want %v", name, during[name], want)
		}
	}
	m.AdmissionRejected(g.refused(6, 1))
	m.AdmissionRejected(g.refused(1, 55))
	m.AdmissionRejected(g.refused(2, 30))
	queued.Abort()
	running.Abort()
	close(g.gate)
	made := g.drain(running)
	if n := g.drain(queued); n != 0 {
		t.Errorf("%d tokens for a request that never ran", n)
	}

	several := g.must(g.submit(2, 2, 4, 6)) // four sequences
	single := g.must(g.submit(1, 3, 5))
	if n := g.drain(several); n != 8 {
		t.Errorf("%d tokens of 4 sequences, want 8", n)
	}
	if n := g.drain(single); n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	checkMixed(t, moved(before, samples(t, m)), made)
}

// checkMixed compares what the requests of TestMixedRequests have moved; made is
// the number of tokens of the one that was aborted while it ran.
func checkMixed(t *testing.T, got map[string]float64, made int) {
	t.Helper()
	for name, want := range map[string]float64{
		`num_requests_running`:                                       0,
		`num_requests_waiting`:                                       0,
		`num_requests_waiting_by_reason{reason="capacity"}`:          0,
		`kv_cache_usage_perc`:                                        0,
		`request_success_total{finished_reason="length"}`:            5,
		`request_success_total{finished_reason="abort"}`:             2,
		`request_success_total{finished_reason="stop"}`:              0,
		`request_success_total{finished_reason="error"}`:             0,
		`admission_rejections_total{reason="max_num_queued_reqs"}`:   1,
		`admission_rejections_total{reason="max_num_queued_tokens"}`: 2,
		`num_preemptions_total`:                                      0,
		`prompt_tokens_total`:                                        7 + 2*4 + 2*6 + 5,
		`prompt_tokens_by_source_total{source="local_compute"}`:      7 + 2*4 + 2*6 + 5,
		`prompt_tokens_cached_total`:                                 0,
		`generation_tokens_total`:                                    float64(made + 8 + 3),
		`iteration_tokens_total_sum`:                                 float64(7 + 2*4 + 2*6 + 5 + made + 8 + 3),
		`request_prompt_tokens_sum`:                                  7 + 9 + 2*4 + 2*6 + 5,
		`request_prompt_tokens_count`:                                7,
		`request_generation_tokens_sum`:                              float64(made + 8 + 3),
		`request_params_n_sum`:                                       1 + 1 + 2 + 2 + 1,
		`request_params_n_count`:                                     5,
		`request_max_num_generation_tokens_sum`:                      float64(made + 0 + 2 + 2 + 3),
		`request_max_num_generation_tokens_count`:                    5,
		`request_params_max_tokens_sum`:                              57 + 5 + 4*2 + 3,
		`request_prefill_kv_computed_tokens_count`:                   6,
		`time_to_first_token_seconds_count`:                          6,
		`inter_token_latency_seconds_count`:                          float64(made - 1 + 4*1 + 2),
		`request_time_per_output_token_seconds_count`:                6,
		`e2e_request_latency_seconds_count`:                          7,
		`request_queue_time_seconds_count`:                           6,
		`request_prefill_time_seconds_count`:                         6,
		`request_decode_time_seconds_count`:                          6,
		`request_inference_time_seconds_count`:                       6,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	// The gaps of a sequence add up to its decode time, and the parts of its
	// inference time to the whole.
	near(t, "inter-token latencies against decode times", got[`inter_token_latency_seconds_sum`], got[`request_decode_time_seconds_sum`])
	near(t, "prefill and decode against inference", got[`request_prefill_time_seconds_sum`]+got[`request_decode_time_seconds_sum`], got[`request_inference_time_seconds_sum`])
	if ttft, parts := got[`time_to_first_token_seconds_sum`], got[`request_queue_time_seconds_sum`]+got[`request_prefill_time_seconds_sum`]; ttft < parts {
		t.Errorf("times to the first token are %v s, and queue and prefill alone %v s", ttft, parts)
	}
}

// near allows for the rounding of a few additions.
func near(t *testing.T, what string, a, b float64) {
	t.Helper()
	if d := a - b; d > 1e-9 || d < -1e-9 {
		t.Errorf("%s: %v and %v", what, a, b)
	}
}

// TestPrefixCache asks three times: what was computed is found, by tokens of
// whole blocks, and its blocks are free.
func TestPrefixCache(t *testing.T) {
	m := New(Options{ModelName: "tiny", LogStats: true, PrefixCaching: true})
	g := newGated(t, m)
	close(g.gate)
	before := samples(t, m)
	for _, length := range []int{40, 40, 20} { // of the same token
		g.drain(g.must(g.submit(1, 2, length)))
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	after := samples(t, m)
	for name, want := range map[string]float64{
		"prefix_cache_queries_total":                              40 + 40 + 20,
		"prefix_cache_hits_total":                                 0 + 32 + 16,
		"prompt_tokens_total":                                     40 + 40 + 20,
		"prompt_tokens_cached_total":                              32 + 16,
		`prompt_tokens_by_source_total{source="local_compute"}`:   40 + 8 + 4,
		`prompt_tokens_by_source_total{source="local_cache_hit"}`: 32 + 16,
		`prompt_tokens_cached_by_source_total{source="device"}`:   32 + 16,
		`request_prefill_kv_computed_tokens_sum`:                  40 + 8 + 4,
		`iteration_tokens_total_sum`:                              40 + 8 + 4 + 3*2,
		`request_prompt_tokens_sum`:                               40 + 40 + 20,
		"wasmeter_prefix_cache_blocks":                            2,
		"kv_cache_usage_perc":                                     0,
		"wasmeter_step_seconds_count":                             6,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s moved by %v, want %v", name, got, want)
		}
	}
}

// TestScrapesWhileItRuns: counts never fall from scrape to scrape, and buckets
// are cumulative, while the loop goes on.
func TestScrapesWhileItRuns(t *testing.T) {
	m := New(Options{ModelName: "tiny", LogStats: true})
	g := newGated(t, m)
	close(g.gate)
	go func() {
		for range g.steps {
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 {
			g.drain(g.must(g.submit(2, 10, 3)))
		}
	}()
	last := 0.0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		h := parse(t, scrape(t, m))["vllm:inter_token_latency_seconds"].Metric[0].GetHistogram()
		var below uint64
		for _, b := range h.Bucket {
			if b.GetCumulativeCount() < below {
				t.Fatalf("buckets are not cumulative: %v", h.Bucket)
			}
			below = b.GetCumulativeCount()
		}
		if n := float64(h.GetSampleCount()); n < last || below != h.GetSampleCount() {
			t.Fatalf("%v observations after %v, %d in the buckets", n, last, below)
		} else {
			last = n
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	close(g.steps)
	if want := 40.0 * 2 * 9; last != want {
		t.Errorf("%v gaps between tokens, want %v", last, want)
	}
}
