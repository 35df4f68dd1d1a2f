package openai

import "github.com/go-json-experiment/json/jsontext"

// ChatRequest is a body of /v1/chat/completions.
type ChatRequest struct {
	Generation
	Messages          []Message      // at least one
	TemplateVariables jsontext.Value // chat_template_kwargs: an object for the template, or nil
}

// DecodeChat decodes and checks a chat request. Its errors are *Error.
func DecodeChat(body []byte) (*ChatRequest, error) {
	r := &ChatRequest{Generation: Generation{N: 1}}
	var (
		d         decoder
		maxTokens Opt[int]
		logprobs  bool
		top       Opt[int]
		tools     toolUse
		given     bool // messages were
	)
	err := members(body, func(name string, v jsontext.Value) {
		switch name {
		case "messages":
			r.Messages, given = d.messages(name, v), true
			if len(r.Messages) == 0 && v.Kind() == '[' {
				d.fault(name, "must have at least one message")
			}
		case "n":
			r.N = int(d.integer(name, v, 1, maxChoices).Or(1))
		case "max_tokens":
			maxTokens = d.count(name, v, 1)
		case "max_completion_tokens":
			r.MaxTokens, r.MaxTokensParam = d.count(name, v, 1), name
		case "logprobs":
			logprobs = d.bool(name, v)
		case "top_logprobs":
			top = d.few(name, v, maxTopLogprobs)
		case "tools":
			tools.tools(&d, v)
		case "tool_choice":
			tools.toolChoice(&d, v)
		case "response_format":
			d.responseFormat(name, v)
		case "modalities":
			d.list(name, v, func(param string, v jsontext.Value) { d.word(param, v, "text") })
		case "chat_template_kwargs":
			d.object(name, v, func(string, jsontext.Value) {})
			r.TemplateVariables = compact(v)
		default:
			if !r.field(&d, name, v) {
				d.refuseUnavailable(Chat, name, v)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if r.MaxTokensParam == "" && maxTokens.Set { // the newer name wins
		r.MaxTokens, r.MaxTokensParam = maxTokens, "max_tokens"
	}
	if !given {
		d.fault("messages", "is required: a list of messages")
	}
	switch {
	case logprobs:
		r.Logprobs = Some(top.Or(0))
	case top.Value > 0:
		d.fault("top_logprobs", "is only allowed with logprobs true")
	}
	tools.check(&d)
	r.check(&d)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}
