package openai

import "slices"

// The top-level keys of the documents that end an answer, and some that clients give a meaning to wherever they stand: a truthy
// "error" makes each SDK raise, and "output_text" is what the SDKs compute.
var (
	chatKeys     = []string{"id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "error"}
	responseKeys = []string{
		"id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
		"instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
		"presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
		"max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
		"user", "prompt", "conversation", "output_text",
	}
)

// Reserved lists the top-level keys of an endpoint's documents, streamed or not, which a plugin may not set.
func Reserved(e Endpoint) []string {
	if e == Responses {
		return slices.Clone(responseKeys)
	}
	return slices.Clone(chatKeys)
}

// ReservedUsage lists the members of usage, of every endpoint, which a plugin may not set.
func ReservedUsage() []string {
	return []string{
		"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details",
		"input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details",
	}
}
