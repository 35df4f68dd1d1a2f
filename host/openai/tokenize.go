package openai

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// TokenizeRequest is a body of /tokenize, vLLM's: a prompt or messages.
type TokenizeRequest struct {
	Model               string // may be empty
	Prompt              string
	Messages            []Message // used if not nil
	AddGenerationPrompt bool      // for messages; true if not given
	AddSpecialTokens    bool      // true for a prompt and false for messages if not given, as in generation
	WithTexts           bool      // return_token_strs
	TemplateVariables   jsontext.Value
}

// DecodeTokenize decodes and checks a tokenize request. Its errors are *Error.
func DecodeTokenize(body []byte) (*TokenizeRequest, error) {
	r := &TokenizeRequest{AddGenerationPrompt: true}
	var d decoder
	var special Opt[bool]
	prompt := false
	err := members(body, func(name string, v jsontext.Value) {
		switch name {
		case "model":
			r.Model = d.text(name, v)
		case "prompt":
			r.Prompt, prompt = d.text(name, v), true
		case "messages":
			r.Messages = d.messages(name, v)
			if len(r.Messages) == 0 && v.Kind() == '[' {
				d.fault(name, "must have at least one message")
			}
		case "add_generation_prompt":
			r.AddGenerationPrompt = d.bool(name, v)
		case "add_special_tokens":
			special = Some(d.bool(name, v))
		case "return_token_strs":
			r.WithTexts = d.bool(name, v)
		case "chat_template_kwargs":
			d.object(name, v, func(string, jsontext.Value) {})
			r.TemplateVariables = compact(v)
		case "continue_final_message", "chat_template":
			d.refuseUnavailable(Chat, name, v)
		}
	})
	if err != nil {
		return nil, err
	}
	if prompt == (r.Messages != nil) && len(d.faults) == 0 {
		d.fault("prompt", "is required, or messages, not both")
	}
	r.AddSpecialTokens = special.Or(prompt)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// DetokenizeRequest is a body of /detokenize.
type DetokenizeRequest struct {
	Model  string // may be empty
	Tokens []int
}

// DecodeDetokenize decodes and checks a detokenize request. Its errors are *Error.
func DecodeDetokenize(body []byte) (*DetokenizeRequest, error) {
	r := new(DetokenizeRequest)
	var d decoder
	given := false
	err := members(body, func(name string, v jsontext.Value) {
		switch name {
		case "model":
			r.Model = d.text(name, v)
		case "tokens":
			r.Tokens, given = d.tokenIDs(name, v, math.MaxInt32), true
		}
	})
	if err != nil {
		return nil, err
	}
	if !given {
		d.fault("tokens", "is required: a list of token ids")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// AppendTokenized appends the answer of /tokenize. Texts are the tokens' own, or nil: null.
func AppendTokenized(dst []byte, tokens []int, maxModelLen int, texts []string) []byte {
	dst = append(dst, `{"count":`...)
	dst = appendInt(dst, len(tokens))
	dst = append(dst, `,"max_model_len":`...)
	dst = appendInt(dst, maxModelLen)
	dst = append(dst, `,"tokens":[`...)
	for i, token := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, token)
	}
	if texts == nil {
		return append(dst, `],"token_strs":null}`...)
	}
	dst = append(dst, `],"token_strs":[`...)
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, text)
	}
	return append(dst, "]}"...)
}

// AppendDetokenized appends the answer of /detokenize.
func AppendDetokenized(dst []byte, text string) []byte {
	dst = append(dst, `{"prompt":`...)
	dst = appendString(dst, text)
	return append(dst, '}')
}
