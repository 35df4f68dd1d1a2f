package plugin

import (
	"errors"
	"sync"
	"time"
)

// When a breaker opens, and for how long: plugins that keep failing cost
// every request their time and their instances.
const (
	breakerInARow  = 5                // failures that open it
	breakerWindow  = 50               // calls of which more than
	breakerPercent = 20               // of a hundred failures open it
	breakerFirst   = time.Second      // how long it is open at first,
	breakerLongest = 60 * time.Second // doubling up to this
)

var errBreakerOpen = errors.New("it failed too often and is left alone for a while")

// BreakerState is what a breaker lets pass.
type BreakerState uint8

// Breaker states.
const (
	BreakerClosed  BreakerState = iota // every call
	BreakerOpen                        // none
	BreakerProbing                     // one, whose end decides
)

// String gives the state as a word.
func (s BreakerState) String() string {
	switch s {
	case BreakerOpen:
		return "open"
	case BreakerProbing:
		return "probing"
	}
	return "closed"
}

// breaker leaves a plugin alone that fails too often.
type breaker struct {
	now   func() time.Time
	never bool // it opens: whoever runs the plugin wants to know of each failure

	mu       sync.Mutex // guards the fields below
	state    BreakerState
	row      int                 // failures since the last success
	recent   [breakerWindow]bool // the last calls, true for a failure
	calls    int                 // of recent; at is the oldest once it is full
	at       int
	failures int           // in recent
	wait     time.Duration // of the opening under way, or of the last
	until    time.Time     // while open
}

// allow reports whether a call may be made. After it record must be called.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == BreakerClosed {
		return true
	}
	if b.state == BreakerOpen && !b.now().Before(b.until) {
		b.state = BreakerProbing
		return true
	}
	return false
}

// record takes the end of a call that was allowed, and reports whether it
// opened or closed the breaker.
func (b *breaker) record(failed bool) (turned bool) {
	if b.never {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state == BreakerProbing && failed:
		b.wait = min(2*b.wait, breakerLongest)
		b.open()
		return true
	case b.state == BreakerProbing:
		b.state, b.row, b.recent, b.calls, b.at, b.failures = BreakerClosed, 0, [breakerWindow]bool{}, 0, 0, 0
		return true
	case b.state == BreakerOpen:
		return false // it was under way when another opened it
	}
	b.count(failed)
	if b.row < breakerInARow && (b.calls < breakerWindow || b.failures*100 <= breakerWindow*breakerPercent) {
		return false
	}
	b.wait = breakerFirst
	b.open()
	return true
}

func (b *breaker) open() {
	b.state = BreakerOpen
	b.until = b.now().Add(b.wait)
}

func (b *breaker) count(failed bool) {
	if b.recent[b.at] {
		b.failures--
	}
	b.recent[b.at] = failed
	b.at = (b.at + 1) % breakerWindow
	b.calls = min(b.calls+1, breakerWindow)
	b.row++
	if failed {
		b.failures++
	} else {
		b.row = 0
	}
}

func (b *breaker) current() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}
