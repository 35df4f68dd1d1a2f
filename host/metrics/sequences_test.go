package metrics

import (
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
)

const second = time.Second

// stage is one thing that a test's loop tells the listener of a sequence.
type stage struct {
	kind   engine.EventKind
	at     time.Duration
	tokens int
	gap    time.Duration
}

// play tells the listener what happens to one choice and how it ends.
func play(l engine.Listener, r *engine.Request, choice int, life *engine.Life, reason engine.FinishReason, stages ...stage) {
	for _, s := range stages {
		l.Event(r, engine.Event{Kind: s.kind, Choice: choice, Time: s.at, Tokens: s.tokens, Gap: s.gap}, life)
	}
	end := engine.Finished
	if reason == engine.Abort {
		end = engine.Aborted
	}
	l.Event(r, engine.Event{Kind: end, Choice: choice, Time: life.Finished}, life)
	l.Finish(r, reason, life)
}

// lives are what TestLives plays. What vLLM's own code observes for the same stamps
// is the truth of the cases that name a vector; the rest follows from the rules in
// the package's documentation.
var lives = []struct {
	name string
	play func(engine.Listener)
	want map[string]float64
}{
	{
		name: "vector: normal, 3 tokens; the prompt partly cached",
		play: func(l engine.Listener) {
			life := &engine.Life{Queued: second, Scheduled: 2 * second, First: 3 * second, Last: 4 * second, Finished: 4 * second, PromptTokens: 20, CachedTokens: 16, CompletionTokens: 3}
			play(l, request(), 0, life, engine.Length,
				stage{kind: engine.Queued, at: second},
				stage{kind: engine.Scheduled, at: 2 * second, tokens: 4},
				stage{kind: engine.FirstToken, at: 3 * second, tokens: 1},
				stage{kind: engine.Tokens, at: 3500 * time.Millisecond, tokens: 1, gap: second / 2},
				stage{kind: engine.Tokens, at: 4 * second, tokens: 1, gap: second / 2})
		},
		want: ended(`length`, map[string]float64{
			`prefix_cache_queries_total`:                              20,
			`prefix_cache_hits_total`:                                 16,
			`prompt_tokens_cached_by_source_total{source="device"}`:   16,
			`prompt_tokens_total`:                                     20,
			`prompt_tokens_by_source_total{source="local_compute"}`:   4,
			`prompt_tokens_by_source_total{source="local_cache_hit"}`: 16,
			`prompt_tokens_cached_total`:                              16,
			`generation_tokens_total`:                                 3,
			`time_to_first_token_seconds_sum`:                         2.5,
			`time_to_first_token_seconds_count`:                       1,
			`inter_token_latency_seconds_sum`:                         1,
			`inter_token_latency_seconds_count`:                       2,
			`request_prompt_tokens_sum`:                               20,
			`request_generation_tokens_sum`:                           3,
			`request_max_num_generation_tokens_sum`:                   3,
			`request_params_max_tokens_sum`:                           10,
			`request_prefill_kv_computed_tokens_sum`:                  4,
			`request_prefill_kv_computed_tokens_count`:                1,
			`request_time_per_output_token_seconds_sum`:               0.5,
			`request_time_per_output_token_seconds_count`:             1,
			`e2e_request_latency_seconds_sum`:                         3.5,
			`e2e_request_latency_seconds_count`:                       1,
			`request_queue_time_seconds_sum`:                          1,
			`request_queue_time_seconds_count`:                        1,
			`request_prefill_time_seconds_sum`:                        1,
			`request_prefill_time_seconds_count`:                      1,
			`request_decode_time_seconds_sum`:                         1,
			`request_decode_time_seconds_count`:                       1,
			`request_inference_time_seconds_sum`:                      2,
			`request_inference_time_seconds_count`:                    1,
		}),
	},
	{
		name: "vector: preempted twice; 2 tokens",
		play: func(l engine.Listener) {
			life := &engine.Life{Queued: second, Scheduled: 2 * second, First: 3 * second, Last: 8 * second, Finished: 8 * second, PromptTokens: 20, CompletionTokens: 2, Preemptions: 2}
			play(l, request(), 0, life, engine.Stop,
				stage{kind: engine.Scheduled, at: 2 * second, tokens: 20},
				stage{kind: engine.FirstToken, at: 3 * second, tokens: 1},
				stage{kind: engine.Preempted, at: 4 * second},
				stage{kind: engine.Resumed, at: 5 * second, tokens: 21},
				stage{kind: engine.Preempted, at: 6 * second},
				stage{kind: engine.Resumed, at: 7 * second, tokens: 21},
				stage{kind: engine.Tokens, at: 8 * second, tokens: 1, gap: 5 * second})
		},
		want: ended(`stop`, map[string]float64{
			`prefix_cache_queries_total`:                            20,
			`num_preemptions_total`:                                 2,
			`prompt_tokens_total`:                                   20,
			`prompt_tokens_by_source_total{source="local_compute"}`: 20,
			`generation_tokens_total`:                               2,
			`time_to_first_token_seconds_sum`:                       2.5,
			`time_to_first_token_seconds_count`:                     1,
			`inter_token_latency_seconds_sum`:                       5,
			`inter_token_latency_seconds_count`:                     1,
			`request_prompt_tokens_sum`:                             20,
			`request_generation_tokens_sum`:                         2,
			`request_max_num_generation_tokens_sum`:                 2,
			`request_params_max_tokens_sum`:                         10,
			`request_num_preemptions_sum`:                           2,
			`request_prefill_kv_computed_tokens_sum`:                20,
			`request_prefill_kv_computed_tokens_count`:              1,
			`request_time_per_output_token_seconds_sum`:             5,
			`request_time_per_output_token_seconds_count`:           1,
			`e2e_request_latency_seconds_sum`:                       7.5,
			`e2e_request_latency_seconds_count`:                     1,
			`request_queue_time_seconds_sum`:                        1,
			`request_queue_time_seconds_count`:                      1,
			`request_prefill_time_seconds_sum`:                      1,
			`request_prefill_time_seconds_count`:                    1,
			`request_decode_time_seconds_sum`:                       5,
			`request_decode_time_seconds_count`:                     1,
			`request_inference_time_seconds_sum`:                    6,
			`request_inference_time_seconds_count`:                  1,
		}),
	},
	{
		name: "vector: one token",
		play: func(l engine.Listener) {
			life := &engine.Life{Queued: second, Scheduled: 2 * second, First: 3 * second, Last: 3 * second, Finished: 3 * second, PromptTokens: 20, CompletionTokens: 1}
			play(l, request(), 0, life, engine.Length, stage{kind: engine.FirstToken, at: 3 * second, tokens: 1})
		},
		want: ended(`length`, map[string]float64{
			`prompt_tokens_total`: 20,
			`prompt_tokens_by_source_total{source="local_compute"}`: 20,
			`generation_tokens_total`:                               1,
			`time_to_first_token_seconds_sum`:                       2.5,
			`time_to_first_token_seconds_count`:                     1,
			`request_prompt_tokens_sum`:                             20,
			`request_generation_tokens_sum`:                         1,
			`request_max_num_generation_tokens_sum`:                 1,
			`request_params_max_tokens_sum`:                         10,
			`request_prefill_kv_computed_tokens_sum`:                20,
			`request_prefill_kv_computed_tokens_count`:              1,
			`request_time_per_output_token_seconds_count`:           1,
			`e2e_request_latency_seconds_sum`:                       2.5,
			`e2e_request_latency_seconds_count`:                     1,
			`request_queue_time_seconds_sum`:                        1,
			`request_queue_time_seconds_count`:                      1,
			`request_prefill_time_seconds_sum`:                      1,
			`request_prefill_time_seconds_count`:                    1,
			`request_decode_time_seconds_count`:                     1,
			`request_inference_time_seconds_sum`:                    1,
			`request_inference_time_seconds_count`:                  1,
		}),
	},
	{
		name: "aborted while queued",
		play: func(l engine.Listener) {
			play(l, request(), 0, &engine.Life{Queued: second, Finished: 3 * second, PromptTokens: 20}, engine.Abort, stage{kind: engine.Queued, at: second})
		},
		want: ended(`abort`, map[string]float64{
			`request_prompt_tokens_sum`:         20,
			`request_params_max_tokens_sum`:     10,
			`e2e_request_latency_seconds_sum`:   2.5,
			`e2e_request_latency_seconds_count`: 1,
		}),
	},
	{
		name: "aborted before its first token, no limit asked for",
		play: func(l engine.Listener) {
			r := request()
			r.MaxTokens = 0 // what 512 positions leave of 20: 492
			play(l, r, 0, &engine.Life{Queued: second, Scheduled: 2 * second, Finished: 3 * second, PromptTokens: 20}, engine.Abort,
				stage{kind: engine.Scheduled, at: 2 * second, tokens: 20})
		},
		want: ended(`abort`, map[string]float64{
			`prefix_cache_queries_total`:        20,
			`request_prompt_tokens_sum`:         20,
			`request_params_max_tokens_sum`:     492,
			`e2e_request_latency_seconds_sum`:   2.5,
			`e2e_request_latency_seconds_count`: 1,
			`request_queue_time_seconds_sum`:    1,
			`request_queue_time_seconds_count`:  1,
		}),
	},
	{
		name: "failed, limit beyond the context, and no arrival known",
		play: func(l engine.Listener) {
			r := request()
			r.MaxTokens, r.Arrival = 1000, 0
			play(l, r, 0, &engine.Life{Queued: second, Scheduled: 2 * second, Finished: 3 * second, PromptTokens: 20}, engine.Failed)
		},
		want: ended(`error`, map[string]float64{
			`request_prompt_tokens_sum`:        20,
			`request_params_max_tokens_sum`:    492,
			`request_queue_time_seconds_sum`:   1,
			`request_queue_time_seconds_count`: 1,
		}),
	},
	{
		name: "an arrival after the end is no interval",
		play: func(l engine.Listener) {
			r := request()
			r.Arrival = 4 * second
			play(l, r, 0, &engine.Life{Queued: second, Finished: 3 * second, PromptTokens: 20}, engine.Abort)
		},
		want: ended(`abort`, map[string]float64{`request_prompt_tokens_sum`: 20, `request_params_max_tokens_sum`: 10}),
	},
}

// request is for up to 10 tokens after 20, and came half a second after the start.
func request() *engine.Request {
	return &engine.Request{Prompts: [][]int32{make([]int32, 20)}, N: 1, MaxTokens: 10, Arrival: second / 2}
}

// TestLives drives the listener by hand. Series that are not listed must not move.
func TestLives(t *testing.T) {
	for _, c := range lives {
		t.Run(c.name, func(t *testing.T) {
			m, l := tiny(t, nil)
			before := samples(t, m)
			c.play(l)
			sameSamples(t, moved(before, samples(t, m)), c.want)
		})
	}
}

// ended adds what every sequence that ends moves.
func ended(reason string, want map[string]float64) map[string]float64 {
	want[`request_success_total{finished_reason="`+reason+`"}`] = 1
	for _, name := range []string{"request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens", "request_params_n", "request_params_max_tokens", "request_num_preemptions"} {
		want[name+"_count"] = 1
	}
	want[`request_params_n_sum`] = 1
	return want
}

// TestFamilies: n and the longest continuation count once a prompt, when its last
// continuation has ended, in whatever order they end.
func TestFamilies(t *testing.T) {
	m, l := tiny(t, nil)
	r := &engine.Request{Prompts: [][]int32{{1}, {2}}, N: 3}
	before := samples(t, m)
	end := func(choice, tokens int) map[string]float64 {
		play(l, r, choice, &engine.Life{CompletionTokens: tokens, PromptTokens: 1}, engine.Stop)
		d := moved(before, samples(t, m))
		return map[string]float64{
			"n":       d["request_params_n_sum"],
			"prompts": d["request_params_n_count"],
			"longest": d["request_max_num_generation_tokens_sum"],
			"ended":   d[`request_success_total{finished_reason="stop"}`],
		}
	}
	for i, c := range []struct {
		choice, tokens int
		want           map[string]float64
	}{
		{4, 7, map[string]float64{"n": 0, "prompts": 0, "longest": 0, "ended": 1}},
		{0, 2, map[string]float64{"n": 0, "prompts": 0, "longest": 0, "ended": 2}},
		{3, 5, map[string]float64{"n": 0, "prompts": 0, "longest": 0, "ended": 3}},
		{2, 9, map[string]float64{"n": 0, "prompts": 0, "longest": 0, "ended": 4}},
		{1, 4, map[string]float64{"n": 3, "prompts": 1, "longest": 9, "ended": 5}},
		{5, 0, map[string]float64{"n": 6, "prompts": 2, "longest": 16, "ended": 6}},
	} {
		got := end(c.choice, c.tokens)
		for k, v := range c.want {
			if got[k] != v {
				t.Errorf("after %d ends: %s is %v, want %v", i+1, k, got[k], v)
			}
		}
	}
	if n := len(m.sequences.families); n != 0 {
		t.Errorf("%d families are kept after their ends", n)
	}
}

func TestStep(t *testing.T) {
	m, l := tiny(t, nil)
	before := samples(t, m)
	l.Step(engine.Step{Rows: 21, Prompt: 19, Sampled: 2, Running: 3, Waiting: 5, UsedBlocks: 8, Blocks: 32})
	l.Step(engine.Step{Rows: 7, Running: 3, Waiting: 5, UsedBlocks: 8, Blocks: 32}) // computes lost rows only
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{
		`num_requests_running`:                              3,
		`num_requests_waiting`:                              5,
		`num_requests_waiting_by_reason{reason="capacity"}`: 5,
		`kv_cache_usage_perc`:                               0.25,
		`iteration_tokens_total_sum`:                        21,
		`iteration_tokens_total_count`:                      1,
	})
	l.Step(engine.Step{Blocks: 32}) // falls idle
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{
		`iteration_tokens_total_sum`:   21,
		`iteration_tokens_total_count`: 1,
	})
}

// TestPrefixCachingOff: without a cache nothing is looked up.
func TestPrefixCachingOff(t *testing.T) {
	m, l := tiny(t, func(o *Options) { o.PrefixCaching = false })
	before := samples(t, m)
	l.Event(&engine.Request{N: 1}, engine.Event{Kind: engine.Scheduled}, &engine.Life{PromptTokens: 20})
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{})
}

// lifeOf tells the listener a whole sequence with so many tokens, a step each.
func lifeOf(l engine.Listener, r *engine.Request, life *engine.Life, tokens int) {
	for choice := range r.N {
		l.Event(r, engine.Event{Kind: engine.Queued, Choice: choice}, life)
		l.Event(r, engine.Event{Kind: engine.Scheduled, Choice: choice}, life)
		l.Event(r, engine.Event{Kind: engine.FirstToken, Choice: choice, Time: life.First, Tokens: 1}, life)
		l.Step(engine.Step{Prompt: 20, Sampled: 1, Running: 1, UsedBlocks: 3, Blocks: 32})
		for range tokens - 1 {
			l.Event(r, engine.Event{Kind: engine.Tokens, Choice: choice, Tokens: 1, Gap: 30 * time.Millisecond}, life)
			l.Step(engine.Step{Sampled: 1, Running: 1, UsedBlocks: 3, Blocks: 32})
		}
		l.Event(r, engine.Event{Kind: engine.Preempted, Choice: choice}, life)
		l.Event(r, engine.Event{Kind: engine.Finished, Choice: choice}, life)
		l.Finish(r, engine.Stop, life)
	}
}

// TestLoopAllocatesNothing: the listener runs on the engine's loop.
func TestLoopAllocatesNothing(t *testing.T) {
	_, l := tiny(t, nil)
	r := &engine.Request{Prompts: [][]int32{make([]int32, 20)}, N: 3, Arrival: 1}
	life := &engine.Life{Queued: 1, Scheduled: 2, First: 3, Last: 4, Finished: 4, PromptTokens: 20, CompletionTokens: 5}
	if n := testing.AllocsPerRun(200, func() { lifeOf(l, r, life, 5) }); n != 0 {
		t.Errorf("a sequence's life allocates %v times, want never", n)
	}
}

// BenchmarkToken is what a token costs the loop: its event and a step of its own.
func BenchmarkToken(b *testing.B) {
	_, l := tiny(b, nil)
	r := &engine.Request{Prompts: [][]int32{make([]int32, 20)}, N: 1}
	life := &engine.Life{PromptTokens: 20}
	e := engine.Event{Kind: engine.Tokens, Tokens: 1, Gap: 30 * time.Millisecond}
	s := engine.Step{Sampled: 1, Running: 1, UsedBlocks: 3, Blocks: 32}
	b.ReportAllocs()
	for b.Loop() {
		l.Event(r, e, life)
		l.Step(s)
	}
}

// BenchmarkSequence is what a sequence of 16 tokens costs the loop altogether.
func BenchmarkSequence(b *testing.B) {
	_, l := tiny(b, nil)
	r := &engine.Request{Prompts: [][]int32{make([]int32, 20)}, N: 1, Arrival: 1}
	life := &engine.Life{Queued: 1, Scheduled: 2, First: 3, Last: 4, Finished: 4, PromptTokens: 20, CompletionTokens: 16}
	b.ReportAllocs()
	for b.Loop() {
		lifeOf(l, r, life, 16)
	}
}
