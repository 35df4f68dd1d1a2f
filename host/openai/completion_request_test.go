package openai

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeCompletionPrompts(t *testing.T) {
	tests := []struct {
		name, prompt string
		want         []Prompt
	}{
		{"string", `"Hello"`, []Prompt{{Text: "Hello"}}},
		{"strings", `["Hello", "Good day"]`, []Prompt{{Text: "Hello"}, {Text: "Good day"}}},
		{"list of one", `["Hello"]`, []Prompt{{Text: "Hello"}}},
		{"token ids", `[5, 0, 7]`, []Prompt{{Tokens: []int{5, 0, 7}}}},
		{"lists of token ids", `[[5, 6], [7]]`, []Prompt{{Tokens: []int{5, 6}}, {Tokens: []int{7}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(`{"model":"m","prompt":` + tt.prompt + `,"echo":true,"max_tokens":0,"logprobs":0,"best_of":5,"suffix":null,"seed":7}`)
			got, err := DecodeCompletion(body)
			if err != nil {
				t.Fatal(err)
			}
			clear(body)
			want := &CompletionRequest{
				Generation: Generation{Model: "m", N: 1, MaxTokens: Some(0), MaxTokensParam: "max_tokens", Logprobs: Some(0), Seed: Some(int64(7))},
				Prompts:    tt.want, Echo: true,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDecodeCompletionRefusals(t *testing.T) {
	with := func(more string) string { return `{"model":"m"` + more + `}` }
	tests := []struct{ name, body, param, message string }{
		{"missing", with(``), "prompt", "is required"},
		{"null", with(`,"prompt":null`), "prompt", "is required"},
		{"empty", with(`,"prompt":""`), "prompt", "must not be empty"},
		{"empty list", with(`,"prompt":[]`), "prompt", "at least one prompt"},
		{"empty item", with(`,"prompt":["a",""]`), "prompt[1]", "must not be empty"},
		{"empty ids", with(`,"prompt":[[]]`), "prompt[0]", "at least one token id"},
		{"number", with(`,"prompt":5`), "prompt", "a string or a list, got 5"},
		{"object", with(`,"prompt":[{}]`), "prompt[0]", "got an object"},
		{"mixed", with(`,"prompt":["a",5]`), "prompt[1]", "must be a string as the items before it, got 5"},
		{"negative id", with(`,"prompt":[-1]`), "prompt[0]", "at least 0, got -1"},
		{"fraction id", with(`,"prompt":[[1.5]]`), "prompt[0][0]", "integer"},
		{"huge id", with(`,"prompt":[4294967296]`), "prompt[0]", "got 4294967296"},
		{"many", with(`,"prompt":["a"` + strings.Repeat(`,"a"`, 1024) + `]`), "prompt", "at most 1024 prompts, got 1025"},
		{"max_tokens zero", with(`,"prompt":"a","max_tokens":0`), "max_tokens", "0 with echo"},
		{"max_tokens negative", with(`,"prompt":"a","max_tokens":-5`), "max_tokens", "got -5"},
		{"logprobs high", with(`,"prompt":"a","logprobs":100`), "logprobs", "from 0 to 20, got 100"},
		{"logprobs bool", with(`,"prompt":"a","logprobs":true`), "logprobs", "got true"},
		{"suffix", with(`,"prompt":"a","suffix":"b"`), "suffix", "not available"},
		{"echo", with(`,"prompt":"a","echo":1`), "echo", "true or false"},
		{"stream_options", with(`,"prompt":"a","stream_options":{}`), "stream_options", "stream true"},
		{"no model", `{"prompt":"a"}`, "model", "is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeCompletion([]byte(tt.body))
			checkRefusal(t, err, tt.body, tt.param, tt.message)
		})
	}
}

func FuzzDecodeCompletion(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":[[1,2],[3]],"echo":true,"max_tokens":0,"logprobs":2}`))
	f.Add([]byte(`{"model":"m","prompt":["a","b"],"stop":["x"],"n":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		buffer := bytes.Clone(body)
		r, err := DecodeCompletion(buffer)
		checkDecoded(t, body, r == nil, err)
		if err != nil {
			return
		}
		for _, p := range r.Prompts {
			if p.Text == "" && len(p.Tokens) == 0 {
				t.Errorf("an empty prompt: %+v", r)
			}
		}
		clear(buffer)
		if again, err := DecodeCompletion(body); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("the request changed with its buffer: %+v, want %+v, %v", r, again, err)
		}
	})
}
