// Package metrics shows the engine, the plugins and the HTTP side to Prometheus.
//
// The `vllm:` series have the names, types, labels and buckets of vLLM 0.32, so
// that its dashboards, routers and autoscalers work unchanged. Metrics.Listener
// feeds them from the engine's loop: every label is resolved beforehand, and
// nothing on that way blocks or allocates.
//
// What is counted, and when:
//
//   - Everything counts sequences: a request with n = 2 counts twice, its prompt
//     too. request_params_n and request_max_num_generation_tokens count once a
//     prompt, when the last of its n continuations has ended.
//   - Sizes and request_success_total count every sequence that has ended, in
//     whatever way: what was aborted has finished_reason="abort". vLLM leaves
//     aborted ones out.
//   - A request that its deadline ended is aborted.
//   - A prompt is looked up in the prefix cache once, in tokens; a free block that
//     holds a prefix is not in use, and counted by wasmeter_prefix_cache_blocks.
//   - An interval is observed if both of its ends have happened. A sequence that
//     was aborted while queued has an end-to-end latency and no queue time.
//   - Prompt tokens count when the first token comes, generated tokens step by
//     step, prefix cache lookups when a sequence is first scheduled.
//   - time_to_first_token_seconds and e2e_request_latency_seconds begin with the
//     request's arrival, the other intervals with the engine's stamps.
//   - iteration_tokens_total is a histogram despite its name: prompt tokens
//     computed for the first time and tokens sampled, a step. Steps that bring
//     neither, since they compute lost rows again or have failed, are left out.
//
// The labels of the `wasmeter_plugin_` series are names of the configuration and
// of the ABI, never anything of a request. Counters and histograms of a plugin
// that a reload removed stay until the server ends, so that no rate loses what
// its last requests did; its gauges go with it. A plugin that comes back goes on
// counting.
package metrics
