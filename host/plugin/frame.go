package plugin

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Sizes of the frame's parts, see ABI.md "Frame".
const (
	frameMagic   = "WMF1"
	headerSize   = 256
	eventStride  = 24
	choiceStride = 88
	stringCount  = 14
	pairSize     = 8 // u32 offset, u32 length
)

// Endpoint says which API a request came through.
type Endpoint uint8

// Endpoints.
const (
	EndpointChat        Endpoint = 1
	EndpointCompletions Endpoint = 2
	EndpointResponses   Endpoint = 3
)

// Outcome says how a request, or one of its choices, ended.
type Outcome uint8

// Outcomes.
const (
	OutcomeRunning Outcome = iota
	OutcomeStop
	OutcomeLength
	OutcomeToolCalls
	OutcomeClientAbort
	OutcomeServerError
	OutcomeRejected
	OutcomeDeadline
	OutcomeShutdown
	OutcomeSlowReader
	OutcomeDenied
	OutcomePluginError
	OutcomeCrashRecovered
)

// Flags are the frame's facts about a request.
type Flags uint32

// Flags. FlagMultiPrompt and FlagMultiTurn win over FlagMultiChoice.
const (
	FlagStream           Flags = 1 << 0
	FlagPartial          Flags = 1 << 1
	FlagMultiChoice      Flags = 1 << 2
	FlagMultiPrompt      Flags = 1 << 3
	FlagMultiTurn        Flags = 1 << 4
	FlagTimingUnknown    Flags = 1 << 5
	FlagTimingsWanted    Flags = 1 << 6
	FlagReplay           Flags = 1 << 7
	FlagSynthetic        Flags = 1 << 8
	FlagBatch            Flags = 1 << 9
	FlagUsageChunkWanted Flags = 1 << 10
)

// flagsSeveral are the flags under which the header's stamps belong to no
// single generation.
const flagsSeveral = FlagMultiChoice | FlagMultiPrompt | FlagMultiTurn

// EventKind says what an Event is about.
type EventKind uint16

// Event kinds. EventTokens is one engine step, with its time in
// microseconds in Aux; EventDraft has the accepted drafts in NumTokens and
// the drafted ones in Aux.
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

// Event is one entry of a request's history.
type Event struct {
	TimeNS      uint64 // since arrival
	Kind        EventKind
	Flags       uint16
	NumTokens   uint32
	BatchTokens uint32 // tokens computed in the whole step
	Aux         uint32
}

// Choice is the account of one choice of a request.
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

// Frame is what a plugin is told about one request. Stamps are nanoseconds
// since arrival by the monotonic clock; 0 means it never happened, so a real
// stamp is at least 1. A Frame is not changed by encoding it.
type Frame struct {
	Flags      Flags
	Endpoint   Endpoint
	Outcome    Outcome
	N          uint16 // choices asked for
	Prompts    uint16
	HTTPStatus uint16
	ToolCalls  uint16

	ArrivalUnixNS uint64

	PromptTokens       uint32
	CompletionTokens   uint32
	CachedPromptTokens uint32
	CacheWriteTokens   uint32
	ReasoningTokens    uint32
	ImageTokens        uint32
	AudioTokens        uint32
	DeliveredTokens    uint32
	RecomputedTokens   uint32
	Preemptions        uint32
	DraftedTokens      uint32
	AcceptedTokens     uint32
	MaxTokens          uint32
	Priority           int32
	SLOTTFTms          uint32 // 0 = none, as the next
	SLOTPOTms          uint32
	DeadlineMS         uint32

	QueuedNS     uint64
	ScheduledNS  uint64
	FirstTokenNS uint64
	LastTokenNS  uint64
	FinishedNS   uint64
	DeviceNS     uint64
	RecordSeq    uint64 // ledger sequence of the start record, 0 without a ledger

	// Strings, in the order of the string table.
	RequestID       string
	AttemptID       string
	ClientRequestID string
	Model           string
	Tenant          string
	KeyName         string
	Adapter         string
	ServiceTier     string
	UserHash        string
	IdempotencyKey  string
	Metadata        string // the request's, JSON
	ChainID         string
	Carry           string
	SpecJSON        string // acceptance statistics, a JSON object, or empty

	Choices  []Choice
	Events   []Event
	Document []byte
}

// Append appends the frame as hook sees it, with all its tables.
func (f *Frame) Append(dst []byte, hook Hook) []byte {
	return f.append(dst, hook, maskChoices|maskEvents|maskRequestBody|maskResponseBody)
}

// strings returns the string table in its fixed order.
func (f *Frame) strings() [stringCount]string {
	return [stringCount]string{
		f.RequestID, f.AttemptID, f.ClientRequestID, f.Model, f.Tenant, f.KeyName, f.Adapter,
		f.ServiceTier, f.UserHash, f.IdempotencyKey, f.Metadata, f.ChainID, f.Carry, f.SpecJSON,
	}
}

// layout is where the parts of a frame lie, in bytes from its start. A part
// that is left out has offset 0.
type layout struct {
	choices, events, strings, text, document int
	size                                     int
	table                                    [stringCount]string
}

// layout places header, choices, events, string table, text and document one
// after the other. Every part but the last two has a size divisible by 8, so
// the tables stay 8-aligned without padding.
func (f *Frame) layout(parts mask, l *layout) {
	*l = layout{size: headerSize, table: f.strings()}
	if parts&maskChoices != 0 && len(f.Choices) > 0 {
		l.choices = l.size
		l.size += len(f.Choices) * choiceStride
	}
	if parts&maskEvents != 0 && len(f.Events) > 0 {
		l.events = l.size
		l.size += len(f.Events) * eventStride
	}
	l.strings = l.size
	l.text = l.strings + stringCount*pairSize
	l.size = l.text
	for i := range l.table {
		l.size += len(l.table[i])
	}
	if parts&(maskRequestBody|maskResponseBody) != 0 && len(f.Document) > 0 {
		l.document = l.size
		l.size += len(f.Document)
	}
	if int64(l.size) > 1<<32-1 {
		// The caller bounds strings and tables long before this.
		panic(fmt.Sprintf("plugin: frame of %d bytes does not fit 32-bit offsets", l.size))
	}
}

// append appends the frame with the optional parts that are set in parts.
func (f *Frame) append(dst []byte, hook Hook, parts mask) []byte {
	var l layout
	f.layout(parts, &l)
	start := len(dst)
	dst = slices.Grow(dst, l.size)[:start+l.size]
	f.write(dst[start:], hook, &l)
	return dst
}

// write writes the frame over dst, whose length is that of the layout.
func (f *Frame) write(dst []byte, hook Hook, l *layout) {
	f.writeHeader((*[headerSize]byte)(dst), hook, l)
	at := headerSize
	if l.choices != 0 {
		for i := range f.Choices {
			f.Choices[i].write((*[choiceStride]byte)(dst[at:]))
			at += choiceStride
		}
	}
	if l.events != 0 {
		for i := range f.Events {
			f.Events[i].write((*[eventStride]byte)(dst[at:]))
			at += eventStride
		}
	}
	table := (*[stringCount * pairSize]byte)(dst[at:])
	at = l.text
	for i, s := range &l.table {
		pair := uint64(len(s))<<32 | uint64(at)
		if s == "" {
			pair = 0
		}
		binary.LittleEndian.PutUint64(table[i*pairSize:], pair)
		at += copy(dst[at:], s)
	}
	if l.document != 0 {
		at += copy(dst[at:], f.Document)
	}
	if at != len(dst) {
		panic(fmt.Sprintf("plugin: frame has %d bytes, its layout says %d", at, len(dst)))
	}
}

// writeHeader writes the header; offsets as in ABI.md.
func (f *Frame) writeHeader(h *[headerSize]byte, hook Hook, l *layout) {
	*h = [headerSize]byte{}
	le := binary.LittleEndian

	copy(h[0:], frameMagic)
	le.PutUint16(h[4:], headerSize)
	le.PutUint32(h[8:], uint32(f.Flags))
	h[12], h[13], h[14] = byte(f.Endpoint), byte(hook), byte(f.Outcome)
	le.PutUint16(h[16:], f.N)
	le.PutUint16(h[18:], f.Prompts)
	le.PutUint16(h[20:], f.HTTPStatus)
	le.PutUint16(h[22:], f.ToolCalls)
	le.PutUint64(h[24:], f.ArrivalUnixNS)
	le.PutUint32(h[32:], f.PromptTokens)
	le.PutUint32(h[36:], f.CompletionTokens)
	le.PutUint32(h[40:], f.CachedPromptTokens)
	le.PutUint32(h[44:], f.CacheWriteTokens)
	le.PutUint32(h[48:], f.ReasoningTokens)
	le.PutUint32(h[52:], f.ImageTokens)
	le.PutUint32(h[56:], f.AudioTokens)
	le.PutUint32(h[60:], f.DeliveredTokens)
	le.PutUint32(h[64:], f.RecomputedTokens)
	le.PutUint32(h[68:], f.Preemptions)
	le.PutUint32(h[72:], f.DraftedTokens)
	le.PutUint32(h[76:], f.AcceptedTokens)
	le.PutUint32(h[80:], f.MaxTokens)
	le.PutUint32(h[84:], uint32(f.Priority))
	le.PutUint32(h[88:], f.SLOTTFTms)
	le.PutUint32(h[92:], f.SLOTPOTms)
	le.PutUint32(h[96:], f.DeadlineMS)
	// With several generations in one answer no stamp is the request's own;
	// leaving them zero here keeps any plugin from publishing one.
	if hook != HookShape || f.Flags&flagsSeveral == 0 {
		le.PutUint64(h[104:], f.QueuedNS)
		le.PutUint64(h[112:], f.ScheduledNS)
		le.PutUint64(h[120:], f.FirstTokenNS)
		le.PutUint64(h[128:], f.LastTokenNS)
		le.PutUint64(h[136:], f.FinishedNS)
	}
	le.PutUint64(h[144:], f.DeviceNS)
	le.PutUint64(h[152:], f.RecordSeq)
	if l.events != 0 {
		le.PutUint32(h[160:], uint32(l.events))
		le.PutUint32(h[164:], uint32(len(f.Events)))
	}
	le.PutUint16(h[168:], eventStride)
	le.PutUint16(h[170:], choiceStride)
	if l.choices != 0 {
		le.PutUint32(h[172:], uint32(l.choices))
		le.PutUint32(h[176:], uint32(len(f.Choices)))
	}
	le.PutUint32(h[180:], uint32(l.strings))
	le.PutUint32(h[184:], stringCount)
	if l.document != 0 {
		le.PutUint32(h[188:], uint32(l.document))
		le.PutUint32(h[192:], uint32(len(f.Document)))
	}
}

func (e *Event) write(b *[eventStride]byte) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], e.TimeNS)
	le.PutUint16(b[8:], uint16(e.Kind))
	le.PutUint16(b[10:], e.Flags)
	le.PutUint32(b[12:], e.NumTokens)
	le.PutUint32(b[16:], e.BatchTokens)
	le.PutUint32(b[20:], e.Aux)
}

func (c *Choice) write(b *[choiceStride]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], c.Index)
	le.PutUint32(b[4:], c.PromptIndex)
	le.PutUint32(b[8:], uint32(c.FinishReason))
	le.PutUint32(b[12:], c.PromptTokens)
	le.PutUint32(b[16:], c.CachedTokens)
	le.PutUint32(b[20:], c.CompletionTokens)
	le.PutUint32(b[24:], c.ReasoningTokens)
	le.PutUint32(b[28:], c.DeliveredTokens)
	le.PutUint64(b[32:], c.QueuedNS)
	le.PutUint64(b[40:], c.ScheduledNS)
	le.PutUint64(b[48:], c.FirstTokenNS)
	le.PutUint64(b[56:], c.LastTokenNS)
	le.PutUint64(b[64:], c.DeviceNS)
	le.PutUint32(b[72:], c.Drafted)
	le.PutUint32(b[76:], c.Accepted)
	le.PutUint32(b[80:], c.SpecSteps)
	le.PutUint32(b[84:], 0)
}
