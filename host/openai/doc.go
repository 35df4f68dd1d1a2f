// Package openai holds the wire format of the OpenAI API: it decodes and checks requests, and writes responses, stream chunks
// and errors. It knows no transport and no engine: bytes come in, plain values go out, and the reverse.
//
// Decoding is strict where that protects (duplicate keys, invalid UTF-8, trailing data, wrong types and ranges are refused with
// the field's name) and tolerant where clients need it (unknown fields are ignored, null is as if absent). A field whose
// feature is not there is refused if the answer would be wrong without it; see unavailable.go.
//
// Nothing decoded aliases the input, so the caller may reuse its buffer.
//
// Writing appends to the caller's buffer. Keys stand in the order in which vLLM 0.32 sends them, where it sends them.
package openai

// Endpoint names one of the three generating endpoints. The numbers are those of the plugin frame (host/plugin/ABI.md).
type Endpoint uint8

// The generating endpoints.
const (
	Chat        Endpoint = 1 // /v1/chat/completions
	Completions Endpoint = 2 // /v1/completions
	Responses   Endpoint = 3 // /v1/responses
)
