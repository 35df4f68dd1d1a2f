package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectShare is the garbage that a collection waits for, in percent of what
	// lives: half of Go's default, for the memory of many streams.
	collectShare = 50
	// collectLeast is the garbage in bytes that it waits for at least. A server
	// without many streams has a heap of a few megabytes, which it would collect
	// a hundred times a second.
	collectLeast = 32 << 20
)

// collector sets how much garbage the runtime waits for, anew after each
// collection. RATIONALE.md has the measurements: why is memory collected at half.
type collector struct {
	percent int // as set
}

// begin sets it for the first time and from then on.
func (c *collector) begin() {
	c.adjust()
	c.await()
}

// await has the next collection adjust, and wait for the one after: it frees the
// canary, which nothing holds.
func (c *collector) await() {
	canary := &struct{ _, _ *byte }{} // with pointers, so that it shares its block with nothing
	runtime.AddCleanup(canary, (*collector).begin, c)
}

func (c *collector) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := collectPercent(live[0].Value.Uint64())
	// Setting it stops the world for a moment: a little more or less is left.
	if percent > c.percent+c.percent/8 || percent < c.percent-c.percent/8 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// collectPercent is the garbage to wait for in percent of the bytes that live.
func collectPercent(live uint64) int {
	// The runtime takes a heap to have 4 MiB at least, also before it is collected
	// for the first time.
	const least = 4 << 20
	return int(max(collectShare, 100*collectLeast/max(live, least)))
}
