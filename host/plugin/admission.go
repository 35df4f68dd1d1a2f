package plugin

import "math"

// Admission is what plugins say of how a request waits and how long it may
// take.
type Admission struct {
	// Priority ranks the request, the lower one first; it stands in the place of
	// the client's if Ranked.
	Priority int32
	Ranked   bool
	// DeadlineMS counts from the request's arrival; 0 is none.
	DeadlineMS uint32
}

// admission reads the member of a request's result that sets a priority or a
// deadline.
func (r *resultReader) admission(name string) error {
	if !r.rules.grants.Admission {
		return denied("%q is not granted; set grants.admission: true", name)
	}
	a := &r.into.admission
	if name == "priority" {
		n, err := r.integer(name, math.MinInt32, math.MaxInt32)
		a.Priority, a.Ranked = int32(n), true
		return err
	}
	n, err := r.integer(name, 0, math.MaxUint32)
	a.DeadlineMS = uint32(n)
	return err
}

// show puts what was said so far into the frame of those that come after.
func (a *Admission) show(f *Frame) {
	if a.Ranked {
		f.Priority = a.Priority
	}
	f.DeadlineMS = a.DeadlineMS
}
