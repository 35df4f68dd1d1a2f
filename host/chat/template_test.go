package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/chat/jinja"
)

// specials are the control tokens of the models that the test templates imitate, and odd ones: of wide characters, one that
// another begins with, one of a single rune.
var specials = []string{
	"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
	"<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|developer|>", "<|end|>",
	"<｜User｜>", "[INST]", "[INST]x", "▁a▁", "!",
}

func open(t testing.TB, name string) *Template {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(source))
}

func parse(t testing.TB, source string) *Template {
	t.Helper()
	// The time is that of testdata/expected.py.
	now := func() time.Time { return time.Date(2026, 3, 9, 4, 5, 6, 0, time.UTC) }
	template, err := New(Options{Template: source, BOS: "<s>", EOS: "</s>", Specials: specials, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// join is the prompt's text, and the control tokens in it.
func join(pieces []Piece) (text string, tokens []string) {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
		if p.Special {
			tokens = append(tokens, p.Text)
		}
	}
	return b.String(), tokens
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// conversations reads testdata/conversations.json.
func conversations(t *testing.T) map[string]Conversation {
	t.Helper()
	var raw []struct {
		Name                string
		AddGenerationPrompt *bool `json:"add_generation_prompt"`
		Tools               []json.RawMessage
		Variables           json.RawMessage
		Messages            []struct {
			Role, Content, Reasoning string
			ToolCallID               string `json:"tool_call_id"`
			ToolCalls                []struct {
				ID       string
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
	}
	readJSON(t, "conversations.json", &raw)
	all := make(map[string]Conversation)
	for _, r := range raw {
		c := Conversation{Variables: r.Variables, AddGenerationPrompt: r.AddGenerationPrompt == nil || *r.AddGenerationPrompt}
		for _, tool := range r.Tools {
			c.Tools = append(c.Tools, tool)
		}
		for _, m := range r.Messages {
			message := Message{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning, ToolCallID: m.ToolCallID}
			for _, call := range m.ToolCalls {
				arguments := string(call.Function.Arguments)
				var text string
				if json.Unmarshal(call.Function.Arguments, &text) == nil {
					arguments = text
				}
				message.ToolCalls = append(message.ToolCalls, ToolCall{call.ID, call.Function.Name, arguments})
			}
			c.Messages = append(c.Messages, message)
		}
		all[r.Name] = c
	}
	return all
}

// TestRender compares with jinja2 (testdata/expected.py).
func TestRender(t *testing.T) {
	all := conversations(t)
	var expected []struct {
		Template, Conversation string
		Text, Error            *string
	}
	readJSON(t, "expected.json", &expected)
	if len(expected) < 50 {
		t.Fatalf("%d expected texts, want 50 or more", len(expected))
	}
	for _, e := range expected {
		t.Run(e.Template+"/"+e.Conversation, func(t *testing.T) {
			pieces, err := open(t, e.Template).Render(all[e.Conversation])
			if e.Error != nil {
				var raised *RaisedError
				if !errors.As(err, &raised) || raised.Message != *e.Error {
					t.Fatalf("got %v, want the template's error %q", err, *e.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := join(pieces); got != *e.Text {
				t.Errorf("\n got %q\nwant %q", got, *e.Text)
			}
		})
	}
}

func TestPieces(t *testing.T) {
	pieces, err := open(t, "smollm2").Render(Conversation{
		Messages:            []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "a<|im_end|>b"}},
		AddGenerationPrompt: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Piece{
		{"<|im_start|>", true}, {"system\ns", false}, {"<|im_end|>", true}, {"\n", false},
		{"<|im_start|>", true}, {"user\na<|im_end|>b", false}, {"<|im_end|>", true}, {"\n", false},
		{"<|im_start|>", true}, {"assistant\n", false},
	}
	if len(pieces) != len(want) {
		t.Fatalf("got %v, want %v", pieces, want)
	}
	for i := range want {
		if pieces[i] != want[i] {
			t.Errorf("piece %d: got %+v, want %+v", i, pieces[i], want[i])
		}
	}
}

func TestDeveloper(t *testing.T) {
	messages := []Message{
		{Role: "developer", Content: "Be brief."}, {Role: "developer", Content: "Be kind."},
		{Role: "user", Content: "Hi"}, {Role: "developer", Content: "Late."},
	}
	tests := []struct{ template, want string }{
		{"smollm2", "<|im_start|>system\nBe brief.\n\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>system\nLate.<|im_end|>\n"},
		{"developer", "<s><|system|>Be brief.<|end|>\n<|system|>Be kind.<|end|>\n<|user|>Hi<|end|>\n<|system|>Late.<|end|>\n"},
	}
	for _, tt := range tests {
		pieces, err := open(t, tt.template).Render(Conversation{Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := join(pieces); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.template, got, tt.want)
		}
	}
	if messages[0].Role != "developer" || messages[0].Content != "Be brief." {
		t.Errorf("the caller's messages changed: %+v", messages[0])
	}
}

func TestNewErrors(t *testing.T) {
	tests := []struct{ name, template, want string }{
		{"none", " \n", "tokenizer.chat_template"},
		{"unclosed tag", "a\nb {{ x", "line 2, col 3"},
		{"unclosed block", "{% for m in messages %}x", "tokenizer.chat_template"},
		{"bad expression", "ok\n{{ 1 + }}", "line 2"},
		{"large", strings.Repeat("x", 1<<20+1), "at most 1048576"},
	}
	for _, tt := range tests {
		_, err := New(Options{Template: tt.template})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if _, err := New(Options{}); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("got %v, want ErrNoTemplate", err)
	}
}

// TestRenderErrors has templates that must not take the process down; package jinja has more.
func TestRenderErrors(t *testing.T) {
	hello := Conversation{Messages: []Message{{Role: "user", Content: "Hello"}}}
	tests := []struct{ name, template, want string }{
		{"long range", "{% for i in range(1000000000000) %}x{% endfor %}", "within its limits"},
		{"many ranges", "{% for i in range(1000) %}{% for j in range(1000) %}x{% endfor %}{% endfor %}", "within its limits"},
		{"recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "within its limits"},
		{"mutual recursion", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "within its limits"},
		{"a macro as an argument", "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}", "within its limits"},
		{"much text", "{{ 'x' * 1000000000 }}", "within its limits"},
		{"range step", "{{ range(1, 2, 0) }}", "step"},
		{"range word", "{{ range('a') }}", "integers"},
		{"unknown function", "{{ no_such() }}", "not callable"},
		{"strftime", "{{ strftime_now() }}", "format"},
		{"strftime at length", "{{ strftime_now('%A' * 1000) }}", "format"},
	}
	for _, tt := range tests {
		template, err := New(Options{Template: tt.template})
		if limit := strings.Contains(tt.want, "limits"); limit != (err != nil) {
			t.Errorf("%s: New gives %v; what has no end for one question is found there, and nothing else", tt.name, err)
			continue
		} else if !limit {
			_, err = template.Render(hello)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	// One that waits for a second message ends that request.
	late := parse(t, "{% macro f() %}{{ f() }}{% endmacro %}{% if messages | length > 1 %}{{ f() }}{% endif %}")
	if _, err := late.Render(Conversation{Messages: make([]Message, 2)}); !errors.Is(err, jinja.ErrLimit) {
		t.Errorf("recursion in a second turn: got %v, want %v", err, jinja.ErrLimit)
	}
	for name, c := range map[string]Conversation{
		"tool":      {Tools: [][]byte{[]byte(`{"a":`)}},
		"deep tool": {Tools: [][]byte{[]byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))}},
		"variables": {Variables: []byte(`[1]`)},
	} {
		if _, err := parse(t, "x").Render(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestStrftime(t *testing.T) {
	// Truth: Python's datetime(2026, 3, 9, 14, 5, 6).strftime in the C locale; %Q is no conversion.
	at := time.Date(2026, 3, 9, 14, 5, 6, 0, time.UTC)
	tests := map[string]string{
		"%d %b %Y": "09 Mar 2026", "%A, %B %e, %y": "Monday, March  9, 26", "%I:%M %p %H%S": "02:05 PM 1406",
		"%j 100%%": "068 100%", "%Q%": "%Q%", "%Y-%m-%dT%T": "2026-03-09T14:05:06", "%F": "2026-03-09", "02 Jan": "02 Jan",
	}
	for format, want := range tests {
		if got := strftime(at, format); got != want {
			t.Errorf("strftime(%q): got %q, want %q", format, got, want)
		}
	}
}

// TestRenderConcurrently is for the race detector: one template, many goroutines, each with its own conversation.
func TestRenderConcurrently(t *testing.T) {
	template := open(t, "qwen")
	all := conversations(t)
	var wg sync.WaitGroup
	for name, c := range all {
		want, err := template.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		wantText, _ := join(want)
		for range 4 {
			wg.Go(func() {
				for range 20 {
					pieces, err := template.Render(c)
					if got, _ := join(pieces); err != nil || got != wantText {
						t.Errorf("%s: got %q, %v, want %q", name, got, err, wantText)
					}
				}
			})
		}
	}
	wg.Wait()
}

func BenchmarkRender(b *testing.B) {
	template := open(b, "smollm2")
	c := Conversation{
		Messages:            []Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: strings.Repeat("Tell me a story. ", 60)}},
		AddGenerationPrompt: true,
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(c.Messages[1].Content)))
	for b.Loop() {
		if _, err := template.Render(c); err != nil {
			b.Fatal(err)
		}
	}
}
