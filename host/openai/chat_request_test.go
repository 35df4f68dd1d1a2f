package openai

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecodeChat(t *testing.T) {
	body := []byte(`{
		"model": "smollm2", "no_such_field": {"a": [1]}, "user": "u", "store": false, "service_tier": "auto",
		"metadata": {"a": "b"}, "reasoning_effort": "low", "parallel_tool_calls": true, "best_of": 3,
		"messages": [
			{"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "input_text", "text": "brief."}]},
			{"role": "user", "content": "漢\ud834\udd1e", "name": "ann"},
			{"role": "assistant", "content": null, "reasoning_content": "hm", "refusal": null, "tool_calls": [
				{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
			{"role": "tool", "tool_call_id": "call_1", "content": "42"}
		],
		"stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": null, "foo": 1},
		"n": 2, "max_tokens": 9, "max_completion_tokens": 5, "min_tokens": 1, "stop": ["a", "b"], "stop_token_ids": [7],
		"ignore_eos": true, "include_stop_str_in_output": true, "add_special_tokens": false,
		"temperature": 0, "top_p": 0.9, "min_p": 0.1, "top_k": -1, "presence_penalty": -2, "frequency_penalty": 2,
		"repetition_penalty": 1.1, "seed": -9223372036854775808, "logit_bias": {"50": -100, "7": 1.5},
		"logprobs": true, "top_logprobs": 3, "priority": -1, "cache_salt": "s", "safety_identifier": "i",
		"prompt_cache_key": "k", "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none",
		"response_format": {"type": "text"}, "modalities": ["text"], "functions": [], "suffix": "", "echo": false,
		"chat_template_kwargs": {"enable_thinking": false}
	}`)
	got, err := DecodeChat(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'X' // nothing decoded may point into the caller's buffer
	}
	want := &ChatRequest{
		Generation: Generation{
			Model: "smollm2", Stream: true, StreamOptions: StreamOptions{IncludeUsage: true, given: true}, N: 2,
			MaxTokens: Some(5), MaxTokensParam: "max_completion_tokens", MinTokens: 1,
			Stop: []string{"a", "b"}, StopTokenIDs: []int{7}, IncludeStop: true, IgnoreEOS: true,
			Temperature: Some(0.0), TopP: Some(0.9), MinP: Some(0.1), TopK: Some(-1),
			PresencePenalty: Some(-2.0), FrequencyPenalty: Some(2.0), RepetitionPenalty: Some(1.1),
			Seed: Some(int64(-9223372036854775808)), LogitBias: []TokenBias{{7, 1.5}, {50, -100}}, Logprobs: Some(3),
			AddSpecialTokens: Some(false), Priority: -1, CacheSalt: "s", ServiceTier: "auto", User: "u",
			SafetyIdentifier: "i", PromptCacheKey: "k", Store: Some(false), Metadata: jsontext.Value(`{"a":"b"}`),
		},
		Messages: []Message{
			{Role: "developer", Content: "Be\nbrief."},
			{Role: "user", Content: "漢𝄞", Name: "ann"},
			{Role: "assistant", Reasoning: "hm", ToolCalls: []ToolCall{{ID: "call_1", Name: "f", Arguments: `{"a": 1}`}}},
			{Role: "tool", Content: "42", ToolCallID: "call_1"},
		},
		TemplateVariables: jsontext.Value(`{"enable_thinking":false}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestDecodeChatNulls(t *testing.T) {
	got, err := DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":null}],"n":null,"stop":null,"stream":null,
		"stream_options":null,"temperature":null,"top_p":null,"logit_bias":null,"seed":null,"max_tokens":null,"logprobs":null,
		"top_logprobs":null,"tools":null,"tool_choice":null,"response_format":null,"functions":null,"metadata":null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &ChatRequest{Generation: Generation{Model: "m", N: 1}, Messages: []Message{{Role: "user"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// chatWith is a chat body with further members.
func chatWith(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

func TestDecodeChatRefusals(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	tests := []struct {
		name, body, param, message string
	}{
		{"empty", ` `, "", "empty"},
		{"array", `[1]`, "", "must be a JSON object, got a list"},
		{"string", `"x"`, "", "must be a JSON object, got a string"},
		{"null", `null`, "", "must be a JSON object, got null"},
		{"cut off", `{"model": "x", "messages": [`, "messages", "not JSON"},
		{"trailing data", chatWith("") + `{}`, "", "goes on after"},
		{"trailing comma", chatWith(","), "", "not JSON"},
		{"duplicate key", chatWith(`,"model":"n"`), "model", "duplicate"},
		{"duplicate long key", chatWith(`,"` + strings.Repeat("k", 9000) + `":1,"` + strings.Repeat("k", 9000) + `":2`), "", "duplicate"},
		{"duplicate nested key", chatWith(`,"metadata":{"a":1,"a":2}`), "metadata.a", "duplicate"},
		{"invalid UTF-8", `{"model":"` + "\xff" + `"}`, "model", "invalid UTF-8"},
		{"lone surrogate", chatWith(`,"user":"\ud83d"`), "user", "surrogate"},
		{"too deep", chatWith(`,"x":` + deep), "", "deeper than 64"},
		{"no model", `{"messages":[{"role":"user","content":"hi"}]}`, "model", "is required"},
		{"model long", `{"model":"` + strings.Repeat("é", 9000) + `","messages":"` + strings.Repeat("é", 9000) + `"}`, "messages", "é\"…"},
		{"empty salt", chatWith(`,"cache_salt":""`), "cache_salt", "must not be empty"},
		{"salt of another type", chatWith(`,"cache_salt":5`), "cache_salt", "must be a string, got 5"},
		{"model number", `{"model":5,"messages":[{"role":"user","content":"hi"}]}`, "model", "must be a string, got 5"},
		{"no messages", `{"model":"m"}`, "messages", "is required"},
		{"null messages", `{"model":"m","messages":null}`, "messages", "is required"},
		{"empty messages", `{"model":"m","messages":[]}`, "messages", "at least one"},
		{"messages string", `{"model":"m","messages":"hi"}`, "messages", `must be a list, got the string "hi"`},
		{"message string", `{"model":"m","messages":["hi"]}`, "messages[0]", "must be an object"},
		{"no role", `{"model":"m","messages":[{"content":"hi"}]}`, "messages[0].role", "is required"},
		{"odd role", `{"model":"m","messages":[{"role":"alien","content":"hi"}]}`, "messages[0].role", `one of system, developer, user, assistant, tool, function, got the string "alien"`},
		{"content number", `{"model":"m","messages":[{"role":"user","content":5}]}`, "messages[0].content", "string, null or a list of parts, got 5"},
		{"image", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`,
			"messages[0].content[0].type", `"image_url" is not available: the model takes text only`},
		{"part without text", `{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0]", "has no text"},
		{"call without function", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]}`, "messages[0].tool_calls[0].function", "is required"},
		{"arguments object", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}`,
			"messages[0].tool_calls[0].function.arguments", "must be a string, got an object"},
		{"temperature low", chatWith(`,"temperature":-1`), "temperature", "number from 0 to 2, got -1"},
		{"temperature high", chatWith(`,"temperature":2.5`), "temperature", "number from 0 to 2, got 2.5"},
		{"temperature string", chatWith(`,"temperature":"hot"`), "temperature", `got the string "hot"`},
		{"temperature overflow", chatWith(`,"temperature":1e999`), "temperature", "got 1e999"},
		{"temperature NaN", chatWith(`,"temperature":NaN`), "temperature", "not JSON"},
		{"top_p zero", chatWith(`,"top_p":0`), "top_p", "above 0 and at most 1, got 0"},
		{"top_p high", chatWith(`,"top_p":1.5`), "top_p", "above 0 and at most 1, got 1.5"},
		{"min_p", chatWith(`,"min_p":-0.1`), "min_p", "from 0 to 1"},
		{"top_k", chatWith(`,"top_k":-2`), "top_k", "at least -1, got -2"},
		{"top_k fraction", chatWith(`,"top_k":1.5`), "top_k", "integer"},
		{"presence", chatWith(`,"presence_penalty":2.1`), "presence_penalty", "from -2 to 2"},
		{"frequency", chatWith(`,"frequency_penalty":-2.1`), "frequency_penalty", "from -2 to 2"},
		{"repetition", chatWith(`,"repetition_penalty":0`), "repetition_penalty", "above 0, got 0"},
		{"repetition overflow", chatWith(`,"repetition_penalty":1e400`), "repetition_penalty", "above 0, got 1e400"},
		{"n zero", chatWith(`,"n":0`), "n", "from 1 to 128, got 0"},
		{"n zero stream", chatWith(`,"n":0,"stream":true`), "n", "from 1 to 128, got 0"},
		{"n high", chatWith(`,"n":129`), "n", "from 1 to 128, got 129"},
		{"max_tokens zero", chatWith(`,"max_tokens":0`), "max_tokens", "at least 1, got 0"},
		{"max_tokens negative", chatWith(`,"max_tokens":-1`), "max_tokens", "at least 1, got -1"},
		{"max_tokens string", chatWith(`,"max_tokens":"many"`), "max_tokens", `got the string "many"`},
		{"max_tokens high", chatWith(`,"max_tokens":4294967296`), "max_tokens", "from 1 to 2147483647, got 4294967296"},
		{"max_tokens long", chatWith(`,"max_tokens":` + strings.Repeat("9", 99)), "max_tokens", "a number of 99 digits"},
		{"max_completion_tokens", chatWith(`,"max_completion_tokens":0`), "max_completion_tokens", "at least 1"},
		{"min_tokens", chatWith(`,"max_tokens":2,"min_tokens":3`), "min_tokens", "at most max_tokens (2), got 3"},
		{"seed", chatWith(`,"seed":9223372036854775808`), "seed", "64 bits"},
		{"logit_bias word", chatWith(`,"logit_bias":{"AI":1}`), "logit_bias", `token ids, got "AI"`},
		{"logit_bias negative", chatWith(`,"logit_bias":{"-1":1}`), "logit_bias", `token ids, got "-1"`},
		{"logit_bias twice", chatWith(`,"logit_bias":{"7":1,"07":1}`), "logit_bias", `token ids, got "07"`},
		{"logit_bias value", chatWith(`,"logit_bias":{"1":101}`), "logit_bias.1", "from -100 to 100"},
		{"logprobs number", chatWith(`,"logprobs":5`), "logprobs", "true or false, got 5"},
		{"top_logprobs alone", chatWith(`,"top_logprobs":2`), "top_logprobs", "only allowed with logprobs"},
		{"top_logprobs high", chatWith(`,"logprobs":true,"top_logprobs":100`), "top_logprobs", "from 0 to 20, got 100"},
		{"stop empty", chatWith(`,"stop":""`), "stop", "1 to 1024 bytes"},
		{"stop empty item", chatWith(`,"stop":["a",""]`), "stop[1]", "1 to 1024 bytes"},
		{"stop null item", chatWith(`,"stop":[null]`), "stop[0]", "must be a string, got null"},
		{"stop many", chatWith(`,"stop":["a"` + strings.Repeat(`,"a"`, 16) + `]`), "stop", "at most 16 strings, got 17"},
		{"stop number", chatWith(`,"stop":5`), "stop", "string or a list of strings"},
		{"stream string", chatWith(`,"stream":"perhaps"`), "stream", "true or false"},
		{"stream_options alone", chatWith(`,"stream_options":{"include_usage":true}`), "stream_options", "only allowed with stream true"},
		{"metadata list", chatWith(`,"metadata":[1]`), "metadata", "must be an object"},
		{"tools", chatWith(`,"tools":[{"type":"function","function":{"name":"f"}}]`), "tools", "not available"},
		{"tools auto", chatWith(`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"`), "tools", "not available"},
		{"tool required", chatWith(`,"tool_choice":"required"`), "tool_choice", "not available"},
		{"tool named", chatWith(`,"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice", "not available"},
		{"functions", chatWith(`,"functions":[{"name":"f"}]`), "functions", "not available"},
		{"format unknown", chatWith(`,"response_format":{"type":"no-such"}`), "response_format.type", `must be "text", got "no-such"`},
		{"format json", chatWith(`,"response_format":{"type":"json_object"}`), "response_format", "not available"},
		{"modalities", chatWith(`,"modalities":["text","audio"]`), "modalities[1]", "one of text"},
		{"audio", chatWith(`,"audio":{"voice":"x"}`), "audio", "not available"},
		{"beam search", chatWith(`,"use_beam_search":true`), "use_beam_search", "not available"},
		{"echo", chatWith(`,"echo":true`), "echo", "/v1/completions"},
		{"special tokens", chatWith(`,"skip_special_tokens":false`), "skip_special_tokens", "not available"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeChat([]byte(tt.body))
			checkRefusal(t, err, tt.body, tt.param, tt.message)
		})
	}
}

// checkRefusal wants a 400 with the param and a message that contains the text.
func checkRefusal(t *testing.T, err error, body, param, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal of %.200s", err, body)
	}
	if e.Status != 400 || e.Type != "invalid_request_error" || e.Param != param || !strings.Contains(e.Message, text) {
		t.Errorf("got %d %s, param %q, message %q; want param %q, message with %q; body %.200s",
			e.Status, e.Type, e.Param, e.Message, param, text, body)
	}
	if doc := AppendError(nil, e); !jsontext.Value(doc).IsValid() || len(doc) > 2000 {
		t.Errorf("error body of %d bytes is not short JSON: %.300s", len(doc), doc)
	}
}

func TestDecodeChatCollectsFaults(t *testing.T) {
	_, err := DecodeChat([]byte(`{"n":0,"temperature":9,"messages":[{"role":"x"}]}`))
	checkRefusal(t, err, "", "n", "n: must be")
	for _, want := range []string{"; temperature: must", "; messages[0].role: must", "; model: is required"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
	_, err = DecodeChat([]byte(chatWith(`,"stop":[` + strings.Repeat(`"",`, 5000) + `""]`)))
	checkRefusal(t, err, "", "stop[0]", "; and 4994 more")
}

func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(chatWith(`,"stop":["a"],"logit_bias":{"1":2},"stream":true,"stream_options":{},"tools":[{"type":"x"}]`)))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"\u0000"}],"tool_calls":[{"function":{"name":"f"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		buffer := bytes.Clone(body)
		r, err := DecodeChat(buffer)
		checkDecoded(t, body, r == nil, err)
		if err != nil {
			return
		}
		if r.N < 1 || r.N > 128 || r.Model == "" || len(r.Messages) == 0 || len(r.Stop) > 16 || r.Temperature.Value > 2 {
			t.Errorf("out of range: %+v", r)
		}
		clear(buffer)
		if again, err := DecodeChat(body); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("the request changed with its buffer: %+v, want %+v, %v", r, again, err)
		}
	})
}

// checkDecoded wants either a request or a refusal whose body is JSON.
func checkDecoded(t *testing.T, body []byte, none bool, err error) {
	t.Helper()
	if none != (err != nil) {
		t.Fatalf("a request and an error, or neither: %v", err)
	}
	if err == nil {
		if !jsontext.Value(body).IsValid() {
			t.Fatalf("accepted what is not JSON: %q", body)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Status != 400 || !jsontext.Value(AppendError(nil, e)).IsValid() {
		t.Fatalf("not a refusal: %#v", err)
	}
	if len(e.Message) > 4000 || len(e.Param) > 200 {
		t.Fatalf("a long refusal, so it repeats too much of the body: %.300s", e.Message)
	}
}
