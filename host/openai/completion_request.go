package openai

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// maxPrompts bounds the prompts of one body, each of which is a request of its own to the engine.
const maxPrompts = 1024

// CompletionRequest is a body of /v1/completions.
type CompletionRequest struct {
	Generation
	Prompts []Prompt // at least one, none empty
	Echo    bool     // begin the text with the prompt
}

// Prompt is a text or the ids of its tokens.
type Prompt struct {
	Text   string
	Tokens []int // used if not nil
}

// DecodeCompletion decodes and checks a completions request. Its errors are *Error.
func DecodeCompletion(body []byte) (*CompletionRequest, error) {
	r := &CompletionRequest{Generation: Generation{N: 1}}
	var d decoder
	given := false // the prompt was
	err := members(body, func(name string, v jsontext.Value) {
		switch name {
		case "prompt":
			r.Prompts, given = d.prompts(name, v), true
		case "n":
			r.N = int(d.integer(name, v, 1, maxChoices).Or(1))
		case "max_tokens":
			r.MaxTokens, r.MaxTokensParam = d.count(name, v, 0), name
		case "echo":
			r.Echo = d.bool(name, v)
		case "logprobs":
			r.Logprobs = d.few(name, v, maxTopLogprobs)
		case "response_format":
			d.responseFormat(name, v)
		default:
			if !r.field(&d, name, v) {
				d.refuseUnavailable(Completions, name, v)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if !given {
		d.fault("prompt", "is required: a string, or a list of strings, token ids or lists of token ids")
	}
	if r.MaxTokens.Set && r.MaxTokens.Value == 0 && !r.Echo {
		d.fault("max_tokens", "must be at least 1, or 0 with echo true")
	}
	r.check(&d)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// prompts takes the four shapes of a prompt. The first item says which of the lists it is.
func (d *decoder) prompts(param string, v jsontext.Value) []Prompt {
	if v.Kind() == '"' {
		return []Prompt{d.promptText(param, v)}
	}
	if v.Kind() != '[' {
		d.fault(param, "must be a string or a list, got %s", found(v))
		return nil
	}
	var prompts []Prompt
	var ids []int
	kind := jsontext.Kind(0)
	d.list(param, v, func(param string, v jsontext.Value) {
		if kind == 0 {
			kind = v.Kind()
		}
		switch {
		case v.Kind() != kind:
			d.fault(param, "must be %s as the items before it, got %s", kindName(kind), found(v))
		case kind == '"':
			prompts = append(prompts, d.promptText(param, v))
		case kind == '0':
			ids = append(ids, d.count(param, v, 0).Value)
		case kind == '[':
			prompts = append(prompts, Prompt{Tokens: d.promptTokens(param, v)})
		default:
			d.fault(param, "must be a string, a token id or a list of token ids, got %s", found(v))
		}
	})
	if kind == '0' {
		prompts = []Prompt{{Tokens: ids}}
	}
	switch {
	case kind == 0:
		d.fault(param, "must hold at least one prompt")
	case len(prompts) > maxPrompts:
		d.fault(param, "must be at most %d prompts, got %d", maxPrompts, len(prompts))
	}
	return prompts
}

func (d *decoder) promptText(param string, v jsontext.Value) Prompt {
	text := d.text(param, v)
	if text == "" && v.Kind() == '"' {
		d.fault(param, "must not be empty")
	}
	return Prompt{Text: text}
}

func (d *decoder) promptTokens(param string, v jsontext.Value) []int {
	ids := d.tokenIDs(param, v, math.MaxInt32)
	if len(ids) == 0 {
		d.fault(param, "must hold at least one token id")
	}
	return ids
}
