package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wasmeter/wasmeter/engine"
)

// declaration registers `vllm:` series with the labels that all of them carry.
type declaration struct {
	factory promauto.Factory
	labels  prometheus.Labels
}

// with gives the labels and one more; an empty name adds none.
func (d declaration) with(name, value string) prometheus.Labels {
	if name == "" {
		return d.labels
	}
	l := maps.Clone(d.labels)
	l[name] = value
	return l
}

func (d declaration) gauge(name, label, value, help string) prometheus.Gauge {
	return d.factory.NewGauge(prometheus.GaugeOpts{Name: "vllm:" + name, Help: help, ConstLabels: d.with(label, value)})
}

func (d declaration) counter(name, label, value, help string) prometheus.Counter {
	return d.factory.NewCounter(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: d.with(label, value)})
}

func (d declaration) histogram(name string, buckets []float64, help string) prometheus.Histogram {
	return d.factory.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: buckets, ConstLabels: d.labels})
}

// newSequences declares the engine's series. There is one engine, number 0.
func newSequences(registry *prometheus.Registry, o Options, c engine.Capacity) *sequences {
	d := declaration{promauto.With(registry), prometheus.Labels{"engine": "0", "model_name": o.ModelName}}
	s := &sequences{context: c.Context, prefixCaching: o.PrefixCaching, families: make(map[familyKey]family)}
	d.state(s, o, c)
	d.counters(s)
	d.drafts(s, o.NumSpeculative)
	d.histograms(s, requestTokensBuckets(c.Context))
	return s
}

// state declares what is true at the moment.
func (d declaration) state(s *sequences, o Options, c engine.Capacity) {
	s.running = d.gauge("num_requests_running", "", "", "Sequences that steps compute.")
	s.waiting = d.gauge("num_requests_waiting", "", "", "Sequences that wait for a step.")
	const byReason = "Waiting sequences by what they wait for: capacity, or (deferred) something else, which does not happen here."
	s.waitingCapacity = d.gauge("num_requests_waiting_by_reason", "reason", "capacity", byReason)
	d.gauge("num_requests_waiting_by_reason", "reason", "deferred", byReason)
	s.kvCacheUsage = d.gauge("kv_cache_usage_perc", "", "", "Part of the KV blocks in use, 0 to 1.")

	s.cachedBlocks = d.factory.NewGauge(prometheus.GaugeOpts{
		Name: "wasmeter_prefix_cache_blocks", ConstLabels: d.labels,
		Help: "Free KV blocks that hold prefixes until somebody needs them.",
	})
	s.stepTime = d.factory.NewHistogram(prometheus.HistogramOpts{
		Name: "wasmeter_step_seconds", ConstLabels: d.labels, Buckets: stepBuckets,
		Help: "Time of a step, from scheduling to its tokens.",
	})

	const sleepState = "1 for the state that the engine is in; it is always awake."
	d.gauge("engine_sleep_state", "sleep_state", "awake", sleepState).Set(1)
	d.gauge("engine_sleep_state", "sleep_state", "weights_offloaded", sleepState)
	d.gauge("engine_sleep_state", "sleep_state", "discard_all", sleepState)

	// Booleans are written as Python writes them: readers compare the text.
	caching := "False"
	if o.PrefixCaching {
		caching = "True"
	}
	d.factory.NewGauge(prometheus.GaugeOpts{
		Name: "vllm:cache_config_info",
		Help: "Always 1; the labels are the KV cache's size and settings.",
		ConstLabels: prometheus.Labels{
			"engine":                "0",
			"block_size":            strconv.Itoa(c.BlockSize),
			"num_gpu_blocks":        strconv.Itoa(c.Blocks),
			"kv_cache_size_tokens":  strconv.Itoa(c.Blocks * c.BlockSize),
			"enable_prefix_caching": caching,
		},
	}).Set(1)
}

// counters declares what only grows. Sources and reasons that do not occur here
// are there as well, since queries sum over all of them.
func (d declaration) counters(s *sequences) {
	s.prefixQueries = d.counter("prefix_cache_queries_total", "", "", "Prompt tokens looked up in the prefix cache.")
	s.prefixHits = d.counter("prefix_cache_hits_total", "", "", "Prompt tokens found in the prefix cache.")
	s.preemptions = d.counter("num_preemptions_total", "", "", "Times that a sequence had to give its KV blocks back.")
	s.promptTokens = d.counter("prompt_tokens_total", "", "", "Prompt tokens of sequences that have come to their first token.")
	const bySource = "Prompt tokens by where their keys and values came from."
	s.promptComputed = d.counter("prompt_tokens_by_source_total", "source", "local_compute", bySource)
	s.promptHit = d.counter("prompt_tokens_by_source_total", "source", "local_cache_hit", bySource)
	d.counter("prompt_tokens_by_source_total", "source", "external_kv_transfer", bySource)
	s.promptCached = d.counter("prompt_tokens_cached_total", "", "", "Prompt tokens that did not need computing.")
	const byTier = "Prefix cache hits in tokens by the memory that held them."
	s.cachedOnDevice = d.counter("prompt_tokens_cached_by_source_total", "source", "device", byTier)
	for _, tier := range []string{"host", "p2p", "disk", "external_unspecified"} {
		d.counter("prompt_tokens_cached_by_source_total", "source", tier, byTier)
	}
	s.generationTokens = d.counter("generation_tokens_total", "", "", "Tokens sampled.")
	const finished = "Sequences that have ended, by reason; aborted ones count."
	for reason := engine.Stop; reason <= engine.Failed; reason++ {
		s.finished[reason] = d.counter("request_success_total", "finished_reason", reason.String(), finished)
	}
	d.counter("request_success_total", "finished_reason", "repetition", finished)
}

// drafts declares what is counted of speculative decoding with up to so many
// drafts.
func (d declaration) drafts(s *sequences, most int) {
	if most == 0 {
		return
	}
	s.draftSteps = d.counter("spec_decode_num_drafts_total", "", "", "Steps that checked drafts, by sequence.")
	s.drafted = d.counter("spec_decode_num_draft_tokens_total", "", "", "Drafts that were checked.")
	s.accepted = d.counter("spec_decode_num_accepted_tokens_total", "", "", "Drafts that became part of an answer.")
	for i := range most {
		s.acceptedAt = append(s.acceptedAt, d.counter("spec_decode_num_accepted_tokens_per_pos_total", "position", strconv.Itoa(i),
			"Drafts that became part of an answer, by their place among a step's, from 0."))
	}
}

// histograms declares the distributions; tokens are the bounds of token counts.
func (d declaration) histograms(s *sequences, tokens []float64) {
	s.iterationTokens = d.histogram("iteration_tokens_total", iterationTokensBuckets, "Prompt tokens computed and tokens sampled, by step.")
	s.timeToFirstToken = d.histogram("time_to_first_token_seconds", timeToFirstTokenBuckets, "Time from a request's arrival to a sequence's first token.")
	s.interTokenLatency = d.histogram("inter_token_latency_seconds", interTokenLatencyBuckets, "Time between two tokens of a sequence.")

	s.prompt = d.histogram("request_prompt_tokens", tokens, "Prompt tokens of ended sequences.")
	s.generation = d.histogram("request_generation_tokens", tokens, "Sampled tokens of ended sequences.")
	s.maxTokens = d.histogram("request_params_max_tokens", tokens, "Most tokens that ended sequences could have: max_tokens, or what the context leaves.")
	s.prefillComputed = d.histogram("request_prefill_kv_computed_tokens", tokens, "Prompt tokens that were computed and not found in the prefix cache.")
	s.numPreemptions = d.histogram("request_num_preemptions", requestPreemptionsBuckets, "Preemptions of ended sequences.")
	s.paramsN = d.histogram("request_params_n", requestParamsNBuckets, "Continuations asked for, by prompt.")
	s.maxGeneration = d.histogram("request_max_num_generation_tokens", tokens, "Sampled tokens of the longest continuation, by prompt.")

	s.timePerOutputToken = d.histogram("request_time_per_output_token_seconds", interTokenLatencyBuckets, "Mean time between tokens, by sequence; 0 for a single token.")
	s.e2e = d.histogram("e2e_request_latency_seconds", requestLatencyBuckets, "Time from a request's arrival to a sequence's end.")
	s.queueTime = d.histogram("request_queue_time_seconds", requestLatencyBuckets, "Time from the waiting queue to the first step.")
	s.inferenceTime = d.histogram("request_inference_time_seconds", requestLatencyBuckets, "Time from the first step to the last token.")
	s.prefillTime = d.histogram("request_prefill_time_seconds", requestLatencyBuckets, "Time from the first step to the first token.")
	s.decodeTime = d.histogram("request_decode_time_seconds", requestLatencyBuckets, "Time from the first to the last token.")
}
