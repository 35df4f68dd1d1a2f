package openai

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before committing it")

// golden compares with testdata/golden/name, byte for byte.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, append(bytes.Clone(got), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.TrimSuffix(want, []byte("\n"))
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

// The answers that the golden files spell out.

var twoTokens = []TokenLogprob{
	{Text: "Hi", Logprob: -0.25, Top: []TopLogprob{{"Hi", -0.25}, {"\n", -1.5}}},
	{Text: "\xf0\x9f", Logprob: -2, Top: []TopLogprob{{"\xf0\x9f", -2}, {"", -3}, {"", -4}}},
}

func completed(id string) *Completed {
	return &Completed{
		ID: id, Model: "tiny", Created: 1795966645, Fingerprint: "wasmeter-test",
		Choices: []Choice{{Text: "Hi <b>\n\u2028", Finish: FinishLength}},
		Usage:   Usage{Prompt: 20, Completion: 8},
	}
}

func TestGoldenBodies(t *testing.T) {
	plain := completed("chatcmpl-1")
	plain.Extra = []byte(`"metrics":{"queue_time_ms":0.5}`)
	golden(t, "chat.json", AppendChat(nil, plain))

	two := completed("chatcmpl-2")
	two.Choices = []Choice{
		{Text: "Hi\uFFFD", Finish: FinishStop, Stop: "fox", Logprobs: twoTokens},
		{Index: 1, Text: "", Finish: FinishStop, Logprobs: []TokenLogprob{}},
	}
	two.Usage = Usage{Prompt: 20, Completion: 16, Cached: 16, Details: true, Extra: []byte(`"cost":1`)}
	two.Extra = []byte(`"metrics":null`)
	golden(t, "chat-logprobs.json", AppendChat(nil, two))

	golden(t, "completion.json", AppendCompletion(nil, completed("cmpl-1")))

	echoed := completed("cmpl-2")
	echoed.Choices = []Choice{{
		Text: "naïve Hi\uFFFD", Finish: FinishStop,
		Logprobs: append([]TokenLogprob{{Text: "naïve ", Unknown: true}}, twoTokens...),
	}}
	golden(t, "completion-logprobs.json", AppendCompletion(nil, echoed))
}

func opening(gate UsageGate) StreamOpening {
	return StreamOpening{ID: "chatcmpl-1", Model: "tiny", Created: 1795966645, Fingerprint: "wasmeter-test", Choices: 1, Gate: gate}
}

func TestGoldenStreams(t *testing.T) {
	chat := func(gate UsageGate, logprobs []TokenLogprob, extra string) []byte {
		usage := func(n int) *Usage { return &Usage{Prompt: 20, Completion: n} }
		s := NewChatStream(opening(gate))
		b := s.AppendRole(nil, 0, usage(0))
		b = s.AppendText(b, &Chunk{Text: "Hi", Logprobs: logprobs, Usage: usage(1)})
		b = s.AppendFinish(b, &Chunk{Text: "", Usage: usage(2)}, FinishStop, "fox")
		if gate.Final {
			b = s.AppendUsage(b, usage(2), []byte(extra))
		}
		return AppendDone(b)
	}
	golden(t, "chat-stream.txt", chat(UsageGate{}, nil, ""))
	golden(t, "chat-stream-usage.txt", chat(UsageGate{Final: true}, nil, `"metrics":{"queue_time_ms":0.5}`))
	golden(t, "chat-stream-continuous.txt", chat(UsageGate{Final: true, Continuous: true}, twoTokens[:1], ""))

	completion := func(gate UsageGate) []byte {
		s := NewCompletionStream(opening(gate))
		b := s.AppendText(nil, &Chunk{Text: "é", Logprobs: []TokenLogprob{{Text: "é", Logprob: -1}}})
		b = s.AppendText(b, &Chunk{Text: "Hi"})
		b = s.AppendFinish(b, &Chunk{Text: "x", Logprobs: twoTokens[:1]}, FinishLength, "")
		if gate.Final {
			b = s.AppendUsage(b, &Usage{Prompt: 4, Completion: 3, Details: true, Cached: 3}, nil)
		}
		return AppendDone(b)
	}
	golden(t, "completion-stream.txt", completion(UsageGate{}))
	golden(t, "completion-stream-usage.txt", completion(UsageGate{Final: true}))
	golden(t, "error-event.txt", AppendErrorEvent(nil, ServerError("the step did not end")))
}

func TestGoldenErrors(t *testing.T) {
	golden(t, "error-model.json", AppendError(nil, ModelNotFound("no\n\xffpe", []string{"smollm2", "sim"})))
	golden(t, "error-queue.json", AppendError(nil, RateLimited("", "the queue is full")))
}
