package openai

import "github.com/go-json-experiment/json/jsontext"

// Usage counts the tokens of a request, summed over its choices; the prompt counts once.
type Usage struct {
	Prompt     int
	Completion int
	Cached     int    // prompt tokens that came from the prefix cache
	CacheWrite int    // prompt tokens that were put into it
	Reasoning  int    // output tokens spent on reasoning
	Details    bool   // whether a chat or completions usage says prompt_tokens_details
	Extra      []byte // members to add, such as `"cost":1`, without a comma around
}

// append appends the usage of chat and completions.
func (u *Usage) append(dst []byte) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = appendInt(dst, u.Prompt)
	dst = append(dst, `,"total_tokens":`...)
	dst = appendInt(dst, u.Prompt+u.Completion)
	dst = append(dst, `,"completion_tokens":`...)
	dst = appendInt(dst, u.Completion)
	if u.Details {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = appendInt(dst, u.Cached)
		dst = append(dst, '}')
	}
	dst = appendExtra(dst, u.Extra)
	return append(dst, '}')
}

// appendResponses appends the usage of Responses, whose details are required (the openai package asks for
// cache_write_tokens, too).
func (u *Usage) appendResponses(dst []byte) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = appendInt(dst, u.Prompt)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = appendInt(dst, u.Cached)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = appendInt(dst, u.CacheWrite)
	dst = append(dst, `},"output_tokens":`...)
	dst = appendInt(dst, u.Completion)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = appendInt(dst, u.Reasoning)
	dst = append(dst, `},"total_tokens":`...)
	dst = appendInt(dst, u.Prompt+u.Completion)
	dst = appendExtra(dst, u.Extra)
	return append(dst, '}')
}

// appendExtra splices ready members behind others.
func appendExtra(dst, extra []byte) []byte {
	if len(extra) == 0 {
		return dst
	}
	dst = append(dst, ',')
	return append(dst, extra...)
}

// StreamOptions is what a streaming request says about usage.
type StreamOptions struct {
	IncludeUsage    bool
	ContinuousUsage bool // usage on every chunk; only together with IncludeUsage

	given bool // whether the member was there at all
}

func (o *StreamOptions) decode(d *decoder, v jsontext.Value) {
	o.given = true
	d.object("stream_options", v, func(name string, v jsontext.Value) {
		switch name {
		case "include_usage":
			o.IncludeUsage = d.bool("stream_options.include_usage", v)
		case "continuous_usage_stats":
			o.ContinuousUsage = d.bool("stream_options.continuous_usage_stats", v)
		}
	})
}

// ForceUsage is the server's setting to send usage in streams that did not ask for it.
type ForceUsage uint8

// The settings of ForceUsage.
const (
	ForceOff        ForceUsage = iota
	ForceFinal                 // the final usage chunk
	ForceContinuous            // that, and usage on every chunk
)

// UsageGate says where a stream of chat or completions carries usage.
type UsageGate struct {
	Final      bool // on a last chunk of its own
	Continuous bool // on every chunk
}

// Gate decides by what the client asked and the server forces. Forcing adds to what was asked, it never takes away.
func (o StreamOptions) Gate(force ForceUsage) UsageGate {
	return UsageGate{
		Final:      o.IncludeUsage || force != ForceOff,
		Continuous: o.IncludeUsage && o.ContinuousUsage || force == ForceContinuous,
	}
}
