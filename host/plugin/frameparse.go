package plugin

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ParseFrame reads a frame that Append has written, or a later minor version
// of the ABI: what that has more than this one is left out. It trusts no
// offset and no count, and what it gives shares nothing with b.
func ParseFrame(b []byte) (*Frame, error) {
	if len(b) < headerSize || string(b[:len(frameMagic)]) != frameMagic {
		return nil, fmt.Errorf("%d bytes that are no frame; one begins with %s and has a header of at least %d bytes", len(b), frameMagic, headerSize)
	}
	if n := int(binary.LittleEndian.Uint16(b[4:])); n < headerSize || n > len(b) {
		return nil, fmt.Errorf("frame of %d bytes says that its header has %d; that is at least %d", len(b), n, headerSize)
	}
	f := new(Frame)
	f.parseHeader(b)
	r := frameReader{frame: b}
	le := binary.LittleEndian
	r.table("events", le.Uint32(b[160:]), le.Uint32(b[164:]), le.Uint16(b[168:]), eventStride, func(record []byte) {
		f.Events = append(f.Events, parseEvent(record))
	})
	r.table("choices", le.Uint32(b[172:]), le.Uint32(b[176:]), le.Uint16(b[170:]), choiceStride, func(record []byte) {
		f.Choices = append(f.Choices, parseChoice(record))
	})
	r.strings(f, le.Uint32(b[180:]), le.Uint32(b[184:]))
	f.Document = append(f.Document, r.part("document", le.Uint32(b[188:]), uint64(le.Uint32(b[192:])))...)
	return f, r.err
}

// parseHeader reads the first 256 bytes; offsets as in ABI.md.
func (f *Frame) parseHeader(h []byte) {
	le := binary.LittleEndian
	f.Flags = Flags(le.Uint32(h[8:]))
	f.Endpoint, f.Outcome = Endpoint(h[12]), Outcome(h[14])
	for at, field := range [...]*uint16{&f.N, &f.Prompts, &f.HTTPStatus, &f.ToolCalls} {
		*field = le.Uint16(h[16+2*at:])
	}
	f.ArrivalUnixNS = le.Uint64(h[24:])
	for at, field := range [...]*uint32{
		&f.PromptTokens, &f.CompletionTokens, &f.CachedPromptTokens, &f.CacheWriteTokens, &f.ReasoningTokens, &f.ImageTokens,
		&f.AudioTokens, &f.DeliveredTokens, &f.RecomputedTokens, &f.Preemptions, &f.DraftedTokens, &f.AcceptedTokens, &f.MaxTokens,
	} {
		*field = le.Uint32(h[32+4*at:])
	}
	f.Priority = int32(le.Uint32(h[84:]))
	for at, field := range [...]*uint32{&f.SLOTTFTms, &f.SLOTPOTms, &f.DeadlineMS} {
		*field = le.Uint32(h[88+4*at:])
	}
	for at, field := range [...]*uint64{&f.QueuedNS, &f.ScheduledNS, &f.FirstTokenNS, &f.LastTokenNS, &f.FinishedNS, &f.DeviceNS, &f.RecordSeq} {
		*field = le.Uint64(h[104+8*at:])
	}
}

// frameReader finds the parts of a frame. After the first error it finds
// nothing.
type frameReader struct {
	frame []byte
	err   error
}

// part gives size bytes from offset.
func (r *frameReader) part(name string, offset uint32, size uint64) []byte {
	if r.err != nil || size == 0 {
		return nil
	}
	if uint64(offset) < headerSize || uint64(offset)+size > uint64(len(r.frame)) {
		r.err = fmt.Errorf("%s of the frame: %d bytes at %d are not inside its %d bytes, behind the header", name, size, offset, len(r.frame))
		return nil
	}
	return r.frame[offset:][:size]
}

// table calls use with each record of a table.
func (r *frameReader) table(name string, offset, count uint32, stride, least uint16, use func(record []byte)) {
	if count > 0 && stride < least {
		r.err = errors.Join(r.err, fmt.Errorf("%s of the frame: records of %d bytes; they have at least %d", name, stride, least))
	}
	all := r.part(name, offset, uint64(count)*uint64(stride))
	for len(all) > 0 {
		use(all[:least])
		all = all[stride:]
	}
}

// strings reads the string table. Together the strings are no longer than the
// frame: a frame in which they share bytes could stand for many times its size.
func (r *frameReader) strings(f *Frame, offset, count uint32) {
	fields := [stringCount]*string{
		&f.RequestID, &f.AttemptID, &f.ClientRequestID, &f.Model, &f.Tenant, &f.KeyName, &f.Adapter,
		&f.ServiceTier, &f.UserHash, &f.IdempotencyKey, &f.Metadata, &f.ChainID, &f.Carry, &f.SpecJSON,
	}
	pairs := r.part("string table", offset, uint64(count)*pairSize)
	total := 0
	for i := range min(len(fields), len(pairs)/pairSize) {
		pair := pairs[i*pairSize:]
		text := r.part("a string", binary.LittleEndian.Uint32(pair), uint64(binary.LittleEndian.Uint32(pair[4:])))
		if total += len(text); total > len(r.frame) {
			r.err = fmt.Errorf("strings of the frame are longer than its %d bytes: they lie over each other", len(r.frame))
			return
		}
		*fields[i] = string(text)
	}
}

func parseEvent(b []byte) Event {
	le := binary.LittleEndian
	return Event{
		TimeNS: le.Uint64(b), Kind: EventKind(le.Uint16(b[8:])), Flags: le.Uint16(b[10:]),
		NumTokens: le.Uint32(b[12:]), BatchTokens: le.Uint32(b[16:]), Aux: le.Uint32(b[20:]),
	}
}

func parseChoice(b []byte) Choice {
	le := binary.LittleEndian
	return Choice{
		Index: le.Uint32(b), PromptIndex: le.Uint32(b[4:]), FinishReason: Outcome(le.Uint32(b[8:])),
		PromptTokens: le.Uint32(b[12:]), CachedTokens: le.Uint32(b[16:]), CompletionTokens: le.Uint32(b[20:]),
		ReasoningTokens: le.Uint32(b[24:]), DeliveredTokens: le.Uint32(b[28:]),
		QueuedNS: le.Uint64(b[32:]), ScheduledNS: le.Uint64(b[40:]), FirstTokenNS: le.Uint64(b[48:]),
		LastTokenNS: le.Uint64(b[56:]), DeviceNS: le.Uint64(b[64:]),
		Drafted: le.Uint32(b[72:]), Accepted: le.Uint32(b[76:]), SpecSteps: le.Uint32(b[80:]),
	}
}
