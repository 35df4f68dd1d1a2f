package main

// window is a span of the calendar, in UTC, that a limit counts in.
type window uint8

// Windows.
const (
	minute window = iota
	hour
	day
	month
)

var windowNames = []string{minute: "minute", hour: "hour", day: "day", month: "month"}

const (
	nsPerSecond = 1_000_000_000
	secsPerDay  = 86_400
)

// span gives the window that holds a moment, in Unix seconds: from its first
// second to the one after its last.
func (w window) span(unixSeconds uint64) (start, end uint64) {
	var length uint64
	switch w {
	case minute:
		length = 60
	case hour:
		length = 3_600
	case day:
		length = secsPerDay
	case month:
		return monthOf(unixSeconds)
	}
	start = unixSeconds - unixSeconds%length
	return start, start + length
}

// monthOf gives the month that holds a moment. Days are counted from 1 March of
// the year 0, so that the leap day ends a year and the months before it have
// lengths that repeat: 153 days in five of them. See "chrono-Compatible
// Low-Level Date Algorithms" by Howard Hinnant, civil_from_days.
func monthOf(unixSeconds uint64) (start, end uint64) {
	const (
		toUnix = 719_468 // days from 0000-03-01 to 1970-01-01
		perEra = 146_097 // days in 400 years
	)
	today := unixSeconds/secsPerDay + toUnix
	dayOfEra := today % perEra
	yearOfEra := (dayOfEra - dayOfEra/1_460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	monthOfYear := (5*dayOfYear + 2) / 153 // 0 is March
	first := (153*monthOfYear + 2) / 5     // the day of the year that it begins with
	next := (153*(monthOfYear+1) + 2) / 5
	if february := uint64(11); monthOfYear == february {
		next = 365 + leap(yearOfEra+1)
	}
	start = (today - dayOfYear + first - toUnix) * secsPerDay
	return start, start + (next-first)*secsPerDay
}

// leap is 1 if the year, counted from that of an era's beginning, has a 29
// February, else 0.
func leap(year uint64) uint64 {
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 1
	}
	return 0
}
