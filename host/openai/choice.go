package openai

// FinishReason says why a choice ended, in the API's words.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
	FinishAbort  FinishReason = "abort" // ended by the server; vLLM's word
)

// Choice is one finished alternative of a chat or completions response.
type Choice struct {
	Index    int
	Text     string
	Finish   FinishReason
	Stop     string         // the stop string that ended it, if one did
	Logprobs []TokenLogprob // nil if not asked for: null
}

// Completed is a finished response of chat or completions, not streamed.
type Completed struct {
	ID          string // with its prefix, chatcmpl- or cmpl-
	Model       string
	Created     int64 // Unix seconds
	Fingerprint string
	Choices     []Choice
	Usage       Usage
	Extra       []byte // members to add at the top level, such as `"metrics":null`, without a comma around
}

func (c *Completed) appendHead(dst []byte, object string) []byte {
	return appendHead(dst, c.ID, object, c.Created, c.Model)
}

func (c *Completed) appendTail(dst []byte) []byte {
	dst = append(dst, `],"service_tier":"default","system_fingerprint":`...)
	dst = appendStringOrNull(dst, c.Fingerprint)
	dst = append(dst, `,"usage":`...)
	dst = c.Usage.append(dst)
	dst = appendExtra(dst, c.Extra)
	return append(dst, '}')
}

// appendHead appends what the documents and chunks of chat and completions begin with, through the opening of choices.
func appendHead(dst []byte, id, object string, created int64, model string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = appendInt(dst, int(created))
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, model)
	return append(dst, `,"choices":[`...)
}

// appendFinish appends the end of a choice, through its closing brace. The stop string is vLLM's addition.
func appendFinish(dst []byte, reason FinishReason, stop string) []byte {
	dst = append(dst, `,"finish_reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, `","stop_reason":`...)
	dst = appendStringOrNull(dst, stop)
	return append(dst, '}')
}

// AppendChat appends the body of a chat completion.
func AppendChat(dst []byte, c *Completed) []byte {
	dst = c.appendHead(dst, "chat.completion")
	for i := range c.Choices {
		choice := &c.Choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = appendInt(dst, choice.Index)
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		dst = appendString(dst, choice.Text)
		dst = append(dst, `,"refusal":null,"annotations":[]},"logprobs":`...)
		dst = appendChatLogprobs(dst, choice.Logprobs)
		dst = appendFinish(dst, choice.Finish, choice.Stop)
	}
	return c.appendTail(dst)
}

func appendChatLogprobs(dst []byte, tokens []TokenLogprob) []byte {
	if tokens == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":`...)
	dst = appendLogprobs(dst, tokens)
	return append(dst, `,"refusal":null}`...)
}

// AppendCompletion appends the body of a text completion.
func AppendCompletion(dst []byte, c *Completed) []byte {
	dst = c.appendHead(dst, "text_completion")
	for i := range c.Choices {
		choice := &c.Choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = appendInt(dst, choice.Index)
		dst = append(dst, `,"text":`...)
		dst = appendString(dst, choice.Text)
		dst = append(dst, `,"logprobs":`...)
		if choice.Logprobs == nil {
			dst = append(dst, "null"...)
		} else {
			dst, _ = appendCompletionLogprobs(dst, choice.Logprobs, 0)
		}
		dst = appendFinish(dst, choice.Finish, choice.Stop)
	}
	return c.appendTail(dst)
}
