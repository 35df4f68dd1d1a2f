package openai

// Stream writes the chunks of one streamed chat or completions response, each as a whole SSE event. What its chunks have in
// common is prepared once, so that a token costs its own bytes.
//
// A choice's chunks come in the order Role (chat only), Text, Finish; after the last choice Usage if the gate says Final, then
// AppendDone. Used by one goroutine.
type Stream struct {
	gate        UsageGate
	head        []byte // through `"choices":[{"index":`
	bare        []byte // through `"choices":[`
	textKey     string // between the index and the text
	textEnd     string // behind the text, before logprobs
	fingerprint string
	offsets     []int // characters sent of each choice, for completions' text_offset; nil for chat
}

// StreamOpening is what all chunks of a stream say.
type StreamOpening struct {
	ID          string // with its prefix
	Model       string
	Created     int64 // Unix seconds
	Fingerprint string
	Choices     int // in all: n times the number of prompts
	Gate        UsageGate
}

// Chunk is a piece of a choice.
type Chunk struct {
	Index    int
	Text     string
	Logprobs []TokenLogprob // nil if not asked for
	Usage    *Usage         // so far; needed if the gate says Continuous
}

// NewChatStream starts a stream of chat completion chunks.
func NewChatStream(o StreamOpening) *Stream {
	s := newStream(o, "chat.completion.chunk")
	s.textKey, s.textEnd = `,"delta":{"content":`, `},"logprobs":`
	return s
}

// NewCompletionStream starts a stream of text completion chunks.
func NewCompletionStream(o StreamOpening) *Stream {
	s := newStream(o, "text_completion")
	s.textKey, s.textEnd = `,"text":`, `,"logprobs":`
	s.offsets = make([]int, o.Choices)
	return s
}

func newStream(o StreamOpening, object string) *Stream {
	bare := appendHead([]byte("data: "), o.ID, object, o.Created, o.Model)
	head := append(bare[:len(bare):len(bare)], `{"index":`...)
	return &Stream{gate: o.Gate, head: head, bare: bare, fingerprint: o.Fingerprint}
}

// AppendRole appends a chat choice's first chunk, which names the role.
func (s *Stream) AppendRole(dst []byte, index int, usage *Usage) []byte {
	dst = append(dst, s.head...)
	dst = appendInt(dst, index)
	dst = append(dst, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	return s.appendEnd(dst, usage)
}

// AppendText appends a chunk with text.
func (s *Stream) AppendText(dst []byte, c *Chunk) []byte {
	dst = s.appendText(dst, c)
	dst = append(dst, `,"finish_reason":null}]`...)
	return s.appendEnd(dst, c.Usage)
}

// AppendFinish appends a choice's last chunk, with the text that was held back until then, if any.
func (s *Stream) AppendFinish(dst []byte, c *Chunk, reason FinishReason, stop string) []byte {
	if s.offsets == nil && c.Text == "" && c.Logprobs == nil {
		dst = append(dst, s.head...)
		dst = appendInt(dst, c.Index)
		dst = append(dst, `,"delta":{},"logprobs":null`...)
	} else {
		dst = s.appendText(dst, c)
	}
	dst = appendFinish(dst, reason, stop)
	dst = append(dst, ']')
	if !s.gate.Final {
		return s.appendFingerprinted(dst, c.Usage, nil)
	}
	return s.appendEnd(dst, c.Usage)
}

// AppendUsage appends the chunk behind all choices, which has the sums and the plugins' members.
func (s *Stream) AppendUsage(dst []byte, usage *Usage, extra []byte) []byte {
	dst = append(dst, s.bare...)
	dst = append(dst, `],"usage":`...)
	dst = usage.append(dst)
	return s.appendFingerprinted(dst, nil, extra)
}

func (s *Stream) appendText(dst []byte, c *Chunk) []byte {
	dst = append(dst, s.head...)
	dst = appendInt(dst, c.Index)
	dst = append(dst, s.textKey...)
	dst = appendString(dst, c.Text)
	dst = append(dst, s.textEnd...)
	switch {
	case s.offsets == nil:
		return appendChatLogprobs(dst, c.Logprobs)
	case c.Logprobs == nil:
		return append(dst, "null"...)
	}
	dst, s.offsets[c.Index] = appendCompletionLogprobs(dst, c.Logprobs, s.offsets[c.Index])
	return dst
}

// appendEnd closes a chunk behind its choices. A stream that has a usage chunk says null elsewhere, as OpenAI does.
func (s *Stream) appendEnd(dst []byte, usage *Usage) []byte {
	return append(s.appendRunning(dst, usage), "}\n\n"...)
}

func (s *Stream) appendRunning(dst []byte, usage *Usage) []byte {
	switch {
	case s.gate.Continuous && usage != nil:
		dst = append(dst, `,"usage":`...)
		return usage.append(dst)
	case s.gate.Final:
		return append(dst, `,"usage":null`...)
	}
	return dst
}

// appendFingerprinted closes the last chunk of a choice or of the stream.
func (s *Stream) appendFingerprinted(dst []byte, usage *Usage, extra []byte) []byte {
	if usage != nil {
		dst = s.appendRunning(dst, usage)
	}
	dst = append(dst, `,"system_fingerprint":`...)
	dst = appendStringOrNull(dst, s.fingerprint)
	dst = appendExtra(dst, extra)
	return append(dst, "}\n\n"...)
}

// AppendErrorEvent appends an error in the midst of a stream. Clients know it by its key, so it replaces the choices.
func AppendErrorEvent(dst []byte, e *Error) []byte {
	dst = append(dst, "data: "...)
	dst = AppendError(dst, e)
	return append(dst, "\n\n"...)
}

// AppendDone appends the end of a chat or completions stream.
func AppendDone(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }
