package main

import (
	"strconv"
	"strings"

	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// The values of the configuration, and what is allowed there.

// money is an amount in micro-units of the currency.
func money(to *uint64, most uint64, each string) settings.Value {
	return settings.Uint(to, 0, most).Saying(", in millionths of the currency " + each + ": 2500000 is 2.50; a fraction or a text would be rounded by somebody")
}

const mostPays = 100_000

func pays(to *uint64) settings.Value {
	return settings.Uint(to, 0, mostPays).Saying(", in basis points of the price: 10000 is all of it, 5000 half, 15000 half as much again")
}

const (
	mostText  = 64
	mostModel = 256
)

func text(to *string) settings.Value {
	return settings.Text(to, "a text of 1 to 64 printable characters", func(s string) bool { return isPrintable(s, mostText) })
}

// model names one, or all that begin so.
func model(to *string) settings.Value {
	return settings.Text(to, "the name of a model, or a beginning and *; all other models stand in default", func(s string) bool {
		return isPrintable(s, mostModel) && s != "*" && !strings.Contains(s[:len(s)-1], "*")
	})
}

func models(to *matches) settings.Value {
	return settings.List((*[]string)(to), mostMatches, model)
}

// clock is a time of the day, in minutes.
func clock(to *uint32) settings.Value {
	var as string
	return settings.Text(&as, "a time in UTC, 00:00 … 24:00", func(s string) bool {
		hour, minute, _ := strings.Cut(s, ":")
		h, hourErr := strconv.ParseUint(hour, 10, 8)
		m, minuteErr := strconv.ParseUint(minute, 10, 8)
		*to = uint32(h*60 + m)
		return len(hour) == 2 && len(minute) == 2 && hourErr == nil && minuteErr == nil && m < 60 && *to <= minutesPerDay
	})
}

func isCurrency(s string) bool {
	return len(s) >= 3 && len(s) <= 8 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// isTier: a service tier that a replay keeps, though a client has chosen it.
func isTier(s string) bool {
	const longest = 32
	return s != "" && len(s) <= longest && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isHeader: the name of a response header, or none.
func isHeader(s string) bool {
	name, found := strings.CutPrefix(s, "x-")
	return s == "" || found && name != "" && len(s) <= mostText && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func isPrintable(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool { return !strconv.IsPrint(c) })
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
