package wasmeter_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// hostFrame has a value of its own in every field, encoded by the host.
func hostFrame() []byte {
	frame := &plugin.Frame{
		Flags: plugin.FlagStream | plugin.FlagTimingsWanted, Endpoint: plugin.EndpointResponses, Outcome: plugin.OutcomeLength,
		N: 2, Prompts: 1, HTTPStatus: 200, ToolCalls: 3, ArrivalUnixNS: 1 << 60,
		PromptTokens: 101, CompletionTokens: 102, CachedPromptTokens: 103, CacheWriteTokens: 104, ReasoningTokens: 105,
		ImageTokens: 106, AudioTokens: 107, DeliveredTokens: 108, RecomputedTokens: 109, Preemptions: 110,
		DraftedTokens: 111, AcceptedTokens: 112, MaxTokens: 113, Priority: -7, SLOTTFTms: 115, SLOTPOTms: 116, DeadlineMS: 117,
		QueuedNS: 118, ScheduledNS: 119, FirstTokenNS: 120, LastTokenNS: 121, FinishedNS: 122, DeviceNS: 123, RecordSeq: 124,
		RequestID: "request", AttemptID: "attempt", ClientRequestID: "client", Model: "model", Tenant: "acme", KeyName: "key",
		Adapter: "", ServiceTier: "tier", UserHash: "user", IdempotencyKey: "idem", Metadata: `{"ü":1}`, ChainID: "chain",
		Carry: "carry", SpecJSON: "{}",
		Choices: []plugin.Choice{{
			PromptIndex: 1, FinishReason: plugin.OutcomeStop, PromptTokens: 2, CachedTokens: 3, CompletionTokens: 4,
			ReasoningTokens: 5, DeliveredTokens: 6, QueuedNS: 7, ScheduledNS: 8, FirstTokenNS: 9, LastTokenNS: 10,
			DeviceNS: 11, Drafted: 12, Accepted: 13, SpecSteps: 14,
		}, {Index: 1}},
		Events: []plugin.Event{{TimeNS: 1, Kind: plugin.EventQueued}, {TimeNS: 2, Kind: plugin.EventTokens, Flags: 3, NumTokens: 4, BatchTokens: 5, Aux: 6}},
	}
	return frame.Append(nil, plugin.HookShape)
}

// summary reads every field of a request.
func summary(r wasmeter.Request) string {
	return fmt.Sprint(
		r.Flags(), r.Endpoint(), r.Outcome(), r.N(), r.Prompts(), r.HTTPStatus(), r.ToolCalls(), r.ArrivalUnixNS(),
		" ", r.PromptTokens(), r.CompletionTokens(), r.CachedPromptTokens(), r.CacheWriteTokens(), r.ReasoningTokens(),
		r.ImageTokens(), r.AudioTokens(), r.DeliveredTokens(), r.RecomputedTokens(), r.Preemptions(), r.DraftedTokens(),
		r.AcceptedTokens(), r.MaxTokens(), r.Priority(), r.SLOTTFTms(), r.SLOTPOTms(), r.DeadlineMS(),
		" ", r.QueuedNS(), r.ScheduledNS(), r.FirstTokenNS(), r.LastTokenNS(), r.FinishedNS(), r.DeviceNS(), r.RecordSeq(), " ",
		[]string{r.RequestID(), r.AttemptID(), r.ClientRequestID(), r.Model(), r.Tenant(), r.KeyName(), r.Adapter(), r.ServiceTier(),
			r.UserHash(), r.IdempotencyKey(), r.Metadata(), r.ChainID(), r.Carry(), r.SpecJSON()},
		slices.Collect(r.Choices()), slices.Collect(r.Events()))
}

const wantSummary = `65 3 2 2 1 200 3 1152921504606846976 ` +
	`101 102 103 104 105 106 107 108 109 110 111 112 113 -7 115 116 117 ` +
	`118 119 120 121 122 123 124 ` +
	"[request attempt client model acme key  tier user idem {\"ü\":1} chain carry {}] " +
	`[{0 1 1 2 3 4 5 6 7 8 9 10 11 12 13 14} {1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0}] [{1 1 0 0 0 0} {2 4 3 4 5 6}]`

func TestRequestReadsHostFrame(t *testing.T) {
	r := wasmeter.NewRequest(hostFrame())
	if got := summary(r); got != wantSummary {
		t.Errorf("got  %s\nwant %s", got, wantSummary)
	}
	if !r.Flags().Any(wasmeter.Stream) || r.Flags().Any(wasmeter.MultiChoice|wasmeter.Replay) {
		t.Errorf("flags %#x", r.Flags())
	}
	if r.Hook() != wasmeter.HookShape {
		t.Errorf("hook %d", r.Hook())
	}
	for e := range r.Events() { // an iteration may end early
		if e.Kind != wasmeter.EventQueued {
			t.Errorf("first event %+v", e)
		}
		break
	}
}

// A frame of a later minor version has a longer header, longer records and
// more strings; what this version knows reads the same.
func TestRequestReadsLaterFrame(t *testing.T) {
	const more = 32 // bytes that the header grows by
	old := hostFrame()
	le := func(at int) int {
		return int(old[at]) | int(old[at+1])<<8 | int(old[at+2])<<16 | int(old[at+3])<<24
	}
	put := func(frame []byte, at, v int) {
		for i := range 4 {
			frame[at+i] = byte(v >> (8 * i))
		}
	}
	frame := append(slices.Clone(old[:256]), make([]byte, more)...)
	frame[4], frame[5] = byte((256+more)&0xff), byte((256+more)>>8)
	restride := func(offsetAt, countAt, strideAt, stride int) {
		from := le(offsetAt)
		put(frame, offsetAt, len(frame))
		frame[strideAt] = byte(stride + 8)
		for range le(countAt) {
			frame = append(append(frame, old[from:from+stride]...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
			from += stride
		}
	}
	restride(172, 176, 170, 88)
	restride(160, 164, 168, 24)
	table, count := le(180), le(184)
	text := old[table+8*count:]
	put(frame, 180, len(frame))
	put(frame, 184, count+1)
	shift := len(frame) + 8*(count+1) - (table + 8*count)
	for i := range count {
		pair := make([]byte, 8)
		put(pair, 0, le(table+8*i)+shift)
		put(pair, 4, le(table+8*i+4))
		frame = append(frame, pair...)
	}
	frame = append(append(frame, make([]byte, 8)...), text...)
	if got := summary(wasmeter.NewRequest(frame)); got != wantSummary {
		t.Errorf("got  %s\nwant %s", got, wantSummary)
	}
}

// A header that ends early, as an earlier version's would, has zeros for the
// rest.
func TestRequestReadsShortHeader(t *testing.T) {
	frame := hostFrame()
	frame[4], frame[5] = 104, 0
	r := wasmeter.NewRequest(frame)
	if r.PromptTokens() != 101 || r.DeadlineMS() != 117 || r.QueuedNS() != 0 || r.Model() != "" || len(slices.Collect(r.Events())) != 0 {
		t.Errorf("got %s", summary(r))
	}
}

// No frame makes a Request read outside of it.
func FuzzRequest(f *testing.F) {
	f.Add(hostFrame())
	f.Add([]byte("WMF1\x00\x01"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := wasmeter.NewRequest(slices.Clip(frame))
		for c := range r.Choices() {
			_ = c
		}
		for e := range r.Events() {
			_ = e
		}
		for _, s := range []string{r.RequestID(), r.Model(), r.SpecJSON()} {
			if len(s) > len(frame) {
				t.Errorf("a string of %d bytes in a frame of %d", len(s), len(frame))
			}
		}
	})
}
