package draft

import (
	"math"
	"testing"
)

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
