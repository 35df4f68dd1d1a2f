package openai

import "github.com/go-json-experiment/json/jsontext"

// ResponseStatus says how far a response is. The terminal event of a stream is named after it.
type ResponseStatus string

// The statuses of a response.
const (
	ResponseInProgress ResponseStatus = "in_progress"
	ResponseCompleted  ResponseStatus = "completed"
	ResponseIncomplete ResponseStatus = "incomplete" // cut off, see Response.Incomplete
	ResponseFailed     ResponseStatus = "failed"     // see Response.Err
)

// Response is the resource of /v1/responses with one message as its output.
type Response struct {
	Request     *ResponsesRequest // repeated in part; its absent sampling values read as OpenAI's defaults
	ID          string            // with its prefix, resp_
	ItemID      string            // of the message, with its prefix, msg_
	CreatedAt   int64             // Unix seconds
	CompletedAt int64             // Unix seconds; 0 is null
	Status      ResponseStatus
	Incomplete  string // why it was cut off: max_output_tokens or content_filter
	Err         *Error // why it failed
	Text        string
	Logprobs    []TokenLogprob
	Usage       *Usage // nil until the end: null
	Extra       []byte // members to add at the top level, such as `"metrics":null`, without a comma around
}

// AppendResponse appends the resource. All 31 keys that the Open Responses schema requires are there, null or not.
func AppendResponse(dst []byte, r *Response) []byte {
	q := r.Request
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, r.ID)
	dst = append(dst, `,"created_at":`...)
	dst = appendInt(dst, int(r.CreatedAt))
	dst = append(dst, `,"incomplete_details":`...)
	dst = r.appendIncomplete(dst)
	dst = append(dst, `,"instructions":`...)
	if q.Instructions.Set {
		dst = appendString(dst, q.Instructions.Value)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"metadata":`...)
	dst = appendValue(dst, q.Metadata, "{}")
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, q.Model)
	dst = append(dst, `,"object":"response","output":[`...)
	if r.Status == ResponseCompleted || r.Status == ResponseIncomplete || r.Text != "" {
		dst = r.appendItem(dst)
	}
	dst = append(dst, `],"parallel_tool_calls":`...)
	dst = appendBool(dst, q.ParallelToolCalls)
	dst = append(dst, `,"temperature":`...)
	dst = jsontext.AppendFloat(dst, q.Temperature.Or(1), 64)
	dst = append(dst, `,"tool_choice":`...)
	dst = appendValue(dst, q.ToolChoice, `"auto"`)
	dst = append(dst, `,"tools":`...)
	dst = appendValue(dst, q.Tools, "[]")
	dst = append(dst, `,"top_p":`...)
	dst = jsontext.AppendFloat(dst, q.TopP.Or(1), 64)
	dst = append(dst, `,"background":false,"max_output_tokens":`...)
	dst = appendIntOrNull(dst, q.MaxTokens)
	dst = append(dst, `,"max_tool_calls":`...)
	dst = appendIntOrNull(dst, q.MaxToolCalls)
	dst = append(dst, `,"previous_response_id":`...)
	dst = appendStringOrNull(dst, q.PreviousResponseID)
	dst = append(dst, `,"reasoning":null,"service_tier":"default","status":"`...)
	dst = append(dst, r.Status...)
	dst = append(dst, `","text":{"format":{"type":"text"}},"top_logprobs":`...)
	dst = appendInt(dst, q.Logprobs.Or(0))
	dst = append(dst, `,"truncation":"disabled","usage":`...)
	if r.Usage == nil {
		dst = append(dst, "null"...)
	} else {
		dst = r.Usage.appendResponses(dst)
	}
	dst = append(dst, `,"user":`...)
	dst = appendStringOrNull(dst, q.User)
	dst = appendExtra(dst, r.Extra)
	dst = append(dst, `,"presence_penalty":`...)
	dst = jsontext.AppendFloat(dst, q.PresencePenalty.Or(0), 64)
	dst = append(dst, `,"frequency_penalty":`...)
	dst = jsontext.AppendFloat(dst, q.FrequencyPenalty.Or(0), 64)
	return r.appendRest(dst)
}

// appendRest appends the keys that vLLM does not send.
func (r *Response) appendRest(dst []byte) []byte {
	dst = append(dst, `,"completed_at":`...)
	dst = appendIntOrNull(dst, Opt[int]{int(r.CompletedAt), r.CompletedAt != 0})
	dst = append(dst, `,"error":`...)
	if r.Err == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"code":"`...)
		dst = append(dst, r.failure()...)
		dst = append(dst, `","message":`...)
		dst = appendString(dst, r.Err.Message)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"store":false,"safety_identifier":`...)
	dst = appendStringOrNull(dst, r.Request.SafetyIdentifier)
	dst = append(dst, `,"prompt_cache_key":`...)
	dst = appendStringOrNull(dst, r.Request.PromptCacheKey)
	return append(dst, '}')
}

// failure is the error's code. Clients know a closed list of them.
func (r *Response) failure() string {
	switch {
	case r.Err.Status == 429:
		return "rate_limit_exceeded"
	case r.Err.Status < 500:
		return "invalid_prompt"
	}
	return "server_error"
}

func (r *Response) appendIncomplete(dst []byte) []byte {
	if r.Status != ResponseIncomplete {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"reason":`...)
	dst = appendString(dst, r.Incomplete)
	return append(dst, '}')
}

// appendItem appends the output message.
func (r *Response) appendItem(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, r.ItemID)
	dst = append(dst, `,"content":[`...)
	if r.Status != ResponseInProgress {
		dst = r.appendPart(dst)
	}
	dst = append(dst, `],"role":"assistant","status":"`...)
	switch r.Status {
	case ResponseFailed:
		dst = append(dst, ResponseIncomplete...)
	default:
		dst = append(dst, r.Status...)
	}
	return append(dst, `","type":"message"}`...)
}

// appendPart appends the message's text. Log probabilities that were not asked for are an empty list: null is against the schema.
func (r *Response) appendPart(dst []byte) []byte {
	dst = append(dst, `{"annotations":[],"text":`...)
	dst = appendString(dst, r.Text)
	dst = append(dst, `,"type":"output_text","logprobs":`...)
	dst = appendLogprobs(dst, r.Logprobs)
	return append(dst, '}')
}
