package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wasmeter/wasmeter/host/chat/jinja"
)

const maxDepth = 128 // nested objects and lists in a tool's definition, arguments or variables

// values makes the template's values out of what a client gave, guarding every string.
type values struct{ guard *guard }

func (v values) text(s string) jinja.Value { return v.guard.text(s) }

// messages is a list of objects as transformers gives them. Members without a meaning for the turn are left out, since
// templates ask whether they are defined.
func (v values) messages(messages []Message) jinja.Value {
	items := make(jinja.List, len(messages))
	for i, m := range messages {
		dict := jinja.NewDict()
		dict.Set("role", v.text(m.Role))
		dict.Set("content", v.text(m.Content))
		if m.Name != "" {
			dict.Set("name", v.text(m.Name))
		}
		if m.Reasoning != "" { // templates use either name
			dict.Set("reasoning", v.text(m.Reasoning))
			dict.Set("reasoning_content", v.text(m.Reasoning))
		}
		if len(m.ToolCalls) > 0 {
			dict.Set("tool_calls", v.toolCalls(m.ToolCalls))
		}
		if m.ToolCallID != "" {
			dict.Set("tool_call_id", v.text(m.ToolCallID))
		}
		items[i] = dict
	}
	return items
}

func (v values) toolCalls(calls []ToolCall) jinja.Value {
	items := make(jinja.List, len(calls))
	for i, call := range calls {
		arguments, err := v.json([]byte(call.Arguments))
		if _, isDict := arguments.(*jinja.Dict); err != nil || !isDict {
			arguments = v.text(call.Arguments) // a model may have written half an object; the turn stands all the same
		}
		function := jinja.NewDict()
		function.Set("name", v.text(call.Name))
		function.Set("arguments", arguments)
		dict := jinja.NewDict()
		if call.ID != "" {
			dict.Set("id", v.text(call.ID))
		}
		dict.Set("type", "function")
		dict.Set("function", function)
		items[i] = dict
	}
	return items
}

// tools is the list of definitions, or none.
func (v values) tools(tools [][]byte) (jinja.Value, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	items := make(jinja.List, len(tools))
	for i, tool := range tools {
		item, err := v.json(tool)
		if err != nil {
			return nil, fmt.Errorf("read tool %d: %w", i, err)
		}
		items[i] = item
	}
	return items, nil
}

// json is a JSON document with the order of its members kept, which reaches the prompt.
func (v values) json(doc []byte) (jinja.Value, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	value, err := v.next(dec, maxDepth)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON value")
	}
	return value, nil
}

func (v values) next(dec *json.Decoder, depth int) (jinja.Value, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == 0 {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if token == '{' {
			return v.object(dec, depth)
		}
		return v.list(dec, depth)
	case string:
		return v.text(token), nil
	default:
		return jinja.FromJSON(token), nil // null, a boolean or a json.Number
	}
}

func (v values) object(dec *json.Decoder, depth int) (jinja.Value, error) {
	object := jinja.NewDict()
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return object, err
		}
		member, err := v.next(dec, depth-1)
		if err != nil {
			return object, err
		}
		object.Set(v.guard.text(name.(string)), member) // the decoder gives nothing but strings here
	}
	_, err := dec.Token()
	return object, err
}

func (v values) list(dec *json.Decoder, depth int) (jinja.Value, error) {
	var items jinja.List
	for dec.More() {
		item, err := v.next(dec, depth-1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := dec.Token()
	return items, err
}

// messageBytes is what a message takes beside its text.
const messageBytes = 256

// size is about how many bytes a rendering's variables hold.
func (c *Conversation) size() int {
	n := len(c.Variables)
	for _, m := range c.Messages {
		n += messageBytes + len(m.Role) + len(m.Content) + len(m.Name) + len(m.Reasoning) + len(m.ToolCallID)
		for _, call := range m.ToolCalls {
			n += len(call.ID) + len(call.Name) + len(call.Arguments)
		}
	}
	for _, tool := range c.Tools {
		n += len(tool)
	}
	return n
}

// contains reports whether a string of the conversation holds s, which is what the choice of a marker asks.
func (c *Conversation) contains(s string) bool {
	for _, m := range c.Messages {
		for _, text := range []string{m.Role, m.Content, m.Name, m.Reasoning, m.ToolCallID} {
			if strings.Contains(text, s) {
				return true
			}
		}
		for _, call := range m.ToolCalls {
			if strings.Contains(call.ID, s) || strings.Contains(call.Name, s) || containsJSON([]byte(call.Arguments), s) {
				return true
			}
		}
	}
	for _, tool := range c.Tools {
		if containsJSON(tool, s) {
			return true
		}
	}
	return containsJSON(c.Variables, s)
}

// containsJSON is cautious: an escape may spell anything, so one of the escapes that could spell s counts as s.
func containsJSON(doc []byte, s string) bool {
	if len(doc) == 0 {
		return false
	}
	return bytes.Contains(doc, []byte(s)) || bytes.Contains(bytes.ToLower(doc), fmt.Appendf(nil, `\u%04x`, []rune(s)[0]))
}
