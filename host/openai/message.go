package openai

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one turn of a conversation.
type Message struct {
	Role       string // system, developer, user, assistant, tool or function
	Content    string // parts are joined by line feeds
	Name       string
	Reasoning  string     // of an assistant's turn
	ToolCalls  []ToolCall // of an assistant's turn
	ToolCallID string     // of a tool's turn
}

// ToolCall is a call that an assistant made in an earlier turn.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text, as the model wrote it
}

var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func (d *decoder) messages(param string, v jsontext.Value) []Message {
	var messages []Message
	d.list(param, v, func(param string, v jsontext.Value) {
		messages = append(messages, d.message(param, v))
	})
	return messages
}

func (d *decoder) message(param string, v jsontext.Value) Message {
	// A content that is null or missing is an empty one: agents send that for calls and empty results.
	var m Message
	hasRole := false
	d.object(param, v, func(name string, v jsontext.Value) {
		at := param + "." + name
		switch name {
		case "role":
			m.Role, hasRole = d.word(at, v, roles...), true
		case "content":
			m.Content = d.content(at, v)
		case "refusal":
			if m.Content == "" {
				m.Content = d.text(at, v)
			}
		case "name":
			m.Name = d.text(at, v)
		case "reasoning", "reasoning_content":
			m.Reasoning = d.text(at, v)
		case "tool_call_id":
			m.ToolCallID = d.text(at, v)
		case "tool_calls":
			d.list(at, v, func(param string, v jsontext.Value) {
				m.ToolCalls = append(m.ToolCalls, d.toolCall(param, v))
			})
		case "function_call":
			m.ToolCalls = append(m.ToolCalls, d.function(at, v))
		case "audio":
			d.fault(at, "audio is not available; send the transcript as content")
		}
	})
	if !hasRole && v.Kind() == '{' {
		d.fault(param+".role", "is required: one of %s", strings.Join(roles, ", "))
	}
	return m
}

// content is a string or a list of text parts, which are joined by line feeds as vLLM does for templates that take a string.
func (d *decoder) content(param string, v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		return d.text(param, v)
	case '[':
		var parts []string
		d.list(param, v, func(param string, v jsontext.Value) { parts = append(parts, d.part(param, v)) })
		return strings.Join(parts, "\n")
	}
	d.fault(param, "must be a string, null or a list of parts, got %s", found(v))
	return ""
}

func (d *decoder) part(param string, v jsontext.Value) string {
	if v.Kind() == '"' { // a bare string is a text part for vLLM, too
		return d.text(param, v)
	}
	kind, text, refusal := "", Opt[string]{}, Opt[string]{}
	d.object(param, v, func(name string, v jsontext.Value) {
		switch name {
		case "type":
			kind = d.text(param+".type", v)
		case "text":
			text = Some(d.text(param+".text", v))
		case "refusal":
			refusal = Some(d.text(param+".refusal", v))
		}
	})
	if v.Kind() != '{' {
		return ""
	}
	switch kind {
	case "text", "input_text", "output_text":
	case "refusal":
		text = refusal
	case "":
		d.fault(param+".type", "is required: text, input_text, output_text or refusal")
		return ""
	default:
		d.fault(param+".type", "%s is not available: the model takes text only", quoted(kind))
		return ""
	}
	if !text.Set {
		d.fault(param, "has no text")
	}
	return text.Value
}

func (d *decoder) toolCall(param string, v jsontext.Value) ToolCall {
	var call ToolCall
	id, hasFunction := "", false
	d.object(param, v, func(name string, v jsontext.Value) {
		switch name {
		case "id":
			id = d.text(param+".id", v)
		case "type":
			d.word(param+".type", v, "function")
		case "function":
			call, hasFunction = d.function(param+".function", v), true
		}
	})
	if !hasFunction && v.Kind() == '{' {
		d.fault(param+".function", "is required")
	}
	call.ID = id
	return call
}

// function is a called function's name and arguments.
func (d *decoder) function(param string, v jsontext.Value) ToolCall {
	var call ToolCall
	d.object(param, v, func(name string, v jsontext.Value) {
		switch name {
		case "name":
			call.Name = d.text(param+".name", v)
		case "arguments":
			call.Arguments = d.text(param+".arguments", v)
		}
	})
	if call.Name == "" && v.Kind() == '{' {
		d.fault(param+".name", "is required")
	}
	return call
}
