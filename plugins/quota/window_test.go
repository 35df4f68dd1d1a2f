package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Spans are those of the standard library's calendar.
func TestSpan(t *testing.T) {
	check := func(at time.Time) {
		t.Helper()
		at = at.UTC()
		y, m, d := at.Date()
		for w, begin := range map[window]time.Time{
			minute: at.Truncate(time.Minute),
			hour:   at.Truncate(time.Hour),
			day:    time.Date(y, m, d, 0, 0, 0, 0, time.UTC),
			month:  time.Date(y, m, 1, 0, 0, 0, 0, time.UTC),
		} {
			next := map[window]time.Time{
				minute: begin.Add(time.Minute), hour: begin.Add(time.Hour), day: begin.AddDate(0, 0, 1), month: begin.AddDate(0, 1, 0),
			}[w]
			if start, end := w.span(uint64(at.Unix())); int64(start) != begin.Unix() || int64(end) != next.Unix() {
				t.Errorf("the %s of %s: got %s … %s, want %s … %s", windowNames[w], at.Format(time.RFC3339),
					time.Unix(int64(start), 0).UTC(), time.Unix(int64(end), 0).UTC(), begin, next)
			}
		}
	}
	// Each month of 900 years: its first and last second.
	for at := time.Unix(0, 0).UTC(); at.Year() < 2870; at = at.AddDate(0, 1, 0) {
		check(at)
		check(at.AddDate(0, 1, 0).Add(-time.Second))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		check(time.Unix(r.Int64N(1<<40), 0))
	}
}
