package plugin

import "fmt"

// Isolation says what a call may leave in an instance for the next call,
// which may be another tenant's.
type Isolation uint8

// Isolations. By the ABI calls are independent, so the difference is only
// what a guest that breaks this, or is broken into, can do.
const (
	Pooled Isolation = iota // the memory stays as it is
	Reset                   // the memory becomes what it was after init
	Fresh                   // each call has an instance of its own
)

// ParseIsolation reads an isolation as it stands in a configuration.
func ParseIsolation(text string) (Isolation, error) {
	switch text {
	case "pooled":
		return Pooled, nil
	case "reset":
		return Reset, nil
	case "fresh":
		return Fresh, nil
	}
	return Pooled, fmt.Errorf("isolation: %q is unknown; use pooled, reset or fresh", text)
}

// String gives the isolation as it stands in a configuration.
func (i Isolation) String() string {
	switch i {
	case Reset:
		return "reset"
	case Fresh:
		return "fresh"
	}
	return "pooled"
}
