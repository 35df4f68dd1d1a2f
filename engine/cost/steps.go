// Package cost keeps what the steps of an engine take, for those who decide what
// to put into one. It knows numbers of rows and times only.
package cost

import (
	"math/bits"
	"time"
)

// Steps estimates what a step of so many rows takes, from the steps that were:
// a running mean by the number of rows, and straight lines between. Measured and
// not assumed, since it depends on the model, the device, and on who else
// computes there. The zero value knows nothing.
type Steps struct {
	points [numPoints]point
	steps  uint64 // observed so far
}

// point is what is known of the steps of a range of row counts.
type point struct {
	rows, time float64 // means; time in seconds
	last       uint64  // the step that was observed last
}

const (
	// exactRows have a point each; above, an octave has four.
	exactRows = 16
	numPoints = exactRows + 4*27
	// memory is the number of steps that a mean remembers, about.
	memory = 8
	// stale is the number of steps after which a point is forgotten: what was slow
	// once may have been so because of a neighbour.
	stale = 512
)

// Observe counts a step.
func (s *Steps) Observe(rows int, took time.Duration) {
	s.steps++
	p := &s.points[pointOf(rows)]
	r, t := float64(rows), took.Seconds()
	if !s.known(p) {
		*p = point{r, t, s.steps}
		return
	}
	p.rows += (r - p.rows) / memory
	p.time += (t - p.time) / memory
	p.last = s.steps
}

func pointOf(rows int) int {
	if rows <= exactRows {
		return max(rows, 1) - 1
	}
	octave := bits.Len(uint(rows)) - 1 // of 16 … 31 it is 4
	quarter := rows >> (octave - 2) & 3
	return min(exactRows+4*(octave-4)+quarter, numPoints-1)
}

func (s *Steps) known(p *point) bool { return p.last > 0 && s.steps-p.last <= stale }

// Bounded tells whether a step of as many rows, or fewer, is known.
func (s *Steps) Bounded(rows int) bool {
	for i := range s.points[:pointOf(rows)+1] {
		if s.known(&s.points[i]) {
			return true
		}
	}
	return false
}

// Estimate is the time of a step of so many rows, in seconds: between two known
// points on the line through them, beyond all of them the nearest one's, and 0
// when nothing is known. An unknown step is thought cheap, so that it is tried.
func (s *Steps) Estimate(rows int) float64 {
	r := float64(rows)
	var below, above *point
	for i := range s.points {
		p := &s.points[i]
		switch {
		case !s.known(p):
		case p.rows <= r:
			below = p
		case above == nil:
			above = p
		}
	}
	switch {
	case below == nil && above == nil:
		return 0
	case below == nil:
		return above.time
	case above == nil:
		return below.time
	}
	return below.time + (above.time-below.time)*(r-below.rows)/(above.rows-below.rows)
}

// Most is the number of rows of a step that takes so long: on the lines that
// Estimate draws, where they first cross it, and beyond the last known point on
// the line through the first and the last one, since what a step costs whatever
// its rows says nothing of more of them. 0 when nothing is known.
func (s *Steps) Most(target time.Duration) int {
	const any = 1 << 30
	t := target.Seconds()
	var before, first, last point
	for i := range s.points {
		p := &s.points[i]
		if !s.known(p) {
			continue
		}
		if p.time >= t {
			return int(before.rows + (p.rows-before.rows)*(t-before.time)/(p.time-before.time))
		}
		if p.time > before.time {
			before = *p
		}
		if first.rows == 0 {
			first = *p
		}
		last = *p
	}
	if last.rows == first.rows { // of one point or none
		return int(min(2*last.rows, any))
	}
	more := (t - last.time) * (last.rows - first.rows)
	if rise := last.time - first.time; more < rise*any {
		return int(last.rows + more/rise)
	}
	return any
}

// Least is the time of the smallest step that is known, 0 when nothing is.
func (s *Steps) Least() time.Duration {
	for i := range s.points {
		if p := &s.points[i]; s.known(p) {
			return time.Duration(p.time * float64(time.Second))
		}
	}
	return 0
}
