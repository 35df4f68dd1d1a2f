package chat

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/wasmeter/wasmeter/host/chat/jinja"
)

// maxTemplateBytes is far above the largest templates of published models, which are about 30 KB.
const maxTemplateBytes = 1 << 20

// ErrNoTemplate says that a model has no chat template. Nothing is put in its place: a wrong form of prompt gives answers that
// look right and are worse.
var ErrNoTemplate = errors.New("the model has no chat template (metadata key tokenizer.chat_template); " +
	"use /v1/completions, or a model file that has one")

// Options is what a template needs from its model.
type Options struct {
	Template string // Jinja source; required
	BOS, EOS string // spellings of the tokens that begin and end a text; may be empty

	// Specials are the spellings of all control tokens (GGUF token type 3). Tokens of type 4, such as <think>, are text, which
	// templates look for in an assistant's turns and the tokenizer finds by itself.
	Specials []string

	// Now is the time for templates that tell the model the date; nil is time.Now.
	Now func() time.Time
}

// Template is a model's chat template. Render may be called by many goroutines.
type Template struct {
	compiled       *jinja.Template
	text           string // its source
	constants      map[string]jinja.Value
	spellings      *spellings
	markers        []string // candidates that don't occur in the template
	knowsDeveloper bool     // the template has words for the developer role
	now            func() time.Time
}

// Piece is a part of a prompt: a control token, or text to be tokenized without looking for any.
type Piece struct {
	Text    string
	Special bool
}

// New parses the template. An error of its syntax names line and column.
func New(o Options) (*Template, error) {
	if strings.TrimSpace(o.Template) == "" {
		return nil, ErrNoTemplate
	}
	if len(o.Template) > maxTemplateBytes {
		return nil, fmt.Errorf("tokenizer.chat_template has %d bytes, at most %d are taken", len(o.Template), maxTemplateBytes)
	}
	compiled, err := jinja.Compile(o.Template)
	if err != nil {
		return nil, fmt.Errorf("parse tokenizer.chat_template: %w", err)
	}
	t := &Template{
		compiled:       compiled,
		text:           o.Template,
		spellings:      newSpellings(o.Specials),
		knowsDeveloper: strings.Contains(o.Template, "'developer'") || strings.Contains(o.Template, `"developer"`),
		now:            o.Now,
	}
	if t.now == nil {
		t.now = time.Now
	}
	t.constants = t.mentioned(map[string]jinja.Value{
		"documents":       nil,
		"bos_token":       o.BOS,
		"eos_token":       o.EOS,
		"raise_exception": jinja.NewFunction("raise_exception", raiseException),
		"strftime_now":    jinja.NewFunction("strftime_now", strftimeNow(t.now)),
	})
	own := o.Template + o.BOS + o.EOS + strings.Join(o.Specials, "")
	for r := rune(0xFDD0); r <= 0xFDEF; r++ { // Unicode 15.0, section 23.7: noncharacters
		if !strings.ContainsRune(own, r) {
			t.markers = append(t.markers, string(r))
		}
	}
	// A template that comes to no end for a single question is told at load. One that refuses the question may have its reasons.
	if _, err := t.Render(Conversation{Messages: []Message{{Role: "user", Content: "Hi"}}, AddGenerationPrompt: true}); errors.Is(err, jinja.ErrLimit) {
		return nil, fmt.Errorf("try tokenizer.chat_template: %w", err)
	}
	return t, nil
}

// mentioned leaves out the variables whose names are nowhere in the template, so that a rendering does not carry them.
func (t *Template) mentioned(variables map[string]jinja.Value) map[string]jinja.Value {
	maps.DeleteFunc(variables, func(name string, _ jinja.Value) bool { return !strings.Contains(t.text, name) })
	return variables
}

// Render is the conversation as a prompt. The error is a *RaisedError if the template refuses the conversation, a *TemplateError
// if it fails.
func (t *Template) Render(c Conversation) ([]Piece, error) {
	marker, err := t.marker(&c)
	if err != nil {
		return nil, err
	}
	guard := &guard{t.spellings, marker}
	data, err := t.data(&c, values{guard})
	if err != nil {
		return nil, err
	}
	prompt, err := t.compiled.Render(data, c.size())
	var raised *RaisedError
	switch {
	case errors.As(err, &raised):
		return nil, raised
	case err != nil:
		return nil, &TemplateError{err}
	}
	return guard.split(prompt), nil
}

// marker is one that does not occur in the conversation.
func (t *Template) marker(c *Conversation) (string, error) {
	for _, marker := range t.markers {
		if !c.contains(marker) {
			return marker, nil
		}
	}
	return "", &RaisedError{"it holds all of the noncharacters U+FDD0 to U+FDEF; leave one out"}
}

// data is the template's variables. Those that a template may change are made for each rendering.
func (t *Template) data(c *Conversation, v values) (map[string]jinja.Value, error) {
	data := make(map[string]jinja.Value, len(t.constants)+4)
	if len(c.Variables) > 0 {
		variables, err := v.json(c.Variables)
		dict, isDict := variables.(*jinja.Dict)
		if err != nil || !isDict {
			return nil, fmt.Errorf("read template variables: not a JSON object (%v)", err)
		}
		maps.Insert(data, dict.All())
	}
	tools, err := v.tools(c.Tools)
	if err != nil {
		return nil, err
	}
	messages := c.Messages
	if !t.knowsDeveloper {
		messages = withSystem(messages)
	}
	maps.Copy(data, t.constants)
	data["messages"] = v.messages(messages)
	data["tools"] = tools
	data["add_generation_prompt"] = c.AddGenerationPrompt
	return data, nil
}
