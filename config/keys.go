package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host"
)

// key is one key of the configuration.
type key struct {
	// name is the dotted path: engine.max_num_seqs.
	name  string
	value value
	// flag is its spelling on the command line without dashes, "" for none;
	// usage its line of --help.
	flag, usage string
	// bare is what the flag means without a value, "" where it needs one.
	bare string
	// negated marks a flag that switches the key off.
	negated bool
	// secret values are not printed.
	secret bool
	// live values are taken over by a reload.
	live bool
	// only lists the values that work; nil is all. The others are valid words
	// whose feature does not exist yet.
	only []string
}

// available refuses a value whose feature does not exist yet.
func (k *key) available() error {
	text := k.value.String()
	if k.only == nil || slices.Contains(k.only, text) {
		return nil
	}
	shown := text
	if k.secret {
		shown = "(not shown)"
	}
	if slices.Equal(k.only, []string{""}) {
		return fmt.Errorf("%s: %s is not available yet; leave the key out", k.name, shown)
	}
	return fmt.Errorf("%s: %s is not available yet; use %s", k.name, shown, strings.Join(k.only, " or "))
}

// keys lists every key but plugins, which is a list of mappings, in the order
// in which they are shown.
func (c *Config) keys() []key {
	none := []string{""}
	s, m, e := &c.Host.Server, &c.Host.Metrics, &c.Engine
	return []key{
		{name: "server.host", value: textValue{&s.Host}, flag: "host", usage: "address to listen on"},
		{name: "server.port", value: intValue{&s.Port}, flag: "port", usage: "port to listen on; 0 takes a free one"},
		{name: "server.admin", value: textValue{&c.Access.Admin}, flag: "admin", usage: "address for operators: plugins, metrics"},
		{name: "server.admin_token_file", value: textValue{&c.Access.AdminTokenFile}, flag: "admin-token-file", usage: "file of the operators' token; without one, a token is made", live: true},
		{name: "server.api_keys_file", value: textValue{&c.Access.APIKeysFile}, flag: "api-keys-file", usage: "YAML file of keys and tenants; wasmeter keys add makes it", live: true},
		{name: "server.api_keys", value: listValue{&c.Access.APIKeys}, flag: "api-key", usage: "keys that clients must show", secret: true, live: true},
		{name: "server.insecure", value: boolValue{&s.Insecure}, flag: "insecure", usage: "listen beyond loopback without API keys", bare: "true"},
		{name: "server.body_limit", value: sizeValue{&s.BodyLimit}, flag: "body-limit", usage: "largest request body"},
		{name: "server.max_connections", value: intValue{&s.MaxConnections}, flag: "max-connections", usage: "open connections at once"},
		{name: "server.shutdown_timeout", value: durationValue{&s.ShutdownTimeout}, flag: "shutdown-timeout", usage: "time for running requests after SIGTERM"},

		{name: "model.path", value: textValue{&c.Model.Path}},
		{name: "model.quantize", value: choice(&c.Model.Quantize, "none", "q8_0"), flag: "quantize", usage: "convert float weights while they load"},
		{name: "model.served_names", value: listValue{&c.Model.ServedNames}, flag: "served-model-name", usage: "names the model answers to, comma-separated"},

		{name: "engine.device", value: deviceValue{&c.Device.Name}, flag: "device", usage: "where to compute; auto takes a GPU if there is one"},
		{name: "engine.gpu_memory_utilization", value: floatValue{&c.Device.GPUMemoryUtilization}, flag: "gpu-memory-utilization", usage: "share of the GPU's free memory to take"},
		{name: "engine.cublaslt", value: choice(&c.Device.CuBLASLt, "off", "auto", "on"), flag: "cublaslt", usage: "on a GPU, NVIDIA's library for prompts of F16 and BF16 models; auto where it is found"},
		{name: "engine.threads", value: intValue{&c.Device.Threads}, flag: "threads", usage: "computing threads; 0 takes the free cores"},
		{name: "engine.max_num_seqs", value: intValue{&e.MaxNumSeqs}, flag: "max-num-seqs", usage: "sequences that run at once"},
		{name: "engine.max_num_batched_tokens", value: intValue{&e.MaxNumBatchedTokens}, flag: "max-num-batched-tokens", usage: "token budget of a step"},
		{name: "engine.itl_target", value: durationValue{&e.ITLTarget}, flag: "itl-target", usage: "time between tokens to keep while prompts are computed; 0s is none"},
		{name: "engine.max_model_len", value: intValue{&e.MaxModelLen}, flag: "max-model-len", usage: "prompt and output together; 0 takes the model's"},
		{name: "engine.block_size", value: intValue{&e.BlockSize}, flag: "block-size", usage: "tokens of a KV block"},
		{name: "engine.kv_cache_memory", value: sizeValue{&e.KVCacheMemory}, flag: "kv-cache-memory", usage: "memory for keys and values; on a GPU, a bound on what is free"},
		{name: "engine.kv_cache_type", value: choice(&c.Device.KVCacheType, "f16", "q8_0"), flag: "kv-cache-type", usage: "how keys and values are stored"},
		{name: "engine.enable_prefix_caching", value: boolValue{&e.PrefixCaching}, flag: "enable-prefix-caching", usage: "keep and share equal beginnings of prompts", bare: "true"},
		{name: "engine.prefix_cache_scope", value: choice(&c.Host.PrefixCacheScope, host.PrefixCacheTenant, host.PrefixCacheGlobal), flag: "prefix-cache-scope", usage: "who shares them"},
		{name: "engine.scheduling_policy", value: choice(&e.SchedulingPolicy, engine.PolicyFCFS, engine.PolicyPriority), flag: "scheduling-policy", usage: "who comes first: who came first, or the lower priority"},
		{name: "engine.max_queued_requests", value: intValue{&e.MaxQueuedRequests}, flag: "max-num-queued-reqs", usage: "waiting requests before 429; 0 is no bound"},
		{name: "engine.max_queued_tokens", value: intValue{&e.MaxQueuedTokens}, flag: "max-num-queued-tokens", usage: "waiting prompt tokens before 429; 0 is no bound"},
		{name: "engine.speculative.method", value: choice(&e.Speculative.Method, engine.SpeculativeNone, engine.SpeculativeNgram, engine.SpeculativeDraft), flag: "speculative-method", usage: "guess tokens that are checked together: from the text, or by a draft model"},
		{name: "engine.speculative.num_tokens", value: intValue{&e.Speculative.NumTokens}, flag: "speculative-num-tokens", usage: "most tokens guessed at a time; fewer where they do not pay"},
		{name: "engine.speculative.ngram_max", value: intValue{&e.Speculative.NgramMax}, flag: "speculative-ngram-max", usage: "last tokens by which ngram prefers one place to another"},
		{name: "engine.speculative.ngram_min", value: intValue{&e.Speculative.NgramMin}, flag: "speculative-ngram-min", usage: "last tokens that must have stood there before"},
		{name: "engine.speculative.model", value: textValue{&c.Draft.Path}, flag: "speculative-model", usage: "draft model of the same vocabulary, a file or org/repo[:file]"},

		{name: "metrics.log_stats", value: boolValue{&m.LogStats}, flag: "disable-log-stats", usage: "keep no timing statistics", bare: "true", negated: true},
		{name: "metrics.guarded", value: boolValue{&m.Guarded}, flag: "guard-metrics", usage: "ask for an API key on /metrics too", bare: "true"},
		{name: "metrics.per_request", value: boolValue{&m.PerRequest}, flag: "enable-per-request-metrics", usage: "add the metrics object to responses", bare: "true"},
		{name: "metrics.spec_decode", value: choice(&m.SpecDecode, "none", "summary", "detailed"), flag: "per-request-spec-decode-metrics", usage: "level of metrics.speculative_decoding"},
		{name: "metrics.force_include_usage", value: choice(&m.ForceIncludeUsage, "off", "final", "continuous"), flag: "enable-force-include-usage", usage: "send a stream's usage unasked; alone it means final", bare: "final"},
		{name: "metrics.prompt_tokens_details", value: boolValue{&m.PromptTokensDetails}, flag: "enable-prompt-tokens-details", usage: "add usage.prompt_tokens_details", bare: "true"},

		{name: "ledger.path", value: textValue{&c.Ledger.Path}, flag: "ledger-path", usage: "file of usage records, .jsonl"},
		{name: "ledger.sinks", value: listValue{&c.Ledger.Sinks}, secret: true, only: none},

		{name: "sim.prefill_per_token", value: durationValue{&c.Sim.PrefillPerToken}, flag: "sim-prefill-per-token", usage: "step time of a prompt token"},
		{name: "sim.step_base", value: durationValue{&c.Sim.StepBase}, flag: "sim-step-base", usage: "step time before any work"},
		{name: "sim.per_sequence", value: durationValue{&c.Sim.PerSequence}, flag: "sim-per-sequence", usage: "step time of a decoding sequence"},
		{name: "sim.jitter", value: durationValue{&c.Sim.Jitter}, flag: "sim-jitter", usage: "longest time added to a step at random"},

		{name: "log.level", value: choice(&c.Log.Level, "debug", "info", "warn", "error"), flag: "log-level", usage: "least level of the log", live: true},
	}
}
