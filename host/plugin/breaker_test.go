package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// clockedBreaker is a breaker whose time stands still until it is moved.
func clockedBreaker() (b *breaker, pass func(time.Duration)) {
	moment := time.Unix(1000, 0)
	return &breaker{now: func() time.Time { return moment }}, func(d time.Duration) { moment = moment.Add(d) }
}

// A script of calls, one letter each: s succeeds, f fails, - must not be
// allowed.
func runBreaker(t *testing.T, b *breaker, script string) {
	t.Helper()
	for i, c := range script {
		if allowed := b.allow(); allowed == (c == '-') {
			t.Fatalf("call %d of %s: allowed %v, state %s", i, script, allowed, b.current())
		}
		if c != '-' {
			b.record(c == 'f')
		}
	}
}

func TestBreakerOpens(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"five in a row", "fffff-"},
		{"four in a row are few", "ffffsffffs"},
		{"a fifth of 50", strings.Repeat("ffsssssssssssssss", 3)[:40] + "fsssssssss" + "s"},
		{"ten of 50 are few", strings.Repeat("fssss", 20)},
		{"eleven of 50", strings.Repeat("fssss", 9) + "ffsss-"},
		{"eleven of fewer calls", strings.Repeat("fs", 20) + "ssssssssss-"},
		{"they leave the window", strings.Repeat("fssss", 10) + strings.Repeat("s", 50) + strings.Repeat("fssss", 10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := clockedBreaker()
			runBreaker(t, b, c.script)
		})
	}
}

func TestBreakerProbes(t *testing.T) {
	b, pass := clockedBreaker()
	runBreaker(t, b, "fffff--")
	for _, wait := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		pass(time.Duration(wait)*time.Second - 1)
		runBreaker(t, b, "--")
		pass(1)
		if !b.allow() || b.allow() || b.current() != BreakerProbing {
			t.Fatalf("after %d s: one probe is allowed, state %s", wait, b.current())
		}
		if !b.record(true) || b.current() != BreakerOpen {
			t.Fatalf("after a failed probe the state is %s", b.current())
		}
	}
	pass(time.Minute)
	runBreaker(t, b, "sssss"+"ffff")
	if b.current() != BreakerClosed {
		t.Errorf("after a probe that succeeded the state is %s", b.current())
	}
	runBreaker(t, b, "f-")
	pass(time.Second) // the first wait again
	runBreaker(t, b, "s")
}

// A call that began before the breaker opened doesn't count.
func TestBreakerLateEnds(t *testing.T) {
	b, pass := clockedBreaker()
	if !b.allow() {
		t.Fatal("a new breaker is open")
	}
	runBreaker(t, b, "fffff-")
	if b.record(false); b.current() != BreakerOpen {
		t.Errorf("a late success makes it %s", b.current())
	}
	pass(time.Second)
	runBreaker(t, b, "f-")
}

func TestBreakerOfPlugin(t *testing.T) {
	for _, policy := range []Policy{Open, Closed, Null} {
		b := newBench(t)
		moment := time.Unix(1000, 0)
		b.now = func() time.Time { return moment }
		p := b.mustLoad(t, goodGuest("").with(exportShape, opUnreachable), func(s *Spec) { s.OnError = policy })
		for range breakerInARow {
			shape(t, p)
		}
		if p.Breaker() != BreakerOpen {
			t.Fatalf("after %d traps the breaker is %s", breakerInARow, p.Breaker())
		}
		b.calls = nil
		members, err := shape(t, p)
		want := map[Policy]string{Open: "", Closed: "", Null: `"x_test":null`}[policy]
		if members != want || (err != nil) != (policy == Closed) || err != nil && failureOf(t, err) != FailureBreakerOpen {
			t.Errorf("%s: got %s, %v; want %s", policy, members, err, want)
		}
		if got := fmt.Sprint(b.calls[0].Failure); len(b.calls) != 1 || got != "breaker_open" {
			t.Errorf("%s: the observer got %+v", policy, b.calls)
		}
		finished := newChain(t, b.mustLoad(t, hookGuest(HookFinish, "x"), func(s *Spec) { s.Name = "f" })).Finish(context.Background(), &Frame{}, new(State))
		if len(finished.Failed) != 1 {
			t.Errorf("another plugin: got %+v", finished)
		}
		moment = moment.Add(breakerFirst)
		if shape(t, p); p.Breaker() != BreakerOpen || !strings.Contains(b.logged.String(), "state=open") {
			t.Errorf("after a failed probe the breaker is %s", p.Breaker())
		}
	}
}
