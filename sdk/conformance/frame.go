package conformance

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Where the header of ABI v1 says how long it is and where the tables are.
const (
	headerLenAt    = 4
	eventOffAt     = 160
	eventCountAt   = 164
	eventStrideAt  = 168
	choiceStrideAt = 170
	choiceOffAt    = 172
	choiceCountAt  = 176
	stringOffAt    = 180
	stringCountAt  = 184
	docOffAt       = 188
	docLenAt       = 192
)

// laterFrame gives a frame as a later minor version of the ABI may make it: a
// longer header, longer records, more strings, and in all that is added bytes
// that are not 0. What ABI v1 has in it is the same.
func laterFrame(v1 []byte, header, eventStride, choiceStride int) []byte {
	le := binary.LittleEndian
	old := func(at int) int { return int(le.Uint32(v1[at:])) }
	noise := func(n int) []byte { return slices.Repeat([]byte{0xA5}, n) }

	frame := append(slices.Clone(v1[:256]), noise(header-256)...)
	put := func(at, v int) { le.PutUint32(frame[at:], uint32(v)) }
	le.PutUint16(frame[headerLenAt:], uint16(header))
	table := func(offAt, countAt, strideAt, stride int) {
		from, size := old(offAt), int(le.Uint16(v1[strideAt:]))
		le.PutUint16(frame[strideAt:], uint16(stride))
		if old(countAt) == 0 {
			return
		}
		put(offAt, len(frame))
		for i := range old(countAt) {
			frame = append(append(frame, v1[from+i*size:][:size]...), noise(stride-size)...)
		}
	}
	table(eventOffAt, eventCountAt, eventStrideAt, eventStride)
	table(choiceOffAt, choiceCountAt, choiceStrideAt, choiceStride)

	const added = 2 // strings, behind the known ones
	count, pairs := old(stringCountAt), len(frame)
	put(stringOffAt, pairs)
	put(stringCountAt, count+added)
	frame = append(frame, noise(8*(count+added))...)
	for i := range count + added {
		word := "later"
		if i < count {
			pair := v1[old(stringOffAt)+8*i:]
			word = string(v1[le.Uint32(pair):][:le.Uint32(pair[4:])])
		}
		put(pairs+8*i, len(frame))
		put(pairs+8*i+4, len(word))
		frame = append(frame, word...)
	}
	if n := old(docLenAt); n > 0 {
		put(docOffAt, len(frame))
		frame = append(frame, v1[old(docOffAt):][:n]...)
	}
	return frame
}

// distinctFrame has a value of its own in every field.
func distinctFrame() *plugin.Frame {
	return &plugin.Frame{
		Flags: plugin.FlagStream | plugin.FlagTimingsWanted | plugin.FlagUsageChunkWanted, Endpoint: plugin.EndpointResponses,
		Outcome: plugin.OutcomeToolCalls, N: 2, Prompts: 3, HTTPStatus: 429, ToolCalls: 5, ArrivalUnixNS: 1 << 60,
		PromptTokens: 101, CompletionTokens: 102, CachedPromptTokens: 103, CacheWriteTokens: 104, ReasoningTokens: 105,
		ImageTokens: 106, AudioTokens: 107, DeliveredTokens: 108, RecomputedTokens: 109, Preemptions: 110,
		DraftedTokens: 111, AcceptedTokens: 112, MaxTokens: 113, Priority: -7, SLOTTFTms: 115, SLOTPOTms: 116, DeadlineMS: 117,
		QueuedNS: 118, ScheduledNS: 119, FirstTokenNS: 120, LastTokenNS: 121, FinishedNS: 122, DeviceNS: 123, RecordSeq: 124,
		RequestID: "request", AttemptID: "attempt", ClientRequestID: "client", Model: "model", Tenant: "acme", KeyName: "key",
		Adapter: "adapter", ServiceTier: "tier", UserHash: "user", IdempotencyKey: "idem", Metadata: `{"ü":"\n"}`, ChainID: "chain",
		Carry: "carry", SpecJSON: `{"rate":0.5}`, Document: []byte(`{"id":"chatcmpl-1"}`),
		Choices: choices(2), Events: events(3),
	}
}

// highestFrame has the highest value in every field of the header.
func highestFrame() *plugin.Frame {
	const u16, u32, u64 = 1<<16 - 1, 1<<32 - 1, 1<<64 - 1
	return &plugin.Frame{
		Flags: u32 &^ (plugin.FlagMultiChoice | plugin.FlagMultiPrompt | plugin.FlagMultiTurn), Endpoint: 255, Outcome: 255,
		N: u16, Prompts: u16, HTTPStatus: u16, ToolCalls: u16, ArrivalUnixNS: u64,
		PromptTokens: u32, CompletionTokens: u32, CachedPromptTokens: u32, CacheWriteTokens: u32, ReasoningTokens: u32,
		ImageTokens: u32, AudioTokens: u32, DeliveredTokens: u32, RecomputedTokens: u32, Preemptions: u32,
		DraftedTokens: u32, AcceptedTokens: u32, MaxTokens: u32, Priority: -1 << 31, SLOTTFTms: u32, SLOTPOTms: u32, DeadlineMS: u32,
		QueuedNS: u64, ScheduledNS: u64, FirstTokenNS: u64, LastTokenNS: u64, FinishedNS: u64, DeviceNS: u64, RecordSeq: u64,
	}
}

func choices(n int) []plugin.Choice {
	list := make([]plugin.Choice, n)
	for i := range list {
		k := uint32(16 * i)
		list[i] = plugin.Choice{
			Index: k, PromptIndex: k + 1, FinishReason: plugin.Outcome(i % 13), PromptTokens: k + 3, CachedTokens: k + 4,
			CompletionTokens: k + 5, ReasoningTokens: k + 6, DeliveredTokens: k + 7, QueuedNS: uint64(k + 8), ScheduledNS: 1<<40 + uint64(k),
			FirstTokenNS: 1<<50 + uint64(k), LastTokenNS: 1<<60 + uint64(k), DeviceNS: 1<<63 + uint64(k),
			Drafted: k + 13, Accepted: k + 14, SpecSteps: 1<<32 - 1 - k,
		}
	}
	return list
}

func events(n int) []plugin.Event {
	list := make([]plugin.Event, n)
	for i := range list {
		k := uint32(8 * i)
		list[i] = plugin.Event{
			TimeNS: 1<<63 + uint64(k), Kind: plugin.EventKind(i + 1), Flags: uint16(k + 2), NumTokens: k + 3, BatchTokens: k + 4, Aux: 1<<32 - 1 - k,
		}
	}
	return list
}

// setString sets string i of the ABI's order.
func setString(f *plugin.Frame, i int, text string) {
	*[...]*string{
		&f.RequestID, &f.AttemptID, &f.ClientRequestID, &f.Model, &f.Tenant, &f.KeyName, &f.Adapter,
		&f.ServiceTier, &f.UserHash, &f.IdempotencyKey, &f.Metadata, &f.ChainID, &f.Carry, &f.SpecJSON,
	}[i] = text
}

const numStrings = 14

// wantEcho is the document that a guest's echo gives for a frame. It is written
// from the values, not from the frame's bytes.
func wantEcho(f *plugin.Frame, hook plugin.Hook) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	put(`{"fields":{"x_echo":{"header":{"flags":%d,"endpoint":%d,"hook":%d,"outcome":%d,"n":%d,"prompts":%d,"http_status":%d,"tool_calls":%d`,
		f.Flags, f.Endpoint, hook, f.Outcome, f.N, f.Prompts, f.HTTPStatus, f.ToolCalls)
	put(`,"arrival_unix_ns":%d,"prompt_tokens":%d,"completion_tokens":%d,"cached_prompt_tokens":%d,"cache_write_tokens":%d,"reasoning_tokens":%d`,
		f.ArrivalUnixNS, f.PromptTokens, f.CompletionTokens, f.CachedPromptTokens, f.CacheWriteTokens, f.ReasoningTokens)
	put(`,"image_tokens":%d,"audio_tokens":%d,"delivered_tokens":%d,"recomputed_tokens":%d,"preemptions":%d,"drafted_tokens":%d,"accepted_tokens":%d`,
		f.ImageTokens, f.AudioTokens, f.DeliveredTokens, f.RecomputedTokens, f.Preemptions, f.DraftedTokens, f.AcceptedTokens)
	put(`,"max_tokens":%d,"priority":%d,"slo_ttft_ms":%d,"slo_tpot_ms":%d,"deadline_ms":%d`,
		f.MaxTokens, f.Priority, f.SLOTTFTms, f.SLOTPOTms, f.DeadlineMS)
	put(`,"queued_ns":%d,"scheduled_ns":%d,"first_token_ns":%d,"last_token_ns":%d,"finished_ns":%d,"device_ns":%d,"record_seq":%d},"strings":[`,
		f.QueuedNS, f.ScheduledNS, f.FirstTokenNS, f.LastTokenNS, f.FinishedNS, f.DeviceNS, f.RecordSeq)
	for i, s := range []string{
		f.RequestID, f.AttemptID, f.ClientRequestID, f.Model, f.Tenant, f.KeyName, f.Adapter,
		f.ServiceTier, f.UserHash, f.IdempotencyKey, f.Metadata, f.ChainID, f.Carry, f.SpecJSON,
	} {
		put("%s%s", comma(i), quote(s))
	}
	put(`],"events":[`)
	for i, e := range f.Events {
		put("%s[%d,%d,%d,%d,%d,%d]", comma(i), e.TimeNS, e.Kind, e.Flags, e.NumTokens, e.BatchTokens, e.Aux)
	}
	put(`],"choices":[`)
	for i, c := range f.Choices {
		put("%s[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d]", comma(i), c.Index, c.PromptIndex, c.FinishReason, c.PromptTokens,
			c.CachedTokens, c.CompletionTokens, c.ReasoningTokens, c.DeliveredTokens, c.QueuedNS, c.ScheduledNS, c.FirstTokenNS,
			c.LastTokenNS, c.DeviceNS, c.Drafted, c.Accepted, c.SpecSteps)
	}
	put(`],"document":%s}}}`, quote(string(f.Document)))
	return b.String()
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// quote gives text as a JSON string, by README.md's rules. Go reads a byte that
// is not UTF-8 as one U+FFFD, which is the rule.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
