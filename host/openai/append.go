package openai

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD: a document that is not JSON would lose the
// whole answer for one odd byte.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the only error is invalid UTF-8, replaced by then
	return dst
}

// appendStringOrNull appends null for the empty string.
func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }

// appendIntOrNull appends null for a value that is not there.
func appendIntOrNull(dst []byte, n Opt[int]) []byte {
	if !n.Set {
		return append(dst, "null"...)
	}
	return appendInt(dst, n.Value)
}

// minLogprob stands for minus infinity, which JSON lacks. OpenAI and vLLM send the same number.
const minLogprob = -9999

// appendLogprob appends a logarithm of a probability. It has float32 precision, so fewer digits say all.
func appendLogprob(dst []byte, p float32) []byte {
	if math.IsNaN(float64(p)) || p < minLogprob {
		p = minLogprob
	}
	return jsontext.AppendFloat(dst, float64(p), 32)
}

// appendValue appends a decoded JSON value, or otherwise if there was none.
func appendValue(dst []byte, v jsontext.Value, otherwise string) []byte {
	if len(v) == 0 {
		return append(dst, otherwise...)
	}
	return append(dst, v...)
}

func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }
