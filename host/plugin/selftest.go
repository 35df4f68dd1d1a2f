package plugin

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Trial is a call of a hook with a request that was never made.
type Trial struct {
	Hook     Hook
	Given    string // which request
	Fuel     int64
	Duration time.Duration
	Err      error
}

// selfTest calls every hook of a plugin with three requests that were never
// made, as it is done before a real one is handed to it. They differ in what
// plugins are likely to trip over. Breaker and observer do not see the calls.
func (p *Plugin) selfTest(ctx context.Context) iter.Seq[Trial] {
	return func(yield func(Trial) bool) {
		for _, test := range syntheticFrames() {
			var carry string
			for _, hook := range [...]Hook{HookRequest, HookChunk, HookShape, HookFinish} {
				if p.mask&hook.bit() == 0 {
					continue
				}
				frame := test.frame
				frame.Carry, frame.Document = carry, []byte(test.answer)
				switch hook {
				case HookRequest:
					frame.Document = []byte(test.request)
				case HookChunk:
					frame.Document = []byte(test.chunk)
				}
				var into result
				began, call := time.Now(), Call{Hook: hook}
				failure := p.checkedOutCall(ctx, &frame, &into, &call)
				trial := Trial{Hook: hook, Given: test.name, Fuel: call.Fuel, Duration: time.Since(began)}
				if failure != nil {
					trial.Err = fmt.Errorf("%s: %w", failure.Kind, failure.Err)
				} else if into.carried {
					carry = into.carry
				}
				if !yield(trial) {
					return
				}
			}
		}
	}
}

// synthetic is a request that was never made.
type synthetic struct {
	name                   string
	frame                  Frame
	request, chunk, answer string
}

func syntheticFrames() []synthetic {
	const arrival = 946_684_800_000_000_000 // 2000-01-01
	return []synthetic{
		{
			name: "a chat request",
			frame: Frame{
				Flags: FlagSynthetic | FlagTimingsWanted, Endpoint: EndpointChat, Outcome: OutcomeStop, N: 1, Prompts: 1, HTTPStatus: 200,
				ArrivalUnixNS: arrival, PromptTokens: 31, CompletionTokens: 10, DeliveredTokens: 10, MaxTokens: 64,
				QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001, FinishedNS: 1_545_900_000,
				DeviceNS: 1_000_000_000, RequestID: "chatcmpl-synthetic-1", AttemptID: "synthetic-1", Model: "synthetic", Tenant: "synthetic", KeyName: "synthetic",
				Choices: []Choice{{PromptTokens: 31, CompletionTokens: 10, DeliveredTokens: 10, FinishReason: OutcomeStop, QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001}},
				Events:  []Event{{1_000_000, EventQueued, 0, 0, 0, 0}, {3_500_001, EventScheduled, 0, 0, 0, 0}, {45_500_001, EventFirstToken, 0, 1, 31, 42_000}},
			},
			request: `{"model":"synthetic","messages":[{"role":"user","content":"hello"}]}`,
			chunk:   `{"id":"chatcmpl-synthetic-1","object":"chat.completion.chunk","created":946684800,"model":"synthetic","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`,
			answer:  `{"id":"chatcmpl-synthetic-1","object":"chat.completion","created":946684800,"model":"synthetic","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":31,"total_tokens":41,"completion_tokens":10}}`,
		},
		{
			name: "a stream of two choices whose client left",
			frame: Frame{
				Flags: FlagSynthetic | FlagStream | FlagMultiChoice | FlagPartial, Endpoint: EndpointCompletions, Outcome: OutcomeClientAbort, N: 2, Prompts: 1, HTTPStatus: 200,
				ArrivalUnixNS: arrival, PromptTokens: 5, CompletionTokens: 2, MaxTokens: 16, QueuedNS: 1, ScheduledNS: 2, FirstTokenNS: 3, LastTokenNS: 3, FinishedNS: 4,
				RequestID: "cmpl-synthetic-2", AttemptID: "synthetic-2", Model: "synthetic", Tenant: "", Metadata: `{"team":"ü"}`,
				Choices: []Choice{{PromptTokens: 5, CompletionTokens: 2, FinishReason: OutcomeClientAbort}, {Index: 1, PromptTokens: 5}},
			},
			request: `{"model":"synthetic","prompt":"hello","n":2,"stream":true}`,
			chunk:   `{"id":"cmpl-synthetic-2","object":"text_completion","created":946684800,"model":"synthetic","choices":[{"index":1,"text":"","finish_reason":null}]}`,
			answer:  `{"id":"cmpl-synthetic-2","object":"text_completion","created":946684800,"model":"synthetic","choices":[],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}`,
		},
		{
			name: "a response that failed before it began, with neither times nor tokens",
			frame: Frame{
				Flags: FlagSynthetic | FlagTimingUnknown | FlagTimingsWanted, Endpoint: EndpointResponses, Outcome: OutcomeServerError, N: 1, Prompts: 1, HTTPStatus: 500,
				ArrivalUnixNS: arrival, RequestID: "resp_synthetic-3", AttemptID: "synthetic-3",
			},
			request: `{"model":"synthetic","input":""}`,
			chunk:   `{"type":"response.output_text.delta","delta":"","item_id":"msg_1","output_index":0,"content_index":0,"sequence_number":1}`,
			answer:  `{"id":"resp_synthetic-3","object":"response","created_at":946684800,"status":"failed","output":[],"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`,
		},
	}
}
