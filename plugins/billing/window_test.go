package main

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	night := window{from: 22 * 60, to: 6 * 60}
	fridays := window{from: 22 * 60, to: 6 * 60, days: []day{4}}
	evening := window{from: 18 * 60, to: 24 * 60}
	weekend := window{from: 0, to: 24 * 60, days: []day{5, 6}}
	// 2026-11-27 is a Friday: `date -d 2026-11-27 +%A`.
	for _, c := range []struct {
		name   string
		window window
		at     string
		want   bool
	}{
		{"night has not begun", night, "2026-11-27T21:59:59.999999999Z", false},
		{"night begins", night, "2026-11-27T22:00:00Z", true},
		{"after midnight", night, "2026-11-28T00:00:00Z", true},
		{"night's last moment", night, "2026-11-28T05:59:59.999999999Z", true},
		{"night is over", night, "2026-11-28T06:00:00Z", false},
		{"Friday's night", fridays, "2026-11-27T23:00:00Z", true},
		{"Friday's night on Saturday", fridays, "2026-11-28T05:00:00Z", true},
		{"Thursday's night on Friday", fridays, "2026-11-27T05:00:00Z", false},
		{"Saturday's night", fridays, "2026-11-28T23:00:00Z", false},
		{"until midnight", evening, "2026-11-27T23:59:59Z", true},
		{"not beyond", evening, "2026-11-28T00:00:00Z", false},
		{"Saturday", weekend, "2026-11-28T00:00:00Z", true},
		{"Sunday's end", weekend, "2026-11-29T23:59:59Z", true},
		{"Monday", weekend, "2026-11-30T00:00:00Z", false},
		{"the first day of Unix time, a Thursday", window{from: 0, to: 60, days: []day{3}}, "1970-01-01T00:30:00Z", true},
		{"the night into it", window{from: 23 * 60, to: 60, days: []day{2}}, "1970-01-01T00:30:00Z", true},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.window.open(uint64(at.UnixNano())); got != c.want {
			t.Errorf("%s, %s: open is %v, want %v", c.name, c.at, got, c.want)
		}
	}
}

// openTwin looks for a day on which a window began that contains the time.
func openTwin(w *window, at time.Time) bool {
	for _, back := range []int{0, 1} {
		midnight := time.Date(at.Year(), at.Month(), at.Day()-back, 0, 0, 0, 0, time.UTC)
		begins := len(w.days) == 0
		for _, d := range w.days {
			begins = begins || midnight.Weekday() == time.Weekday((d+1)%7)
		}
		from, to := midnight.Add(time.Duration(w.from)*time.Minute), midnight.Add(time.Duration(w.to)*time.Minute)
		if w.to <= w.from {
			to = to.Add(24 * time.Hour)
		}
		if begins && !at.Before(from) && at.Before(to) {
			return true
		}
	}
	return false
}

// FuzzWindow compares windows with the standard library's calendar.
func FuzzWindow(f *testing.F) {
	f.Add(uint16(1320), uint16(360), uint8(16), uint64(1_795_820_400_000_000_000))
	f.Add(uint16(0), uint16(1440), uint8(0), uint64(0))
	f.Fuzz(func(t *testing.T, from, to uint16, days uint8, at uint64) {
		w := window{from: uint32(from) % minutesPerDay, to: uint32(to) % (minutesPerDay + 1)}
		for d := range day(7) {
			if days&(1<<d) != 0 {
				w.days = append(w.days, d)
			}
		}
		at %= 1 << 62
		if w.from == w.to {
			return // refused by the configuration
		}
		when := time.Unix(0, int64(at)).UTC()
		if got, want := w.open(at), openTwin(&w, when); got != want {
			t.Errorf("%d … %d on %v, at %s: open is %v, want %v", w.from, w.to, w.days, when, got, want)
		}
	})
}
