package engine

import (
	"bytes"
	"strings"

	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// text turns a sequence's tokens into the text that a reader may see. Text that
// could be the beginning of a stop string is held back until it is decided, so
// no part of a stop string ever leaves.
type text struct {
	decoder *tokenizer.Decoder
	stops   []string
	// include leaves the stop string in the text.
	include bool
	// held is decoded text not yet decided.
	held []byte
}

func newText(r *Request, t *tokenizer.Tokenizer) text {
	return text{decoder: tokenizer.NewDecoder(t), stops: r.Stop, include: r.IncludeStop}
}

// push decodes a token. It appends to dst what is decided and returns the stop
// string that the text has reached, if any: then everything is decided and
// nothing may be pushed any more. Where several stop strings end with the same
// token, the one that begins first wins, then the longer one.
func (t *text) push(dst []byte, id int32) (out []byte, stop string) {
	t.held = t.decoder.AppendPush(t.held, id)
	return t.decide(dst)
}

// flush decides everything: no more tokens come. No stop string is left in what
// is held, since push has looked.
func (t *text) flush(dst []byte) []byte {
	dst = append(dst, t.held...)
	dst = append(dst, t.decoder.Flush()...)
	t.held = t.held[:0]
	return dst
}

// release decodes a token and decides everything without looking for stop
// strings.
func (t *text) release(dst []byte, id int32) []byte {
	t.held = t.decoder.AppendPush(t.held, id)
	dst = append(dst, t.held...)
	t.held = t.held[:0]
	return dst
}

func (t *text) decide(dst []byte) ([]byte, string) {
	at, stop := -1, ""
	for _, s := range t.stops {
		i := bytes.Index(t.held, []byte(s))
		if i >= 0 && (at < 0 || i < at || i == at && len(s) > len(stop)) {
			at, stop = i, s
		}
	}
	if at >= 0 {
		if t.include {
			at += len(stop)
		}
		dst = append(dst, t.held[:at]...)
		t.held = t.held[:0]
		return dst, stop
	}
	keep := 0
	for _, s := range t.stops {
		keep = max(keep, overlap(t.held, s))
	}
	cut := len(t.held) - keep
	dst = append(dst, t.held[:cut]...)
	t.held = t.held[:copy(t.held, t.held[cut:])]
	return dst, ""
}

// overlap is the length of the longest end of held that s begins with, less
// than the whole of s.
func overlap(held []byte, s string) int {
	for n := min(len(held), len(s)-1); n > 0; n-- {
		if strings.HasPrefix(s, string(held[len(held)-n:])) {
			return n
		}
	}
	return 0
}
