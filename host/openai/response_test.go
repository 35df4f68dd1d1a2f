package openai

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func decodeResponses(t *testing.T, body string) *ResponsesRequest {
	t.Helper()
	buffer := []byte(body)
	r, err := DecodeResponses(buffer)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	clear(buffer)
	return r
}

func TestDecodeResponses(t *testing.T) {
	got := decodeResponses(t, `{
		"model": "m", "instructions": "Be brief.", "max_output_tokens": 1, "stream": true, "store": false, "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
		"top_logprobs": 2, "temperature": 0.5, "reasoning": {"summary": "auto"}, "text": {"format": {"type": "text"}, "verbosity": "low"},
		"tools": [{"type": "web_search"}, {"type": "namespace", "tools": []}], "tool_choice": "auto", "parallel_tool_calls": false, "max_tool_calls": 3,
		"client_metadata": {"a": 1}, "metadata": {"k": "v"}, "prompt_cache_key": "k", "truncation": "auto", "background": false, "prompt": null,
		"input": [
			{"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": "there"}]},
			{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]},
			{"type": "reasoning", "summary": []},
			{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
			{"call_id": "c2", "name": "g", "arguments": "{}", "type": "function_call"},
			{"type": "function_call_output", "call_id": "c1", "output": "42"},
			{"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "43"}]},
			{"type": "message", "role": "developer", "content": "Go on."}
		]}`)
	want := &ResponsesRequest{
		Generation: Generation{
			Model: "m", Stream: true, N: 1, MaxTokens: Some(1), MaxTokensParam: "max_output_tokens", Temperature: Some(0.5), Logprobs: Some(2),
			Store: Some(false), Metadata: jsontext.Value(`{"k":"v"}`), PromptCacheKey: "k",
		},
		Messages: []Message{
			{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi\nthere"},
			{Role: "assistant", Content: "Hello.", ToolCalls: []ToolCall{{"c1", "f", "{}"}, {"c2", "g", "{}"}}},
			{Role: "tool", Content: "42", ToolCallID: "c1"}, {Role: "tool", Content: "43", ToolCallID: "c2"},
			{Role: "developer", Content: "Go on."},
		},
		Instructions: Some("Be brief."),
		Tools:        jsontext.Value(`[{"type":"web_search"},{"type":"namespace","tools":[]}]`), ToolChoice: jsontext.Value(`"auto"`),
		MaxToolCalls: Some(3),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	got = decodeResponses(t, `{"model":"m","input":""}`) // codex probes with an empty input
	if want := []Message{{Role: "user"}}; !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("got %+v, want %+v", got.Messages, want)
	}
}

func TestDecodeResponsesRefusals(t *testing.T) {
	with := func(more string) string { return `{"model":"m","input":"Hi"` + more + `}` }
	tests := []struct{ name, body, param, message string }{
		{"no input", `{"model":"m"}`, "input", "is required"},
		{"null input", `{"model":"m","input":null}`, "input", "is required"},
		{"number", `{"model":"m","input":5}`, "input", "string or a list of items, got 5"},
		{"no items", `{"model":"m","input":[]}`, "input", "at least one item"},
		{"item string", `{"model":"m","input":["Hi"]}`, "input[0]", "must be an object"},
		{"item type", `{"model":"m","input":[{"type":"item_reference","id":"x"}]}`, "input[0].type", `"item_reference" is not available`},
		{"image", `{"model":"m","input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "input[0].content[0].type", "text only"},
		{"no role", `{"model":"m","input":[{"content":"Hi"}]}`, "input[0].role", "is required"},
		{"call without name", `{"model":"m","input":[{"type":"function_call","call_id":"1"}]}`, "input[0].name", "is required"},
		{"output number", `{"model":"m","input":[{"type":"function_call_output","output":5}]}`, "input[0].output", "got 5"},
		{"negative", with(`,"max_output_tokens":-1`), "max_output_tokens", "at least 1, got -1"},
		{"function tool", with(`,"tools":[{"type":"function","name":"f"}]`), "tools", "not available"},
		{"tool choice", with(`,"tool_choice":"required"`), "tool_choice", "not available"},
		{"schema", with(`,"text":{"format":{"type":"json_schema","name":"x","schema":{}}}`), "text.format", "not available"},
		{"background", with(`,"background":true`), "background", "not available"},
		{"conversation", with(`,"conversation":"conv_1"`), "conversation", "not available"},
		{"prompt", with(`,"prompt":{"id":"x"}`), "prompt", "not available"},
		{"top_logprobs", with(`,"top_logprobs":21`), "top_logprobs", "from 0 to 20"},
		{"previous", with(`,"previous_response_id":5`), "previous_response_id", "must be a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeResponses([]byte(tt.body))
			checkRefusal(t, err, tt.body, tt.param, tt.message)
		})
	}
}

// finished is a response that was cut off.
func finished(request *ResponsesRequest) *Response {
	return &Response{
		Request: request, ID: "resp_1", ItemID: "msg_1", CreatedAt: 1795966647, Status: ResponseIncomplete, Incomplete: "max_output_tokens",
		Text: "Hi \"fox\"", Usage: &Usage{Prompt: 20, Completion: 8, Cached: 16}, Extra: []byte(`"metrics":{"queue_time_ms":0.5}`),
	}
}

func TestGoldenResponses(t *testing.T) {
	short := decodeResponses(t, `{"model":"tiny","input":"Hi","max_output_tokens":8,"temperature":0}`)
	golden(t, "response.json", AppendResponse(nil, finished(short)))

	full := finished(decodeResponses(t, `{"model":"tiny","input":"Hi","instructions":"Be \"brief\".","tools":[{"type":"web_search"}],"tool_choice":"none",
		"metadata":{"a":"b"},"top_p":0.9,"user":"u","safety_identifier":"s","prompt_cache_key":"k","max_tool_calls":0,"presence_penalty":0.1,
		"include":["message.output_text.logprobs"],"top_logprobs":1,"parallel_tool_calls":false,"previous_response_id":"resp_0"}`))
	full.Status, full.Incomplete, full.CompletedAt, full.Logprobs = ResponseCompleted, "", 1795966649, twoTokens[:1]
	golden(t, "response-full.json", AppendResponse(nil, full))

	r := finished(short)
	r.Status, r.Text, r.Usage, r.Extra = ResponseInProgress, "", nil, nil
	s := NewResponseStream(r)
	b := s.AppendItem(s.AppendStart(nil))
	b = s.AppendDelta(b, "Hi ", nil)
	b = s.AppendDelta(b, `"fox"`, nil)
	*r = *finished(short)
	golden(t, "response-stream.txt", s.AppendEnd(b))

	r = finished(short)
	r.Status, r.Text, r.Usage, r.Extra = ResponseInProgress, "", nil, nil
	s = NewResponseStream(r)
	b = s.AppendStart(nil)
	r.Status, r.Err = ResponseFailed, ServerError("the step did not end")
	golden(t, "response-failed.txt", s.AppendEnd(b))

	golden(t, "models.json", AppendModels(nil, []Model{
		{ID: "tiny", Created: 1795966647, OwnedBy: "wasmeter", Root: "models/tiny.gguf", MaxModelLen: 512},
		{ID: "alias", Created: 1795966647, OwnedBy: "wasmeter", Root: "models/tiny.gguf", MaxModelLen: 512},
	}))
	golden(t, "tokenize.json", AppendTokenized(nil, []int{276, 82, 362}, 512, nil))
	golden(t, "tokenize-texts.json", AppendTokenized(nil, []int{276, 82}, 512, []string{"He", "\xff"}))
	golden(t, "detokenize.json", AppendDetokenized(nil, `'1;"`))
}

// TestResponseStreamOrder checks numbers, names and ids, whatever the golden file says.
func TestResponseStreamOrder(t *testing.T) {
	stream := string(read(t, "golden", "response-stream.txt"))
	want := strings.Fields(`response.created response.in_progress response.output_item.added response.content_part.added
		response.output_text.delta response.output_text.delta response.output_text.done response.content_part.done
		response.output_item.done response.incomplete`)
	frames := strings.Split(strings.TrimSuffix(stream, "\n\n\n"), "\n\n")
	if len(frames) != len(want) {
		t.Fatalf("%d events, want %d", len(frames), len(want))
	}
	for i, frame := range frames {
		name, data, _ := strings.Cut(frame, "\n")
		_, members := keys(t, jsontext.Value(strings.TrimPrefix(data, "data: ")))
		if name != "event: "+want[i] || string(members["type"]) != `"`+want[i]+`"` {
			t.Errorf("event %d: %s with type %s, want %s", i, name, members["type"], want[i])
		}
		if got := string(members["sequence_number"]); got != fmt.Sprint(i) {
			t.Errorf("event %d has sequence_number %s", i, got)
		}
		if id := members["item_id"]; id != nil && string(id) != `"msg_1"` {
			t.Errorf("event %d has item_id %s, want msg_1", i, id)
		}
	}
}

func FuzzDecodeResponses(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":"a"},{"type":"function_call","name":"f"},{"type":"function_call_output","output":"x"}]}`))
	f.Add([]byte(`{"model":"m","input":"a","tools":[{"type":"x"}],"metadata":{"a":"b"},"instructions":"i","text":{"format":{"type":"text"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		buffer := bytes.Clone(body)
		r, err := DecodeResponses(buffer)
		checkDecoded(t, body, r == nil, err)
		if err != nil {
			return
		}
		clear(buffer)
		again, err := DecodeResponses(body)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("the request changed with its buffer: %+v, want %+v, %v", r, again, err)
		}
		doc := AppendResponse(nil, finished(r))
		if !jsontext.Value(doc).IsValid() || bytes.ContainsAny(doc, "\n\r") {
			t.Errorf("not JSON in one line, as an event needs it: %q", doc)
		}
	})
}
