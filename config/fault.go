package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	// Origin is where the bad value was given.
	Origin Origin
	// Key is the dotted name it is about, "" for the file as a whole.
	Key string
	// Reason says what was found and what is allowed.
	Reason string
}

func (f *Fault) Error() string {
	var b strings.Builder
	if f.Origin.Layer != LayerDefault {
		b.WriteString(f.Origin.String() + ": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	return b.String() + f.Reason
}

// maxFaults bounds a report: a file of the wrong kind is all faults.
const maxFaults = 20

// faultList collects faults in the order in which they are found.
type faultList struct {
	faults []error // *Fault each
	more   int
}

func (l *faultList) add(origin Origin, key, format string, args ...any) {
	if len(l.faults) >= maxFaults {
		l.more++
		return
	}
	l.faults = append(l.faults, &Fault{Origin: origin, Key: key, Reason: fmt.Sprintf(format, args...)})
}

// err joins the faults, those of the file by line, or is nil.
func (l *faultList) err() error {
	slices.SortStableFunc(l.faults, func(a, b error) int {
		x, y := a.(*Fault).Origin, b.(*Fault).Origin
		return cmp.Or(cmp.Compare(x.Layer, y.Layer), cmp.Compare(x.Line, y.Line))
	})
	if l.more > 0 {
		return errors.Join(append(l.faults, fmt.Errorf("and %d faults more", l.more))...)
	}
	return errors.Join(l.faults...)
}
