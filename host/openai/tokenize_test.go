package openai

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecodeTokenize(t *testing.T) {
	tests := []struct {
		name, body string
		want       TokenizeRequest
	}{
		{"prompt", `{"prompt":"Hello"}`, TokenizeRequest{Prompt: "Hello", AddGenerationPrompt: true, AddSpecialTokens: true}},
		{"empty prompt", `{"prompt":"","model":"m","add_special_tokens":false,"return_token_strs":true}`,
			TokenizeRequest{Model: "m", AddGenerationPrompt: true, WithTexts: true}},
		{"messages", `{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false,"chat_template_kwargs":{"x":1}}`,
			TokenizeRequest{Messages: []Message{{Role: "user", Content: "a"}}, TemplateVariables: jsontext.Value(`{"x":1}`)}},
	}
	for _, tt := range tests {
		body := []byte(tt.body)
		got, err := DecodeTokenize(body)
		clear(body)
		if err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
	refusals := []struct{ body, param, message string }{
		{`{}`, "prompt", "or messages"},
		{`{"prompt":"a","messages":[{"role":"user"}]}`, "prompt", "not both"},
		{`{"prompt":["a"]}`, "prompt", "must be a string, got a list"},
		{`{"messages":[]}`, "messages", "at least one message"},
		{`{"messages":[{"role":"x"}]}`, "messages[0].role", "one of"},
		{`{"prompt":"a","continue_final_message":true}`, "continue_final_message", "not available"},
	}
	for _, tt := range refusals {
		_, err := DecodeTokenize([]byte(tt.body))
		checkRefusal(t, err, tt.body, tt.param, tt.message)
	}
}

func TestDecodeDetokenize(t *testing.T) {
	got, err := DecodeDetokenize([]byte(`{"model":"m","tokens":[10,0]}`))
	if want := (&DetokenizeRequest{"m", []int{10, 0}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	refusals := []struct{ body, param, message string }{
		{`{}`, "tokens", "is required"},
		{`{"tokens":[-1]}`, "tokens[0]", "at least 0, got -1"},
		{`{"tokens":"a"}`, "tokens", "must be a list"},
		{`{"tokens":["1"]}`, "tokens[0]", `got the string "1"`},
	}
	for _, tt := range refusals {
		_, err := DecodeDetokenize([]byte(tt.body))
		checkRefusal(t, err, tt.body, tt.param, tt.message)
	}
}

func FuzzDecodeTokenize(f *testing.F) {
	f.Add([]byte(`{"prompt":"a","tokens":[1]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		buffer := bytes.Clone(body)
		tokenize, err := DecodeTokenize(buffer)
		checkDecoded(t, body, tokenize == nil, err)
		detokenize, err := DecodeDetokenize(body)
		checkDecoded(t, body, detokenize == nil, err)
		if tokenize == nil {
			return
		}
		clear(buffer)
		if again, err := DecodeTokenize(body); err != nil || !reflect.DeepEqual(tokenize, again) {
			t.Errorf("the request changed with its buffer: %+v, want %+v, %v", tokenize, again, err)
		}
	})
}
