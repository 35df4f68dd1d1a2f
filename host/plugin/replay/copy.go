package replay

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Keep says what a copy keeps of what clients wrote.
type Keep struct {
	// Metadata is the request's own JSON.
	Metadata bool
	// ClientIDs are the x-request-id and the idempotency key that a client chose.
	ClientIDs bool
}

// Copied is what Copy has done.
type Copied struct {
	Requests int `json:"requests"`
	// Skipped are those that the filter left out.
	Skipped int `json:"skipped"`
	// TornBytes is the length of a last line that was cut off.
	TornBytes int       `json:"torn_bytes"`
	First     time.Time `json:"first,omitzero"`
	Last      time.Time `json:"last,omitzero"`
}

// Copy writes the frames that the filter covers to a file, a line each, until
// from or ctx ends. Each frame is written anew from what is known of it, so
// that nothing else that stood on its line or in its bytes comes along.
func Copy(ctx context.Context, to io.Writer, from *Reader, filter Filter, keep Keep) (Copied, error) {
	var done Copied
	out := bufio.NewWriterSize(to, 64<<10)
	var bytes, line []byte
	for ctx.Err() == nil {
		frame, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return done, errors.Join(err, out.Flush())
		}
		if !filter.covers(frame) {
			done.Skipped++
			continue
		}
		strip(frame, keep)
		bytes = frame.Append(bytes[:0], plugin.HookFinish)
		line = append(line[:0], `{"frame":"`...)
		line = append(base64.StdEncoding.AppendEncode(line, bytes), "\"}\n"...)
		if _, err := out.Write(line); err != nil {
			return done, fmt.Errorf("write frames: %w", err)
		}
		done.count(arrival(frame))
		if from.lines.Buffered() == 0 { // a live ledger may have no more for hours
			if err := out.Flush(); err != nil {
				return done, fmt.Errorf("write frames: %w", err)
			}
		}
	}
	done.TornBytes = from.Torn()
	if err := out.Flush(); err != nil {
		return done, fmt.Errorf("write frames: %w", err)
	}
	return done, nil
}

func (c *Copied) count(at time.Time) {
	c.Requests++
	if c.First.IsZero() || at.Before(c.First) {
		c.First = at
	}
	if at.After(c.Last) {
		c.Last = at
	}
}

// strip takes out of a frame what could hold a prompt or an answer: documents,
// what plugins carried from them, and all that a client may write as it likes.
func strip(f *plugin.Frame, keep Keep) {
	f.Document, f.Carry = nil, ""
	if !keep.Metadata {
		f.Metadata = ""
	}
	if !keep.ClientIDs {
		if f.ClientRequestID != "" && f.RequestID == f.ClientRequestID {
			f.RequestID = "" // the server took the client's own; attempt_id finds it
		}
		f.ClientRequestID, f.IdempotencyKey = "", ""
	}
	if !isTier(f.ServiceTier) {
		f.ServiceTier = ""
	}
}

// isTier reports whether a client's service tier is a plain word, which prices
// may depend on.
func isTier(tier string) bool {
	const longest = 32
	for i := range len(tier) {
		if c := tier[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(tier) <= longest
}
