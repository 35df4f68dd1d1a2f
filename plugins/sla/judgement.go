package main

import (
	"math/bits"

	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// dimension is what a promise is about.
type dimension uint8

// Dimensions. Those of time come first.
const (
	ttft  dimension = iota // from arrival to the first token, so that waiting counts
	tpot                   // the mean time of each token after the first
	total                  // from arrival to the last token
	numTimes

	availability dimension = iota - 1 // that there is an answer at all
	numDimensions
)

var (
	dimensionNames = [numDimensions]string{ttft: "ttft", tpot: "tpot", total: "total", availability: "availability"}
	millisNames    = [numTimes]string{ttft: "ttft_ms", tpot: "tpot_ms", total: "total_ms"}
)

// verdict is what is said of a request.
type verdict uint8

const (
	met verdict = iota
	missed
	excluded // its end is nobody's fault, or the client's
	unknown  // the server takes no times
	numVerdicts
)

var verdictNames = [numVerdicts]string{met: "met", missed: "missed", excluded: "excluded", unknown: "unknown"}

const nsPerMS = 1_000_000

// span is a time of ns/over nanoseconds; over is 0 where there was nothing to
// measure.
type span struct{ ns, over uint64 }

// beyond reports whether the time is above a target: exactly the target is met.
func (s span) beyond(ms uint64) bool {
	// ns > ms · 10^6 · over; a target is below 2^27 ms and over below 2^32, so the
	// product has 128 bits.
	high, low := bits.Mul64(ms*nsPerMS, s.over)
	return s.over > 0 && high == 0 && s.ns > low
}

// above reports whether the time is longer than another.
func (s span) above(other span) bool {
	high, low := bits.Mul64(s.ns, other.over)
	otherHigh, otherLow := bits.Mul64(other.ns, s.over)
	return high > otherHigh || high == otherHigh && low > otherLow
}

// judgement is what a request was promised and what it got.
type judgement struct {
	service *service
	place   int // of the class among all
	// targets are those that count, in milliseconds, 0 for none; of these the
	// request brought, which earn no credit.
	targets  targets
	brought  [numTimes]bool
	measured [numTimes]span // the worst of all choices
	missed   [numDimensions]bool
	verdict  verdict
}

// judge compares a request with its targets. Without any target there is nothing
// to say, and ok is false.
func (o *config) judge(r wasmeter.Request) (j judgement, ok bool) {
	for j.place = range o.numServices() {
		if j.service = o.service(j.place); j.place == len(o.services) || j.service.Covers(r) {
			break
		}
	}
	j.targets = j.service.targets
	if !o.ignore {
		for d, ms := range [numTimes]uint32{ttft: r.SLOTTFTms(), tpot: r.SLOTPOTms(), total: r.DeadlineMS()} {
			if j.targets[d] == 0 && ms > 0 {
				j.targets[d], j.brought[d] = uint64(ms), true
			}
		}
	}
	if j.targets == (targets{}) {
		return j, false
	}
	group := outcome.GroupOf(r.Outcome())
	treatment := o.endings[group]
	if treatment == exclude {
		j.verdict = excluded
		return j, true
	}
	timed := !r.Flags().Any(wasmeter.TimingUnknown)
	whole := true // each target has a time to be compared with
	if timed {
		whole = j.measure(r, group == outcome.Complete)
	}
	j.missed[availability] = treatment == miss
	switch {
	case j.numMissed() > 0:
		j.verdict = missed
	case !timed:
		j.verdict = unknown
	case !whole:
		j.verdict = excluded // it ended before it could miss
	}
	return j, true
}

// measure takes the times of all choices and compares the worst with the
// targets. A time that was not reached before the request was cut off is at
// least as long as the request. whole is false if that leaves something open.
func (j *judgement) measure(r wasmeter.Request, complete bool) (whole bool) {
	cutOff, open := span{r.FinishedNS(), 1}, [numTimes]bool{total: !complete}
	worst := func(d dimension, s span) {
		if s.above(j.measured[d]) || j.measured[d].over == 0 {
			j.measured[d] = s
		}
	}
	for c := range r.Choices() {
		first, last, tokens := c.FirstTokenNS, c.LastTokenNS, c.CompletionTokens
		if first == 0 {
			open[ttft], open[tpot] = !complete, !complete
			continue
		}
		worst(ttft, span{first, 1})
		if last < first {
			continue
		}
		if tokens > 1 {
			worst(tpot, span{last - first, uint64(tokens - 1)})
		}
		if complete {
			worst(total, span{last, 1})
		}
	}
	whole = true
	for d, ms := range j.targets {
		if ms == 0 {
			continue
		}
		reached := open[d] && dimension(d) != tpot && cutOff.beyond(ms)
		j.missed[d] = j.measured[d].beyond(ms) || reached
		whole = whole && !open[d]
	}
	return whole
}

// numMissed counts the dimensions that were missed.
func (j *judgement) numMissed() (n uint64) {
	for _, is := range j.missed {
		if is {
			n++
		}
	}
	return n
}

// worth is what the request is credited, in micro-units of the currency or
// percent of its price. Targets that the request brought earn nothing, or anyone
// could promise himself a nanosecond.
func (j *judgement) worth() (micro, percent uint64) {
	n := j.numMissed()
	for d := range j.brought {
		if j.brought[d] && j.missed[d] {
			n--
		}
	}
	c := &j.service.credit
	if !c.perDimension {
		n = min(n, 1)
	}
	return n * c.micro, min(n*c.percent, wholePrice)
}
