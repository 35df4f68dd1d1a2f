package plugin

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// fullFrame sets every field to a value of its own; testdata/frame.py
// encodes the same.
func fullFrame() *Frame {
	return &Frame{
		Flags: FlagStream | FlagTimingsWanted | FlagUsageChunkWanted, Endpoint: EndpointResponses, Outcome: OutcomeLength,
		N: 2, Prompts: 1, HTTPStatus: 200, ToolCalls: 3, ArrivalUnixNS: 1_700_000_000_123_456_789,
		PromptTokens: 101, CompletionTokens: 102, CachedPromptTokens: 103, CacheWriteTokens: 104, ReasoningTokens: 105,
		ImageTokens: 106, AudioTokens: 107, DeliveredTokens: 108, RecomputedTokens: 109, Preemptions: 110,
		DraftedTokens: 111, AcceptedTokens: 112, MaxTokens: 113, Priority: -7, SLOTTFTms: 115, SLOTPOTms: 116, DeadlineMS: 117,
		QueuedNS: 118, ScheduledNS: 119, FirstTokenNS: 120, LastTokenNS: 121, FinishedNS: 122, DeviceNS: 123, RecordSeq: 124,
		RequestID: "request-1", AttemptID: "attempt-2", ClientRequestID: "client-3", Model: "smollm2", Tenant: "acme",
		KeyName: "key-6", Adapter: "", ServiceTier: "default", UserHash: "user-9", IdempotencyKey: "idem-10",
		Metadata: `{"team":"ü"}`, ChainID: "chain-12", Carry: "carry-13", SpecJSON: `{"num_spec_steps":4}`,
		Choices: []Choice{
			{0, 0, OutcomeStop, 11, 4, 5, 1, 5, 100, 200, 300, 400, 500, 6, 7, 8},
			{1, 0, OutcomeLength, 11, 4, 9, 0, 8, 101, 201, 301, 401, 501, 16, 17, 18},
		},
		Events: []Event{
			{TimeNS: 1, Kind: EventQueued},
			{TimeNS: 2500, Kind: EventScheduled, Flags: 3},
			{TimeNS: 45_000_000_000, Kind: EventTokens, NumTokens: 1, BatchTokens: 17, Aux: 9876},
		},
		Document: []byte(`{"a":1}`),
	}
}

func TestFrameBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/frame.hex")
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	got := fullFrame().Append([]byte("before"), HookFinish)
	got, found := bytes.CutPrefix(got, []byte("before"))
	if !found || !bytes.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("byte %d: got %#x, want %#x", i, got[i], want[i])
			}
		}
		t.Fatalf("got %d bytes, want %d", len(got), len(want))
	}
}

// Under shape the header's stamps are zero when the answer has several
// generations, and the choices keep theirs.
func TestFrameHidesStampsOfSeveral(t *testing.T) {
	const stampsAt, stampsEnd = 104, 144
	for _, c := range []struct {
		flags  Flags
		hook   Hook
		hidden bool
	}{
		{FlagTimingsWanted, HookShape, false},
		{FlagMultiChoice, HookShape, true},
		{FlagMultiPrompt | FlagStream, HookShape, true},
		{FlagMultiTurn, HookShape, true},
		{FlagMultiChoice, HookFinish, false},
	} {
		frame := fullFrame()
		frame.Flags = c.flags
		got := frame.Append(nil, c.hook)
		hidden := bytes.Equal(got[stampsAt:stampsEnd], make([]byte, stampsEnd-stampsAt))
		if hidden != c.hidden {
			t.Errorf("flags %#x, hook %s: stamps % x, want hidden %v", c.flags, c.hook, got[stampsAt:stampsEnd], c.hidden)
		}
		frame.Flags = 0
		plain := frame.Append(nil, c.hook)
		if !bytes.Equal(got[stampsEnd:], plain[stampsEnd:]) {
			t.Errorf("flags %#x, hook %s: more than the header's stamps differs", c.flags, c.hook)
		}
	}
}

func TestFrameAppendAllocatesNothing(t *testing.T) {
	frame := fullFrame()
	room := frame.Append(nil, HookShape)
	if n := testing.AllocsPerRun(100, func() { room = frame.Append(room[:0], HookShape) }); n != 0 {
		t.Errorf("%v allocations for a frame that fits", n)
	}
}

func BenchmarkFrameAppend(b *testing.B) {
	frame := fullFrame()
	room := frame.Append(nil, HookShape)
	b.SetBytes(int64(len(room)))
	b.ReportAllocs()
	for b.Loop() {
		room = frame.Append(room[:0], HookShape)
	}
}
