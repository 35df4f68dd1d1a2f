package cases

import (
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// The ABI's words for the codes of a frame, by their values.
var (
	endpoints  = []string{1: "chat", "completions", "responses"}
	hooks      = []string{plugin.HookRequest: "request", plugin.HookShape: "shape", plugin.HookChunk: "chunk", plugin.HookFinish: "finish"}
	eventKinds = []string{1: "queued", "scheduled", "first_token", "tokens", "preempted", "resumed", "finished", "aborted", "rejected", "draft"}
	outcomes   = []string{"running", "stop", "length", "tool_calls", "client_abort", "server_error", "rejected", "deadline", "shutdown",
		"slow_reader", "denied", "plugin_error", "crash_recovered"}
	// flags by their bits.
	flags = []string{"stream", "partial", "multi_choice", "multi_prompt", "multi_turn", "timing_unknown", "timings_wanted", "replay",
		"synthetic", "batch", "usage_chunk_wanted"}
)

// frameFields are the fields of a frame by the ABI's names. What the host sets
// itself, the chain's id and what a plugin carries on, is not among them, and the
// document belongs to a step.
func frameFields(f *plugin.Frame) map[string]any {
	return map[string]any{
		"flags": &f.Flags, "endpoint": &f.Endpoint, "outcome": &f.Outcome,
		"n": &f.N, "prompts": &f.Prompts, "http_status": &f.HTTPStatus, "tool_calls": &f.ToolCalls,
		"arrival_unix_ns": &f.ArrivalUnixNS, "prompt_tokens": &f.PromptTokens, "completion_tokens": &f.CompletionTokens,
		"cached_prompt_tokens": &f.CachedPromptTokens, "cache_write_tokens": &f.CacheWriteTokens, "reasoning_tokens": &f.ReasoningTokens,
		"image_tokens": &f.ImageTokens, "audio_tokens": &f.AudioTokens, "delivered_tokens": &f.DeliveredTokens,
		"recomputed_tokens": &f.RecomputedTokens, "preemptions": &f.Preemptions, "drafted_tokens": &f.DraftedTokens,
		"accepted_tokens": &f.AcceptedTokens, "max_tokens": &f.MaxTokens, "priority": &f.Priority,
		"slo_ttft_ms": &f.SLOTTFTms, "slo_tpot_ms": &f.SLOTPOTms, "deadline_ms": &f.DeadlineMS,
		"queued_ns": &f.QueuedNS, "scheduled_ns": &f.ScheduledNS, "first_token_ns": &f.FirstTokenNS, "last_token_ns": &f.LastTokenNS,
		"finished_ns": &f.FinishedNS, "device_ns": &f.DeviceNS, "record_seq": &f.RecordSeq,
		"request_id": &f.RequestID, "attempt_id": &f.AttemptID, "client_request_id": &f.ClientRequestID, "model": &f.Model,
		"tenant": &f.Tenant, "key_name": &f.KeyName, "adapter": &f.Adapter, "service_tier": &f.ServiceTier, "user_hash": &f.UserHash,
		"idempotency_key": &f.IdempotencyKey, "metadata": (*jsonText)(&f.Metadata), "spec_json": (*jsonText)(&f.SpecJSON),
		"choices": &f.Choices, "events": &f.Events,
	}
}

func choiceFields(c *plugin.Choice) map[string]any {
	return map[string]any{
		"index": &c.Index, "prompt_index": &c.PromptIndex, "finish_reason": &c.FinishReason, "prompt_tokens": &c.PromptTokens,
		"cached_tokens": &c.CachedTokens, "completion_tokens": &c.CompletionTokens, "reasoning_tokens": &c.ReasoningTokens,
		"delivered_tokens": &c.DeliveredTokens, "queued_ns": &c.QueuedNS, "scheduled_ns": &c.ScheduledNS, "first_token_ns": &c.FirstTokenNS,
		"last_token_ns": &c.LastTokenNS, "device_ns": &c.DeviceNS, "drafted": &c.Drafted, "accepted": &c.Accepted, "spec_steps": &c.SpecSteps,
	}
}

func eventFields(e *plugin.Event) map[string]any {
	return map[string]any{
		"t_ns": &e.TimeNS, "kind": &e.Kind, "flags": &e.Flags, "n_tokens": &e.NumTokens, "batch_tokens": &e.BatchTokens, "aux": &e.Aux,
	}
}

// jsonText is a string of a frame that holds JSON: a mapping is written as such.
type jsonText string

// frame reads what is said of a frame; the rest stays.
func (r *reader) frame(n *yaml.Node, at string, f *plugin.Frame) { r.record(n, at, frameFields(f)) }

// record reads a mapping into the places of its fields.
func (r *reader) record(n *yaml.Node, at string, places map[string]any) {
	known := make(fields, len(places))
	for name, place := range places {
		known[name] = func(n *yaml.Node, at string) { r.into(n, at, place) }
	}
	r.mapping(n, at, known)
}

// into reads a field of any of the types that frames have.
func (r *reader) into(n *yaml.Node, at string, place any) {
	switch p := place.(type) {
	case *uint16:
		*p = uint16(r.integer(n, at, math.MaxUint16))
	case *uint32:
		*p = uint32(r.integer(n, at, math.MaxUint32))
	case *uint64:
		*p = r.integer(n, at, math.MaxUint64)
	case *int32:
		*p = int32(r.signed(n, at, 32))
	case *string:
		*p = r.text(n, at)
	case *jsonText:
		*p = jsonText(r.document(n, at))
	case *plugin.Endpoint:
		*p = plugin.Endpoint(r.word(n, at, endpoints))
	case *plugin.Outcome:
		*p = plugin.Outcome(r.word(n, at, outcomes))
	case *plugin.EventKind:
		*p = plugin.EventKind(r.word(n, at, eventKinds))
	case *plugin.Flags:
		*p = 0
		r.list(n, at, func(n *yaml.Node, at string) { *p |= 1 << r.word(n, at, flags) })
	case *[]plugin.Choice:
		*p = nil
		r.list(n, at, func(n *yaml.Node, at string) {
			c := plugin.Choice{Index: uint32(len(*p))}
			r.record(n, at, choiceFields(&c))
			*p = append(slices.Clip(*p), c) // the step before keeps its own
		})
	case *[]plugin.Event:
		*p = nil
		r.list(n, at, func(n *yaml.Node, at string) {
			var e plugin.Event
			r.record(n, at, eventFields(&e))
			*p = append(slices.Clip(*p), e)
		})
	}
}
