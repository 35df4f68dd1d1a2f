package wasmeter

import (
	"encoding/binary"
	"iter"
	"unsafe"
)

// Request reads the frame of one request. Its strings and iterators are
// views of the call's buffer: a hook that keeps one beyond its return must
// clone it.
//
// Stamps are nanoseconds since the request arrived, by a clock that never
// goes back; 0 means that it never happened.
type Request struct{ frame []byte }

// NewRequest reads a frame that was recorded or made by a test. Fields that
// the frame is too short for are 0 or empty.
func NewRequest(frame []byte) Request { return Request{frame} }

// Flags are facts about a request.
type Flags uint32

// Flags.
const (
	Stream           Flags = 1 << 0
	Partial          Flags = 1 << 1
	MultiChoice      Flags = 1 << 2
	MultiPrompt      Flags = 1 << 3
	MultiTurn        Flags = 1 << 4
	TimingUnknown    Flags = 1 << 5
	TimingsWanted    Flags = 1 << 6
	Replay           Flags = 1 << 7
	Synthetic        Flags = 1 << 8
	Batch            Flags = 1 << 9
	UsageChunkWanted Flags = 1 << 10
)

// Any reports whether one of the flags in want is set.
func (f Flags) Any(want Flags) bool { return f&want != 0 }

// Endpoint says which API the request came through.
type Endpoint uint8

// Endpoints.
const (
	Chat        Endpoint = 1
	Completions Endpoint = 2
	Responses   Endpoint = 3
)

// Hook is a moment in a request's life at which a plugin is called.
type Hook uint8

// Hooks.
const (
	HookRequest Hook = 1
	HookShape   Hook = 2
	HookChunk   Hook = 3
	HookFinish  Hook = 4
)

// Outcome says how a request or a choice ended.
type Outcome uint8

// Outcomes.
const (
	Running Outcome = iota
	Stop
	Length
	ToolCalls
	ClientAbort
	ServerError
	Rejected
	Deadline
	Shutdown
	SlowReader
	Denied
	PluginError
	CrashRecovered
)

// inHeader reports whether the header has size bytes at offset: a later
// minor version of the ABI has a longer one, an earlier one a shorter one.
func (r Request) inHeader(offset, size int) bool {
	const lengthAt, smallest = 4, 6
	if len(r.frame) < smallest {
		return false
	}
	header := int(binary.LittleEndian.Uint16(r.frame[lengthAt:]))
	return offset+size <= header && offset+size <= len(r.frame)
}

func (r Request) u8(offset int) uint8 {
	if !r.inHeader(offset, 1) {
		return 0
	}
	return r.frame[offset]
}

func (r Request) u16(offset int) uint16 {
	if !r.inHeader(offset, 2) {
		return 0
	}
	return binary.LittleEndian.Uint16(r.frame[offset:])
}

func (r Request) u32(offset int) uint32 {
	if !r.inHeader(offset, 4) {
		return 0
	}
	return binary.LittleEndian.Uint32(r.frame[offset:])
}

func (r Request) u64(offset int) uint64 {
	if !r.inHeader(offset, 8) {
		return 0
	}
	return binary.LittleEndian.Uint64(r.frame[offset:])
}

// Flags gives the request's flags.
func (r Request) Flags() Flags { return Flags(r.u32(8)) }

// Endpoint gives the API of the request.
func (r Request) Endpoint() Endpoint { return Endpoint(r.u8(12)) }

// Hook is the hook that the frame was made for.
func (r Request) Hook() Hook { return Hook(r.u8(13)) }

// Outcome says how the request ended.
func (r Request) Outcome() Outcome { return Outcome(r.u8(14)) }

// N is the number of choices asked for.
func (r Request) N() uint16 { return r.u16(16) }

// Prompts is the number of prompts sent.
func (r Request) Prompts() uint16 { return r.u16(18) }

// HTTPStatus is the status of the answer.
func (r Request) HTTPStatus() uint16 { return r.u16(20) }

// ToolCalls is the number of tool calls the model made.
func (r Request) ToolCalls() uint16 { return r.u16(22) }

// ArrivalUnixNS is the wall-clock time of arrival in Unix nanoseconds.
func (r Request) ArrivalUnixNS() uint64 { return r.u64(24) }

// PromptTokens counts the prompt's tokens.
func (r Request) PromptTokens() uint32 { return r.u32(32) }

// CompletionTokens counts the tokens of the answer, as usage does.
func (r Request) CompletionTokens() uint32 { return r.u32(36) }

// CachedPromptTokens counts the prompt tokens found in the prefix cache.
func (r Request) CachedPromptTokens() uint32 { return r.u32(40) }

// CacheWriteTokens counts the prompt tokens written to it.
func (r Request) CacheWriteTokens() uint32 { return r.u32(44) }

// ReasoningTokens counts the completion tokens spent on reasoning.
func (r Request) ReasoningTokens() uint32 { return r.u32(48) }

// ImageTokens counts the prompt tokens that stand for images.
func (r Request) ImageTokens() uint32 { return r.u32(52) }

// AudioTokens counts the prompt tokens that stand for audio.
func (r Request) AudioTokens() uint32 { return r.u32(56) }

// DeliveredTokens counts the completion tokens that reached the client.
func (r Request) DeliveredTokens() uint32 { return r.u32(60) }

// RecomputedTokens counts the tokens computed again after a preemption.
func (r Request) RecomputedTokens() uint32 { return r.u32(64) }

// Preemptions counts how often the request lost its place.
func (r Request) Preemptions() uint32 { return r.u32(68) }

// DraftedTokens counts the tokens that speculation proposed.
func (r Request) DraftedTokens() uint32 { return r.u32(72) }

// AcceptedTokens counts the proposed tokens that were kept.
func (r Request) AcceptedTokens() uint32 { return r.u32(76) }

// MaxTokens is the completion limit that was asked for.
func (r Request) MaxTokens() uint32 { return r.u32(80) }

// Priority is the request's priority.
func (r Request) Priority() int32 { return int32(r.u32(84)) }

// SLOTTFTms is the promised time to the first token in milliseconds, 0 for
// none.
func (r Request) SLOTTFTms() uint32 { return r.u32(88) }

// SLOTPOTms is the promised time for each further token, 0 for none.
func (r Request) SLOTPOTms() uint32 { return r.u32(92) }

// DeadlineMS is the request's deadline in milliseconds since arrival, 0 for
// none.
func (r Request) DeadlineMS() uint32 { return r.u32(96) }

// QueuedNS is when the request entered the waiting queue.
func (r Request) QueuedNS() uint64 { return r.u64(104) }

// ScheduledNS is when its first step began.
func (r Request) ScheduledNS() uint64 { return r.u64(112) }

// FirstTokenNS is when its first token was there.
func (r Request) FirstTokenNS() uint64 { return r.u64(120) }

// LastTokenNS is when its last token was there.
func (r Request) LastTokenNS() uint64 { return r.u64(128) }

// FinishedNS is when it ended.
func (r Request) FinishedNS() uint64 { return r.u64(136) }

// DeviceNS is its share of the device's time.
func (r Request) DeviceNS() uint64 { return r.u64(144) }

// RecordSeq is the sequence number of its record in the ledger, 0 without a
// ledger.
func (r Request) RecordSeq() uint64 { return r.u64(152) }

// RequestID is the id of the answer.
func (r Request) RequestID() string { return r.str(0) }

// AttemptID is the server's own id of this attempt.
func (r Request) AttemptID() string { return r.str(1) }

// ClientRequestID is the id that the client sent.
func (r Request) ClientRequestID() string { return r.str(2) }

// Model is the model's name as it is served.
func (r Request) Model() string { return r.str(3) }

// Tenant is the owner of the key.
func (r Request) Tenant() string { return r.str(4) }

// KeyName is the name of the key.
func (r Request) KeyName() string { return r.str(5) }

// Adapter is the model's adapter.
func (r Request) Adapter() string { return r.str(6) }

// ServiceTier is the tier that was asked for.
func (r Request) ServiceTier() string { return r.str(7) }

// UserHash stands for the end user, without telling who it is.
func (r Request) UserHash() string { return r.str(8) }

// IdempotencyKey is the client's key against double charging.
func (r Request) IdempotencyKey() string { return r.str(9) }

// Metadata is the request's own, a JSON object.
func (r Request) Metadata() string { return r.str(10) }

// ChainID names the plugin chain that serves the request.
func (r Request) ChainID() string { return r.str(11) }

// Carry is what an earlier hook of this plugin left for this one.
func (r Request) Carry() string { return r.str(12) }

// SpecJSON is the acceptance statistics of speculative decoding as a JSON
// object, or empty.
func (r Request) SpecJSON() string { return r.str(13) }

// Document is the body of the request in the hook Request, the answer in
// Shape, one chunk in Chunk: JSON. It is empty unless Plugin.RequestDocument
// or Plugin.ResponseDocument asked for it, or the hook is Chunk.
func (r Request) Document() []byte {
	return r.part(uint64(r.u32(188)), uint64(r.u32(192)))
}

// str gives entry i of the string table.
func (r Request) str(i int) string {
	const offsetAt, countAt, pairSize = 180, 184, 8
	if uint32(i) >= r.u32(countAt) {
		return ""
	}
	pair := r.part(uint64(r.u32(offsetAt))+uint64(i)*pairSize, pairSize)
	if pair == nil {
		return ""
	}
	text := r.part(uint64(binary.LittleEndian.Uint32(pair)), uint64(binary.LittleEndian.Uint32(pair[4:])))
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// part gives size bytes of the frame from offset, or nil if they are not
// all there.
func (r Request) part(offset, size uint64) []byte {
	if offset+size > uint64(len(r.frame)) {
		return nil
	}
	return r.frame[offset : offset+size]
}

// table calls use with each record of a table until it returns false. Its
// stride comes from the frame: a later minor version has longer records.
func (r Request) table(offset, count uint32, stride, smallest uint16, use func(record []byte) bool) {
	if stride < smallest {
		return
	}
	for i := range uint64(count) {
		record := r.part(uint64(offset)+i*uint64(stride), uint64(stride))
		if record == nil || !use(record) {
			return
		}
	}
}

// EventKind says what an Event is about.
type EventKind uint16

// Event kinds. EventTokens is one engine step with its time in microseconds
// in Aux; EventDraft has the accepted drafts in NumTokens and the drafted
// ones in Aux.
const (
	EventQueued     EventKind = 1
	EventScheduled  EventKind = 2
	EventFirstToken EventKind = 3
	EventTokens     EventKind = 4
	EventPreempted  EventKind = 5
	EventResumed    EventKind = 6
	EventFinished   EventKind = 7
	EventAborted    EventKind = 8
	EventRejected   EventKind = 9
	EventDraft      EventKind = 10
)

// Event is one entry of the request's history.
type Event struct {
	TimeNS      uint64 // since arrival
	Kind        EventKind
	Flags       uint16
	NumTokens   uint32
	BatchTokens uint32 // tokens computed in the whole step
	Aux         uint32
}

// Events iterates over the request's history, if Plugin.Events asked for it.
func (r Request) Events() iter.Seq[Event] {
	const smallest = 24
	return func(yield func(Event) bool) {
		le := binary.LittleEndian
		r.table(r.u32(160), r.u32(164), r.u16(168), smallest, func(b []byte) bool {
			return yield(Event{
				TimeNS: le.Uint64(b), Kind: EventKind(le.Uint16(b[8:])), Flags: le.Uint16(b[10:]),
				NumTokens: le.Uint32(b[12:]), BatchTokens: le.Uint32(b[16:]), Aux: le.Uint32(b[20:]),
			})
		})
	}
}

// Choice is the account of one choice.
type Choice struct {
	Index            uint32
	PromptIndex      uint32
	FinishReason     Outcome
	PromptTokens     uint32
	CachedTokens     uint32
	CompletionTokens uint32
	ReasoningTokens  uint32
	DeliveredTokens  uint32
	QueuedNS         uint64
	ScheduledNS      uint64
	FirstTokenNS     uint64
	LastTokenNS      uint64
	DeviceNS         uint64
	Drafted          uint32
	Accepted         uint32
	SpecSteps        uint32
}

// Choices iterates over the request's choices, if Plugin.Choices asked for
// them.
func (r Request) Choices() iter.Seq[Choice] {
	const smallest = 88
	return func(yield func(Choice) bool) {
		le := binary.LittleEndian
		r.table(r.u32(172), r.u32(176), r.u16(170), smallest, func(b []byte) bool {
			return yield(Choice{
				Index: le.Uint32(b), PromptIndex: le.Uint32(b[4:]), FinishReason: Outcome(le.Uint32(b[8:])),
				PromptTokens: le.Uint32(b[12:]), CachedTokens: le.Uint32(b[16:]), CompletionTokens: le.Uint32(b[20:]),
				ReasoningTokens: le.Uint32(b[24:]), DeliveredTokens: le.Uint32(b[28:]),
				QueuedNS: le.Uint64(b[32:]), ScheduledNS: le.Uint64(b[40:]), FirstTokenNS: le.Uint64(b[48:]),
				LastTokenNS: le.Uint64(b[56:]), DeviceNS: le.Uint64(b[64:]),
				Drafted: le.Uint32(b[72:]), Accepted: le.Uint32(b[76:]), SpecSteps: le.Uint32(b[80:]),
			})
		})
	}
}
