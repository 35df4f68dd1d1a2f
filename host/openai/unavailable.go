package openai

import "github.com/go-json-experiment/json/jsontext"

// unavailable lists fields of features that are not there, with what to say. They are refused rather than ignored, since the
// answer would not be what the client asked for. Fields that only hint (reasoning_effort, prediction, verbosity) or mark
// (user, store, service_tier) are ignored. best_of is ignored as in vLLM.
var unavailable = map[string]string{
	"add_generation_prompt":      "must be left out or true",
	"allowed_token_ids":          "restricting tokens is not available",
	"audio":                      "audio output is not available",
	"bad_words":                  "banning words is not available; use logit_bias",
	"chat_template":              "the model's own template is used; leave this out",
	"continue_final_message":     "continuing a message is not available",
	"documents":                  "documents are not available; put them into a message",
	"echo":                       "echo is only available on /v1/completions",
	"function_call":              "functions are not available",
	"functions":                  "functions are not available",
	"guided_choice":              "structured output is not available",
	"guided_grammar":             "structured output is not available",
	"guided_json":                "structured output is not available",
	"guided_regex":               "structured output is not available",
	"kv_transfer_params":         "moving KV blocks between servers is not available",
	"logits_processors":          "logits processors are not available",
	"prompt_embeds":              "embeddings as a prompt are not available",
	"prompt_logprobs":            "log probabilities of the prompt are only available with echo on /v1/completions",
	"return_token_ids":           "token ids in the answer are not available; use /tokenize",
	"return_tokens_as_token_ids": "token ids in the answer are not available; use /tokenize",
	"structured_outputs":         "structured output is not available",
	"suffix":                     "text after the completion is not available",
	"truncate_prompt_tokens":     "cutting the prompt is not available; send a shorter one",
	"use_beam_search":            "beam search is not available",
	"web_search_options":         "web search is not available",
}

// unavailableResponses are those of /v1/responses, whose names mean something else or nothing elsewhere.
var unavailableResponses = map[string]string{
	"background":   "background responses are not available",
	"conversation": "stored conversations are not available; send the whole input",
	"prompt":       "stored prompts are not available; send the input itself",
}

// refuseUnavailable notes a fault for a field of a feature that is not there, unless its value asks for nothing.
func (d *decoder) refuseUnavailable(endpoint Endpoint, name string, v jsontext.Value) {
	why, known := unavailable[name]
	if !known && endpoint == Responses {
		why, known = unavailableResponses[name]
	}
	if !known {
		return
	}
	switch string(v) {
	case "false", "[]", "{}", `""`, `"none"`:
		return
	}
	if name == "add_generation_prompt" && v.Kind() == 't' {
		return
	}
	d.fault(name, "%s; got %s", why, found(v))
}

// responseFormat refuses all formats but text.
func (d *decoder) responseFormat(param string, v jsontext.Value) {
	kind := ""
	d.object(param, v, func(name string, v jsontext.Value) {
		if name == "type" {
			kind = d.text(param+".type", v)
		}
	})
	switch kind {
	case "text":
	case "json_object", "json_schema", "structural_tag":
		d.fault(param, "structured output (%s) is not available; use the type \"text\"", kind)
	case "":
		if v.Kind() == '{' {
			d.fault(param+".type", "must be \"text\"")
		}
	default:
		d.fault(param+".type", "must be \"text\", got %s", quoted(kind))
	}
}

// toolUse is what a request says about tools. Calls that a model writes are not parsed, so tools that the model could call are
// refused: showing them to the model and handing its call back as text would leave an agent waiting for a call that never
// comes. With the choice "none" they have no meaning and are left out of the prompt. See RATIONALE.md.
type toolUse struct {
	callable int    // function tools, which the client expects to be called
	choice   string // "" if absent
}

func (t *toolUse) tools(d *decoder, v jsontext.Value) {
	d.list("tools", v, func(param string, v jsontext.Value) {
		d.object(param, v, func(name string, v jsontext.Value) {
			if name == "type" && d.text(param+".type", v) == "function" {
				t.callable++
			}
		})
	})
}

func (t *toolUse) toolChoice(d *decoder, v jsontext.Value) {
	switch v.Kind() {
	case '"':
		t.choice = d.word("tool_choice", v, "none", "auto", "required")
	case '{':
		t.choice = "named"
	default:
		d.fault("tool_choice", "must be \"none\", \"auto\", \"required\" or an object, got %s", found(v))
	}
}

func (t *toolUse) check(d *decoder) {
	switch {
	case t.choice == "required" || t.choice == "named":
		d.fault("tool_choice", "tool calls are not available; use \"none\"")
	case t.callable > 0 && t.choice != "none":
		d.fault("tools", "tool calls are not available; leave tools out or set tool_choice to \"none\"")
	}
}
