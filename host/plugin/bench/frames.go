package bench

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// The documents that hooks are given: a short conversation's, of a model named MODEL.
const (
	requestBody = `{"model":MODEL,"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"Why is the sky blue?"}],"max_tokens":128,"temperature":0.7}`
	answerBody  = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1764000000,"model":MODEL,"choices":[{"index":0,"message":{"role":"assistant","content":"Because air scatters short waves of light more than long ones."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":31,"total_tokens":159,"completion_tokens":128}}`
	chunkBody   = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1764000000,"model":MODEL,"choices":[{"index":0,"delta":{"content":" waves"},"logprobs":null,"finish_reason":null}]}`
)

// generated are requests of a model as they come: an answer, a stream, a stream whose
// client left, two choices; each of 128 steps.
func generated(model string) []*plugin.Frame {
	var list []*plugin.Frame
	for _, kind := range []struct {
		flags   plugin.Flags
		outcome plugin.Outcome
		choices uint16
		id      string
	}{
		{0, plugin.OutcomeStop, 1, "req-1"},
		{plugin.FlagStream | plugin.FlagUsageChunkWanted, plugin.OutcomeLength, 1, "req-2"},
		{plugin.FlagStream | plugin.FlagPartial, plugin.OutcomeClientAbort, 1, "req-3"},
		{plugin.FlagMultiChoice, plugin.OutcomeStop, 2, "req-4"},
	} {
		const steps, stepNS = 128, 11_700_000
		f := &plugin.Frame{
			Flags: kind.flags | plugin.FlagTimingsWanted, Endpoint: plugin.EndpointChat, Outcome: kind.outcome, N: kind.choices, Prompts: 1,
			HTTPStatus: 200, ArrivalUnixNS: 1_764_000_000_123_456_789, PromptTokens: 31, CachedPromptTokens: 16, MaxTokens: 512,
			QueuedNS: 1_000_000, ScheduledNS: 3_512_345, FirstTokenNS: 45_523_456, LastTokenNS: 45_523_456 + (steps-1)*stepNS,
			DeviceNS: 800_000_000, RequestID: kind.id, AttemptID: "01a2293f-73e9-72c5-a635-2ed86dd27787",
			Model: model, Tenant: "acme", KeyName: "alice", ServiceTier: "default",
		}
		f.FinishedNS = f.LastTokenNS + 20_000
		for i := range kind.choices {
			f.Choices = append(f.Choices, plugin.Choice{
				Index: uint32(i), FinishReason: kind.outcome, PromptTokens: 31, CachedTokens: 16, CompletionTokens: steps, DeliveredTokens: steps,
				QueuedNS: f.QueuedNS, ScheduledNS: f.ScheduledNS, FirstTokenNS: f.FirstTokenNS, LastTokenNS: f.LastTokenNS, DeviceNS: f.DeviceNS / uint64(kind.choices),
			})
			f.CompletionTokens += steps
		}
		f.DeliveredTokens = f.CompletionTokens
		f.Events = append(f.Events, plugin.Event{TimeNS: f.QueuedNS, Kind: plugin.EventQueued}, plugin.Event{TimeNS: f.ScheduledNS, Kind: plugin.EventScheduled},
			plugin.Event{TimeNS: f.FirstTokenNS, Kind: plugin.EventFirstToken, NumTokens: 1, BatchTokens: 31, Aux: 42_000})
		for step := range uint64(steps - 1) {
			f.Events = append(f.Events, plugin.Event{TimeNS: f.FirstTokenNS + step*stepNS, Kind: plugin.EventTokens, NumTokens: uint32(kind.choices), BatchTokens: 8, Aux: 11_000})
		}
		list = append(list, f)
	}
	return list
}

// given gives the frames as a hook gets them: with its document, and before
// the request is queued without what is known later.
func given(hook plugin.Hook, frames []*plugin.Frame) []*plugin.Frame {
	list := make([]*plugin.Frame, len(frames))
	for i, f := range frames {
		g := *f
		switch hook {
		case plugin.HookRequest:
			g.Document = document(requestBody, f.Model)
			g.Outcome, g.CompletionTokens, g.CachedPromptTokens, g.DeliveredTokens, g.Choices, g.Events = 0, 0, 0, 0, nil, nil
			g.QueuedNS, g.ScheduledNS, g.FirstTokenNS, g.LastTokenNS, g.FinishedNS, g.DeviceNS = 0, 0, 0, 0, 0, 0
		case plugin.HookShape:
			if g.Flags&plugin.FlagStream == 0 {
				g.Document = document(answerBody, f.Model)
			}
		case plugin.HookChunk:
			g.Document = document(chunkBody, f.Model)
			g.Events = slices.Clip(g.Events[:min(len(g.Events), 3)])
		}
		list[i] = &g
	}
	return list
}

// document is one of the documents with the model's name in it.
func document(text, model string) []byte {
	name, err := json.Marshal(model)
	if err != nil {
		panic("a string is no JSON: " + err.Error())
	}
	return []byte(strings.Replace(text, "MODEL", string(name), 1))
}
