package openai

import "testing"

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
