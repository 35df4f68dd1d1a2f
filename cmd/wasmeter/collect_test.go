package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestCollectPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 800}, // no collection yet: 32 MiB all the same
		{1 << 20, 800},
		{16 << 20, 200},
		{32 << 20, 100},
		{64 << 20, 50}, // half of it is as much as is waited for at least
		{1 << 30, 50},
		{1 << 62, 50},
	} {
		if got := collectPercent(c.live); got != c.want {
			t.Errorf("%d bytes live: got %d percent, want %d", c.live, got, c.want)
		}
	}
}

// Each collection sets it anew, so that what lives at the time counts.
func TestCollectorFollows(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	new(collector).begin()
	held := make([]byte, 256<<20)
	for begun := time.Now(); percent() != collectShare; runtime.Gosched() {
		if runtime.GC(); time.Since(begun) > 10*time.Second {
			t.Fatalf("%d percent with 256 MiB held, want %d", percent(), collectShare)
		}
	}
	runtime.KeepAlive(held)
	held = nil
	for begun := time.Now(); percent() <= collectShare; runtime.Gosched() {
		if runtime.GC(); time.Since(begun) > 10*time.Second {
			t.Fatalf("%d percent with nothing held, want more than %d", percent(), collectShare)
		}
	}
}
