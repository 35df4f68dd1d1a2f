package openai

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// TokenLogprob is an output token with its log probability and the likeliest alternatives.
type TokenLogprob struct {
	Text    string // the token's bytes; they need not be UTF-8
	Logprob float32
	Unknown bool // the first token of an echoed prompt has no log probability: null
	Top     []TopLogprob
}

// TopLogprob is an alternative to a token, likeliest first.
type TopLogprob struct {
	Text    string
	Logprob float32
}

// appendLogprobs appends the entries of chat and Responses, as a list.
func appendLogprobs(dst []byte, tokens []TokenLogprob) []byte {
	dst = append(dst, '[')
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendToken(dst, tokens[i].Text, tokens[i].Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for j, top := range tokens[i].Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(dst, top.Text, top.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// appendToken appends an entry without its closing brace. The bytes are exact where the token's text cannot be.
func appendToken(dst []byte, text string, logprob float32) []byte {
	dst = append(dst, `{"token":`...)
	dst = appendString(dst, text)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, logprob)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(text[i]), 10)
	}
	return append(dst, ']')
}

// appendCompletionLogprobs appends the object of /v1/completions, whose texts begin at offset, in characters of the whole
// choice. It returns the offset behind them.
func appendCompletionLogprobs(dst []byte, tokens []TokenLogprob, offset int) ([]byte, int) {
	dst = append(dst, `{"text_offset":[`...)
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, offset)
		offset += utf8.RuneCountInString(tokens[i].Text) // an odd byte counts as the one U+FFFD that it becomes
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		if tokens[i].Unknown {
			dst = append(dst, "null"...)
		} else {
			dst = appendLogprob(dst, tokens[i].Logprob)
		}
	}
	dst = append(dst, `],"tokens":[`...)
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, tokens[i].Text)
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		if tokens[i].Unknown {
			dst = append(dst, "null"...)
		} else {
			dst = appendTopLogprobs(dst, tokens[i].Top)
		}
	}
	return append(dst, "]}"...), offset
}

// appendTopLogprobs appends alternatives as an object with the texts as keys. Keys must differ: a text that is not UTF-8 is
// spelled out as OpenAI does, and of equal ones (control tokens have the empty text) the likeliest stands.
func appendTopLogprobs(dst []byte, top []TopLogprob) []byte {
	dst = append(dst, '{')
	for i, t := range top {
		if slices.ContainsFunc(top[:i], func(u TopLogprob) bool { return u.Text == t.Text }) {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if utf8.ValidString(t.Text) {
			dst = appendString(dst, t.Text)
		} else {
			dst = append(dst, `"bytes:`...)
			for j := range len(t.Text) {
				const hex = "0123456789abcdef"
				dst = append(dst, '\\', '\\', 'x', hex[t.Text[j]>>4], hex[t.Text[j]&15])
			}
			dst = append(dst, '"')
		}
		dst = append(dst, ':')
		dst = appendLogprob(dst, t.Logprob)
	}
	return append(dst, '}')
}
