package plugin

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A plugin may log this many lines at once, and so many a second after that.
const (
	logBurst  = 50
	logPerSec = 10
)

// lineLimiter is a token bucket that counts what it turns away.
type lineLimiter struct {
	mu      sync.Mutex // guards the fields below
	tokens  float64
	filled  time.Time
	dropped int
}

func newLineLimiter() *lineLimiter {
	return &lineLimiter{tokens: logBurst, filled: time.Now()}
}

// allow reports whether a line may be written, and how many were not since
// the last that was.
func (l *lineLimiter) allow() (dropped int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	moment := time.Now()
	l.tokens = min(logBurst, l.tokens+moment.Sub(l.filled).Seconds()*logPerSec)
	l.filled = moment
	if l.tokens < 1 {
		l.dropped++
		return 0, false
	}
	l.tokens--
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

// logLevels are the levels of the import log, 0 to 3.
var logLevels = [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// log writes one line of the guest. text may be a view of guest memory.
func (in *instance) log(ctx context.Context, level slog.Level, text []byte) {
	starting := in.plugin.pool == nil
	dropped, allowed := in.plugin.spoken.allow()
	if !allowed && !starting {
		return // before the line is copied: a guest may write half a million a second
	}
	line := strings.ToValidUTF8(strings.TrimSpace(string(text[:min(len(text), maxLogLine)])), "\uFFFD")
	if starting {
		in.words = line
	}
	if allowed {
		attributes := []any{"text", line}
		if in.hook != 0 {
			attributes = append(attributes, "hook", in.hook.String(), "request_id", in.requestID, "attempt_id", in.attemptID)
		}
		in.plugin.logger.Log(ctx, level, "plugin log", append(attributes, "dropped", dropped)...)
	}
}

// say takes what the guest writes to stderr. It is kept until the call ends
// or a line's worth is full, since a runtime that panics writes its message
// in many small pieces. It returns how much was taken.
func (in *instance) say(ctx context.Context, text []byte) int {
	if len(in.said) == maxLogLine {
		in.flushSaid(ctx)
	}
	taken := min(len(text), maxLogLine-len(in.said))
	in.said = append(in.said, text[:taken]...)
	return taken
}

// flushSaid logs what the guest wrote to stderr.
func (in *instance) flushSaid(ctx context.Context) {
	if len(in.said) == 0 {
		return
	}
	if in.hook != 0 && in.plugin.grants.confined() {
		// A runtime's last words may quote a body. Init has seen none.
		in.said = append(in.said[:0], "what it wrote to stderr is not shown: it may read bodies, and grants.content_egress is false"...)
	}
	in.log(ctx, slog.LevelWarn, in.said)
	in.said = in.said[:0]
}
