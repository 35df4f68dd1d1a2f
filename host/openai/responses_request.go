package openai

import "github.com/go-json-experiment/json/jsontext"

// ResponsesRequest is a body of /v1/responses.
type ResponsesRequest struct {
	Generation
	Messages           []Message // the instructions as a system message, if any, then the input
	PreviousResponseID string    // the stored response that this one continues; empty if none

	// What follows has no effect here and is repeated in the response.
	Instructions      Opt[string]
	Tools             jsontext.Value // a list, or nil
	ToolChoice        jsontext.Value // or nil
	ParallelToolCalls bool
	MaxToolCalls      Opt[int]
}

// DecodeResponses decodes and checks a Responses request. Its errors are *Error.
func DecodeResponses(body []byte) (*ResponsesRequest, error) {
	r := &ResponsesRequest{Generation: Generation{N: 1}, ParallelToolCalls: true}
	var (
		d        decoder
		input    []Message
		given    bool // the input was
		logprobs bool
		top      Opt[int]
		tools    toolUse
	)
	err := members(body, func(name string, v jsontext.Value) {
		switch name {
		case "input":
			input, given = d.input(name, v), true
		case "instructions":
			r.Instructions = Some(d.text(name, v))
		case "max_output_tokens":
			r.MaxTokens, r.MaxTokensParam = d.count(name, v, 1), name
		case "previous_response_id":
			r.PreviousResponseID = d.text(name, v)
		case "include":
			d.list(name, v, func(param string, v jsontext.Value) {
				logprobs = d.text(param, v) == "message.output_text.logprobs" || logprobs
			})
		case "top_logprobs":
			top = d.few(name, v, maxTopLogprobs)
		case "tools":
			tools.tools(&d, v)
			r.Tools = compact(v)
		case "tool_choice":
			tools.toolChoice(&d, v)
			r.ToolChoice = compact(v)
		case "parallel_tool_calls":
			r.ParallelToolCalls = d.bool(name, v)
		case "max_tool_calls":
			r.MaxToolCalls = d.count(name, v, 0)
		case "text":
			d.object(name, v, func(name string, v jsontext.Value) {
				if name == "format" {
					d.responseFormat("text.format", v)
				}
			})
		default:
			if !r.field(&d, name, v) {
				d.refuseUnavailable(Responses, name, v)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if logprobs {
		r.Logprobs = Some(top.Or(0))
	}
	if r.Instructions.Set {
		r.Messages = append(r.Messages, Message{Role: "system", Content: r.Instructions.Value})
	}
	r.Messages = append(r.Messages, input...)
	switch {
	case !given:
		d.fault("input", "is required: a string or a list of items")
	case len(r.Messages) == 0 && len(d.faults) == 0:
		d.fault("input", "must have at least one item, or instructions must be given")
	}
	tools.check(&d)
	r.check(&d)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// input is a string, which is a user's message, or a list of items.
func (d *decoder) input(param string, v jsontext.Value) []Message {
	switch v.Kind() {
	case '"':
		return []Message{{Role: "user", Content: d.text(param, v)}}
	case '[':
		var messages []Message
		d.list(param, v, func(param string, v jsontext.Value) { messages = d.item(messages, param, v) })
		return messages
	}
	d.fault(param, "must be a string or a list of items, got %s", found(v))
	return nil
}

// item adds an item of the input to the messages. Members that only repeat a server's output (id, status, annotations) are
// ignored, since clients send them or not.
func (d *decoder) item(messages []Message, param string, v jsontext.Value) []Message {
	kind, call, output, callID := "", ToolCall{}, "", ""
	d.object(param, v, func(name string, v jsontext.Value) {
		at := param + "." + name
		switch name {
		case "type":
			kind = d.text(at, v)
		case "call_id":
			callID = d.text(at, v)
		}
	})
	if v.Kind() != '{' {
		return messages
	}
	switch kind {
	case "", "message":
		return append(messages, d.message(param, v))
	case "reasoning": // a model's thoughts about earlier turns don't reach it again
		return messages
	case "function_call":
		call = d.function(param, v)
		call.ID = callID
		// Calls of one turn, and the text before them, are one message for a template.
		if last := len(messages) - 1; last >= 0 && messages[last].Role == "assistant" {
			messages[last].ToolCalls = append(messages[last].ToolCalls, call)
			return messages
		}
		return append(messages, Message{Role: "assistant", ToolCalls: []ToolCall{call}})
	case "function_call_output":
		d.object(param, v, func(name string, v jsontext.Value) {
			if name == "output" {
				output = d.content(param+".output", v)
			}
		})
		return append(messages, Message{Role: "tool", Content: output, ToolCallID: callID})
	}
	d.fault(param+".type", "%s is not available; use message, function_call, function_call_output or reasoning", quoted(kind))
	return messages
}
