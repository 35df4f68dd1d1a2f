package cost

import (
	"math"
	"testing"
	"time"
)

// measured has seen steps of these times.
func measured(times map[int]time.Duration) *Steps {
	c := &Steps{}
	for rows, took := range times {
		c.Observe(rows, took)
	}
	return c
}

func TestEstimate(t *testing.T) {
	c := measured(map[int]time.Duration{2: 10 * time.Millisecond, 6: 30 * time.Millisecond, 400: time.Second})
	for _, x := range []struct {
		rows int
		want float64
	}{
		{1, 0.010}, {2, 0.010}, {3, 0.015}, {4, 0.020}, {6, 0.030}, {203, 0.515}, {400, 1}, {5000, 1},
	} {
		if got := c.Estimate(x.rows); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%d rows: got %v s, want %v", x.rows, got, x.want)
		}
	}
	if got := new(Steps).Estimate(3); got != 0 {
		t.Errorf("nothing known: got %v, want 0", got)
	}
}

// TestEstimateFollows: the estimate moves to what steps take, and forgets what
// was once slow.
func TestEstimateFollows(t *testing.T) {
	c := measured(map[int]time.Duration{1: time.Millisecond, 5: 50 * time.Millisecond})
	for range 60 {
		c.Observe(1, 2*time.Millisecond)
	}
	if got := c.Estimate(1); math.Abs(got-0.002) > 1e-6 {
		t.Errorf("after many steps of 2 ms: got %v s", got)
	}
	if got := c.Estimate(5); got != 0.05 {
		t.Errorf("a step that was slow: got %v s, want 0.05", got)
	}
	for range stale {
		c.Observe(1, 2*time.Millisecond)
	}
	if got := c.Estimate(5); math.Abs(got-0.002) > 1e-6 {
		t.Errorf("a step that was slow once: got %v s, want the nearest known, 0.002", got)
	}
}

// TestPoints: every number of rows has its place, and more rows a later one.
func TestPoints(t *testing.T) {
	last := -1
	for rows := 0; rows < 1<<20; rows++ {
		p := pointOf(rows)
		if p < last || p > last+1 || p >= numPoints {
			t.Fatalf("%d rows are at point %d, fewer at %d", rows, p, last)
		}
		last = p
	}
}
