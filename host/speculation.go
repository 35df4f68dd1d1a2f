package host

import (
	"math"
	"strconv"

	"github.com/wasmeter/wasmeter/engine"
)

// speculation is the statistics of a run's drafts as a JSON object, empty where
// they were not asked for. Of several choices it is the sum, without the lists by
// step.
func (r *run) speculation() string {
	most := r.server.parts.Engine.NumSpeculative()
	if r.server.options.Metrics.SpecDecode == "none" || most == 0 {
		return ""
	}
	sum := engine.DraftCounts{ByAccepted: make([]int, most+1)}
	for i := range r.choices {
		c := r.choices[i].life.Drafts
		if c == nil { // it never ran
			continue
		}
		sum.Steps += c.Steps
		sum.Drafted += c.Drafted
		sum.Accepted += c.Accepted
		for j, n := range c.ByAccepted {
			sum.ByAccepted[j] += n
		}
		if len(r.choices) == 1 {
			sum.PerStep = c.PerStep
		}
	}
	return string(appendSpeculation(nil, &sum))
}

// appendSpeculation appends the object metrics.speculative_decoding in vLLM's
// order. The lists by step are null where there are none to list or too many, and
// where the summary alone was asked for.
func appendSpeculation(dst []byte, c *engine.DraftCounts) []byte {
	length, rate := 1.0, 0.0
	if c.Steps > 0 {
		length += float64(c.Accepted) / float64(c.Steps)
	}
	if c.Drafted > 0 {
		rate = float64(c.Accepted) / float64(c.Drafted)
	}
	dst = append(dst, `{"mean_acceptance_length":`...)
	dst = appendFraction(dst, length)
	dst = append(dst, `,"draft_acceptance_rate":`...)
	dst = appendFraction(dst, rate)
	dst = append(dst, `,"acceptance_histogram":`...)
	dst = appendList(dst, len(c.ByAccepted), func(i int) int { return c.ByAccepted[i] })
	for _, count := range []struct {
		name string
		n    int
	}{
		{"num_spec_steps", c.Steps}, {"num_accepted_draft_tokens", c.Accepted}, {"num_draft_tokens", c.Drafted}, {"num_spec_tokens", len(c.ByAccepted) - 1},
	} {
		dst = append(dst, `,"`+count.name+`":`...)
		dst = strconv.AppendInt(dst, int64(count.n), 10)
	}
	if len(c.PerStep) == 0 || len(c.PerStep) > maxListedSteps {
		return append(dst, `,"per_step_accepted":null,"per_step_drafted":null}`...)
	}
	dst = append(dst, `,"per_step_accepted":`...)
	dst = appendList(dst, len(c.PerStep), func(i int) int { return int(c.PerStep[i].Accepted) })
	dst = append(dst, `,"per_step_drafted":`...)
	dst = appendList(dst, len(c.PerStep), func(i int) int { return int(c.PerStep[i].Drafted) })
	return append(dst, '}')
}

// maxListedSteps keeps the object, of two digits a number, within the 16 KiB that
// a plugin may give.
const maxListedSteps = 2048

// appendFraction appends a number that is no count, and looks like none to
// readers that tell 1.0 from 1.
func appendFraction(dst []byte, x float64) []byte {
	dst = strconv.AppendFloat(dst, x, 'f', -1, 64)
	if x == math.Trunc(x) {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendList(dst []byte, n int, at func(int) int) []byte {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(at(i)), 10)
	}
	return append(dst, ']')
}
