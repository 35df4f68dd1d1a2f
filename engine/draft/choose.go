package draft

import "github.com/wasmeter/wasmeter/engine/cost"

// Candidate is a sequence that drafts could be checked for.
type Candidate struct {
	// Rate is the chance that a draft comes true if those before it did.
	Rate float64
	// Max is the number of drafts that there are, or could be.
	Max int
	// Take is the number that pays: the result of Choose.
	Take int

	chance float64 // that the next draft comes true
}

// Step is what a step computes without drafts.
type Step struct {
	// Rows are all of them, Decoding the sequences that get a token.
	Rows, Decoding int
	// Room is the number of drafts that there is room for.
	Room int
}

// Chooser decides how many drafts a step checks. The zero value is ready; its
// storage is reused.
type Chooser struct {
	order []int // candidates, in the order in which they get their drafts
}

// Choose sets each candidate's Take to what makes the most tokens a second. step
// estimates the time of a step, drafting the time of one round of a draft model,
// nil where drafts cost nothing. Drafts are given out by their chance to come
// true; of all numbers of drafts the one is taken that has the best
//
//	(sequences + expected drafts that come true) / time
//
// where the time is that of decoding alone and what the drafts add to it: a
// prompt in the same step has to be computed anyway. A step that is computed, not
// waited for, adds as much time for each row as a token takes, so that nothing
// pays under load. Nothing is drafted before a step of so few rows was seen: what
// would be saved is not known.
func (c *Chooser) Choose(s Step, candidates []Candidate, step, drafting *cost.Steps) {
	for i := range candidates {
		candidates[i].Take, candidates[i].chance = 0, candidates[i].Rate
	}
	c.order = c.order[:0]
	if !step.Bounded(s.Decoding) {
		return
	}
	tokens, plain, with := float64(s.Decoding), step.Estimate(s.Decoding), step.Estimate(s.Rows)
	best, drafts, rounds, drafted := margin*tokens/max(plain, tiny), 0, 0, 0
	for len(c.order) < s.Room {
		at := -1
		for i := range candidates {
			if x := &candidates[i]; x.Take < x.Max && (at < 0 || x.chance > candidates[at].chance) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		x := &candidates[at]
		if x.Take == 0 {
			drafted++
		}
		tokens += x.chance
		x.Take, x.chance = x.Take+1, x.chance*x.Rate
		rounds = max(rounds, x.Take)
		c.order = append(c.order, at)
		time := plain + max(step.Estimate(s.Rows+len(c.order))-with, 0)
		if drafting != nil {
			time += float64(rounds) * drafting.Estimate(drafted)
		}
		if rate := tokens / max(time, tiny); rate > best {
			best, drafts = rate, len(c.order)
		}
	}
	for _, at := range c.order[drafts:] {
		candidates[at].Take--
	}
}

// margin is how much better than without drafts it must be: of many estimates that
// are noisy, the best seems better than it is.
const margin = 1.05

// tiny keeps a time that is not known from being divided by.
const tiny = 1e-9
