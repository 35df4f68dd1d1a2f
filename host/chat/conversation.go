package chat

import "slices"

// Conversation is what a template is rendered for.
type Conversation struct {
	Messages []Message
	Tools    [][]byte // definitions of tools, each a JSON object; none is the template's none

	// Variables is a JSON object of further variables for the template, such as enable_thinking, or nil. Those that every
	// template gets cannot be replaced by it.
	Variables []byte

	// AddGenerationPrompt opens the assistant's turn at the end, for the model to go on.
	AddGenerationPrompt bool
}

// Message is one turn.
type Message struct {
	Role       string
	Content    string
	Name       string
	Reasoning  string     // what an assistant thought before its content
	ToolCalls  []ToolCall // what an assistant called
	ToolCallID string     // the call that a tool's content answers
}

// ToolCall is an assistant's call of a function.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // as the model wrote it; templates get the object if it is one
}

// withSystem is the messages for a template that knows no developer: such a message becomes a system message. The leading ones
// become one, as most templates take a system message in the first place only.
func withSystem(messages []Message) []Message {
	if !slices.ContainsFunc(messages, func(m Message) bool { return m.Role == "developer" }) {
		return messages
	}
	var out []Message
	mapped, leading := false, true
	for _, m := range messages {
		if m.Role == "developer" {
			m.Role, mapped = "system", true
		}
		leading = leading && m.Role == "system"
		if leading && mapped && len(out) > 0 {
			out[0].Content += "\n\n" + m.Content
			continue
		}
		out = append(out, m)
	}
	return out
}
