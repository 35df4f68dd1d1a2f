package main

import "slices"

// window is a time of the week, in UTC, with other prices. A request belongs to
// the window in which it arrived, however long it runs.
type window struct {
	name     string
	from, to uint32 // minutes of the day; a window with to not after from ends on the next day
	days     []day  // on which it begins, none for every day
	pays     uint64 // basis points of the price
	models   matches
}

const minutesPerDay = 24 * 60

// day is a day of the week, 0 for Monday.
type day uint8

var dayNames = [7]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// open reports whether the window is open at that time.
func (w *window) open(unixNS uint64) bool {
	minutes := unixNS / 60_000_000_000
	minute, day := uint32(minutes%minutesPerDay), minutes/minutesPerDay
	today := w.begins(day)
	if w.from < w.to {
		return today && w.from <= minute && minute < w.to
	}
	return today && w.from <= minute || w.begins(day+6) && minute < w.to // six days on is the day before
}

// begins reports whether the window begins on a day, counted from 1970-01-01,
// which was a Thursday.
func (w *window) begins(unixDay uint64) bool {
	return len(w.days) == 0 || slices.Contains(w.days, day((unixDay+3)%7))
}
