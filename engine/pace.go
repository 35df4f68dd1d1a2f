package engine

import (
	"time"

	"github.com/wasmeter/wasmeter/engine/cost"
)

// pace keeps the time between two tokens of those that decode near a target, by
// bounding the rows of a step in which prompts are computed beside them. The
// bound follows from what steps of so many rows have taken of late.
type pace struct {
	target time.Duration // 0: there is none
	costs  cost.Steps
}

// leastPrompt is the number of rows beside those of the decoding sequences that a
// step may have in any case: prompts must not wait for a target that the device
// can't meet.
const leastPrompt = 32

// bound is the number of rows that a step with so many decoding sequences may
// have.
func (p *pace) bound(budget, decoding int) int {
	if p.target == 0 || decoding == 0 {
		return budget
	}
	target := p.target
	if least := p.costs.Least(); least > target {
		// The device can't meet it, and small steps would only make prompts wait:
		// then a step may take twice as long as the smallest.
		target = 2 * least
	}
	return min(budget, max(p.costs.Most(target), decoding+leastPrompt))
}

// observe takes the time of a step that computed so many rows.
func (p *pace) observe(rows int, took time.Duration) {
	if p.target > 0 {
		p.costs.Observe(rows, took)
	}
}
