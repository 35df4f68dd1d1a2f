package openai

import (
	"strings"
	"testing"
)

// The texts of tokens, as a model makes them.
var tokens = []string{" the", " quick", "\n", " \"fox\"", " 漢", "s"}

// Text that is not UTF-8 is left out here: quoting it makes an error value.
func TestStreamAllocatesNothing(t *testing.T) {
	buffer := make([]byte, 0, 4096)
	usage := &Usage{Prompt: 20, Completion: 7}
	chat := NewChatStream(opening(UsageGate{Final: true, Continuous: true}))
	chunk := &Chunk{Text: tokens[3], Logprobs: twoTokens[:1], Usage: usage}
	response := NewResponseStream(&Response{Request: new(ResponsesRequest), ItemID: "msg_1"})
	completion := NewCompletionStream(opening(UsageGate{}))
	for name, write := range map[string]func(){
		"chat":       func() { buffer = chat.AppendText(buffer[:0], chunk) },
		"completion": func() { buffer = completion.AppendText(buffer[:0], chunk) },
		"response":   func() { buffer = response.AppendDelta(buffer[:0], tokens[3], twoTokens[:1]) },
	} {
		if n := testing.AllocsPerRun(100, write); n != 0 {
			t.Errorf("%s: a chunk allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkChatChunk(b *testing.B) {
	s := NewChatStream(opening(UsageGate{Final: true}))
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buffer = s.AppendText(buffer[:0], &Chunk{Text: tokens[i%len(tokens)]})
	}
	b.SetBytes(int64(len(buffer)))
}

func BenchmarkResponseDelta(b *testing.B) {
	s := NewResponseStream(&Response{Request: new(ResponsesRequest), ItemID: "msg_1"})
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buffer = s.AppendDelta(buffer[:0], tokens[i%len(tokens)], nil)
	}
	b.SetBytes(int64(len(buffer)))
}

func BenchmarkDecodeChat(b *testing.B) {
	body := []byte(`{"model":"smollm2","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Tell me a story about a fox."}],` +
		`"max_tokens":16,"temperature":0.7,"top_p":0.9,"stream":true,"stream_options":{"include_usage":true},"stop":["\n\n"]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := DecodeChat(body); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzStream wants whole events of one line of JSON each, whatever the model, the texts and the tokens are.
func FuzzStream(f *testing.F) {
	f.Add("tiny", "Hi\n\r\u2028\"\\", "\xf0\x9f", float32(-1))
	f.Fuzz(func(t *testing.T, model, text, token string, logprob float32) {
		o := opening(UsageGate{Final: true})
		o.Model, o.ID, o.Fingerprint = model, token, text
		logprobs := []TokenLogprob{{Text: token, Logprob: logprob, Top: []TopLogprob{{text, logprob}, {token, logprob}, {"", -logprob}}}}
		usage := &Usage{Prompt: len(text), Completion: len(token)}
		chunk := &Chunk{Text: text, Logprobs: logprobs, Usage: usage}
		var stream []byte
		for _, s := range []*Stream{NewChatStream(o), NewCompletionStream(o)} {
			stream = s.AppendText(stream, chunk)
			stream = s.AppendFinish(stream, chunk, FinishStop, text)
			stream = s.AppendUsage(stream, usage, nil)
		}
		r := &Response{Request: &ResponsesRequest{Generation: Generation{Model: model, User: token}}, ID: token, ItemID: text, Status: ResponseInProgress}
		s := NewResponseStream(r)
		stream = s.AppendDelta(s.AppendItem(s.AppendStart(stream)), text, logprobs)
		r.Status, r.Text, r.Logprobs, r.Usage = ResponseCompleted, text, logprobs, usage
		stream = s.AppendEnd(stream)
		stream = AppendErrorEvent(stream, ServerError(text))

		all := events(stream)
		if len(all) != 6+9+1 || strings.Count(string(stream), "\n\n") != len(all) {
			t.Fatalf("%d events, want 16: %q", len(all), stream)
		}
		for _, event := range all {
			if !event.IsValid() {
				t.Errorf("not JSON, or with a key twice: %q", event)
			}
		}
	})
}
