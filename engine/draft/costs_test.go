package draft

import (
	"math"
	"testing"
	"time"
)

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
	if got := new(Costs).Estimate(3); got != 0 {
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

func TestAcceptance(t *testing.T) {
	var a Acceptance
	if got := a.Rate(0.5, 0); got != 0.5 {
		t.Errorf("nothing tried: %v, want the prior, 0.5", got)
	}
	if got := a.Rate(0.5, 6); got != (1.0+6)/8 {
		t.Errorf("6 hits in hindsight: %v, want 7/8", got)
	}
	a.Observe(2, 1)
	// Two hits and a miss, each fading by 11/12: hits (1·11/12+1)·11/12.
	hits, trials := (11.0/12+1)*11/12, (11.0/12+1)*11/12+1
	if got, want := a.Rate(0.5, 0), (hits+1)/(trials+2); math.Abs(got-want) > 1e-12 {
		t.Errorf("2 hits and a miss: %v, want %v", got, want)
	}
	for range 100 {
		a.Observe(0, 1)
	}
	if got := a.Rate(0.5, 0); got > 0.1 {
		t.Errorf("100 misses: %v, want next to nothing", got)
	}
	var p Prior
	for range 1000 {
		p.Observe(3, 1)
	}
	if got := p.Rate(); math.Abs(got-0.75) > 0.01 {
		t.Errorf("3 of 4 come true: %v", got)
	}
}
