package openai

// ResponseStream writes the events of one streamed response. The order is Start, Item, any number of Delta, End; a response that
// fails ends with End at any point. Sequence numbers rise by one from 0. Used by one goroutine.
type ResponseStream struct {
	response *Response
	sequence int
	afterKey []byte // of a delta: behind its text
}

// NewResponseStream starts the stream of a response that is in progress.
func NewResponseStream(r *Response) *ResponseStream {
	after := append([]byte(nil), `,"item_id":`...)
	after = appendString(after, r.ItemID)
	return &ResponseStream{response: r, afterKey: append(after, `,"logprobs":`...)}
}

// AppendStart appends response.created and response.in_progress.
func (s *ResponseStream) AppendStart(dst []byte) []byte {
	dst = s.appendResponse(dst, "response.created")
	return s.appendResponse(dst, "response.in_progress")
}

// AppendItem appends response.output_item.added and response.content_part.added.
func (s *ResponseStream) AppendItem(dst []byte) []byte {
	dst = appendEvent(dst, "response.output_item.added")
	dst = append(dst, `{"item":`...)
	dst = s.response.appendItem(dst)
	dst = append(dst, `,"output_index":0`...)
	dst = s.appendEnd(dst, "response.output_item.added")

	dst = appendEvent(dst, "response.content_part.added")
	dst = s.appendPlace(append(dst, '{'))
	dst = append(dst, `,"part":`...)
	dst = s.response.appendPart(dst)
	return s.appendEnd(dst, "response.content_part.added")
}

// AppendDelta appends a piece of the text.
func (s *ResponseStream) AppendDelta(dst []byte, text string, logprobs []TokenLogprob) []byte {
	dst = append(dst, "event: response.output_text.delta\ndata: {\"content_index\":0,\"delta\":"...)
	dst = appendString(dst, text)
	dst = append(dst, s.afterKey...)
	dst = appendLogprobs(dst, logprobs)
	dst = append(dst, `,"output_index":0`...)
	return s.appendEnd(dst, "response.output_text.delta")
}

// AppendEnd appends the end of text, part and item, and the terminal event, which holds the response with its usage. One that
// failed has the terminal event alone. The response's status is no longer in progress.
func (s *ResponseStream) AppendEnd(dst []byte) []byte {
	r := s.response
	if r.Status != ResponseFailed {
		dst = appendEvent(dst, "response.output_text.done")
		dst = append(dst, `{"content_index":0`...)
		dst = append(dst, s.afterKey...)
		dst = appendLogprobs(dst, r.Logprobs)
		dst = s.appendSequence(append(dst, `,"output_index":0`...))
		dst = append(dst, `,"text":`...)
		dst = appendString(dst, r.Text)
		dst = appendType(dst, "response.output_text.done")

		dst = appendEvent(dst, "response.content_part.done")
		dst = s.appendPlace(append(dst, '{'))
		dst = append(dst, `,"part":`...)
		dst = r.appendPart(dst)
		dst = s.appendEnd(dst, "response.content_part.done")

		dst = appendEvent(dst, "response.output_item.done")
		dst = append(dst, `{"item":`...)
		dst = r.appendItem(dst)
		dst = append(dst, `,"output_index":0`...)
		dst = s.appendEnd(dst, "response.output_item.done")
	}
	return s.appendResponse(dst, "response."+string(r.Status))
}

func (s *ResponseStream) appendResponse(dst []byte, kind string) []byte {
	dst = appendEvent(dst, kind)
	dst = append(dst, `{"response":`...)
	dst = AppendResponse(dst, s.response)
	return s.appendEnd(dst, kind)
}

// appendEvent appends what stands before an event's data.
func appendEvent(dst []byte, kind string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, kind...)
	return append(dst, "\ndata: "...)
}

// appendPlace appends where in the output an event belongs.
func (s *ResponseStream) appendPlace(dst []byte) []byte {
	dst = append(dst, `"content_index":0,"item_id":`...)
	dst = appendString(dst, s.response.ItemID)
	return append(dst, `,"output_index":0`...)
}

// appendEnd closes an event's data with its number and name.
func (s *ResponseStream) appendEnd(dst []byte, kind string) []byte {
	return appendType(s.appendSequence(dst), kind)
}

func (s *ResponseStream) appendSequence(dst []byte) []byte {
	dst = append(dst, `,"sequence_number":`...)
	dst = appendInt(dst, s.sequence)
	s.sequence++
	return dst
}

func appendType(dst []byte, kind string) []byte {
	dst = append(dst, `,"type":"`...)
	dst = append(dst, kind...)
	return append(dst, "\"}\n\n"...)
}
