package draft

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/cost"
)

// measured has seen steps of these times.
func measured(times map[int]time.Duration) *cost.Steps {
	c := &cost.Steps{}
	for rows, took := range times {
		c.Observe(rows, took)
	}
	return c
}

// TestChoose has expectations worked by hand: a draft of chance p pays if it
// raises tokens a second.
func TestChoose(t *testing.T) {
	ms := time.Millisecond
	waits := map[int]time.Duration{1: 10 * ms, 64: 10 * ms}              // rows cost nothing
	computes := map[int]time.Duration{1: 1 * ms, 64: 64 * ms}            // rows cost as much as tokens
	between := map[int]time.Duration{1: 10 * ms, 2: 14 * ms, 9: 21 * ms} // the first dear, then 1 ms each
	for _, c := range []struct {
		name       string
		step       map[int]time.Duration
		drafting   map[int]time.Duration
		rows, decs int
		room       int
		rates      []float64
		max        int
		want       []int
	}{
		{"rows are free", waits, nil, 1, 1, 64, []float64{0.1}, 5, []int{5}},
		{"nothing ever comes true", waits, nil, 1, 1, 64, []float64{0}, 5, []int{0}},
		{"rows cost as much as tokens", computes, nil, 8, 8, 64, []float64{0.9, 0.9}, 5, []int{0, 0}},
		{"nothing known", nil, nil, 1, 1, 64, []float64{0.9}, 4, []int{0}},
		{"only prompts known", map[int]time.Duration{64: 64 * ms}, nil, 1, 1, 64, []float64{0.9}, 4, []int{0}},
		{"unknown costs are tried", map[int]time.Duration{1: 10 * ms}, nil, 1, 1, 64, []float64{0.5}, 4, []int{4}},
		// 1 token in 10 ms; with 8 drafts of 0.95: 1+0.95+…+0.95⁸ = 7.40 in 21 ms.
		{"a first dear row", between, nil, 1, 1, 64, []float64{0.95}, 8, []int{8}},
		// One draft: 1.3 in 14 ms; two: 1.39 in 15; both less than 1 in 10.
		{"not dear enough to pay", between, nil, 1, 1, 64, []float64{0.3}, 8, []int{0}},
		{"room for few", waits, nil, 1, 1, 3, []float64{0.9, 0.9}, 5, []int{2, 1}},
		{"no room", waits, nil, 1, 1, 0, []float64{0.9}, 5, []int{0}},
		{"the likely first", waits, nil, 2, 2, 3, []float64{0.2, 0.9}, 5, []int{0, 3}},
		// Each round of the draft model costs as much as a step without drafts:
		// two tokens of two steps.
		{"a draft model as dear as the model", waits, map[int]time.Duration{1: 10 * ms}, 1, 1, 64, []float64{0.99}, 5, []int{0}},
		// 1 in 10 ms; k drafts of 0.9: 1.9 in 11, 2.71 in 12, 3.44 in 13, 4.10 in 14.
		{"a draft model of a tenth", waits, map[int]time.Duration{1: 1 * ms}, 1, 1, 64, []float64{0.9}, 4, []int{4}},
		// 500 rows of a prompt make the step long, and are no reason for drafts: a
		// draft takes 1 ms as a token does.
		{"beside a prompt", computes, nil, 60, 1, 4, []float64{0.9}, 4, []int{0}},
	} {
		candidates := make([]Candidate, len(c.rates))
		for i, rate := range c.rates {
			candidates[i] = Candidate{Rate: rate, Max: c.max}
		}
		var drafting *cost.Steps
		if c.drafting != nil {
			drafting = measured(c.drafting)
		}
		var chooser Chooser
		chooser.Choose(Step{Rows: c.rows, Decoding: c.decs, Room: c.room}, candidates, measured(c.step), drafting)
		for i, x := range candidates {
			if x.Take != c.want[i] {
				t.Errorf("%s: candidate %d takes %d, want %v", c.name, i, x.Take, c.want)
			}
		}
	}
}

// TestChooseIsTheBest compares with all ways to give drafts out.
func TestChooseIsTheBest(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		costs, at := &cost.Steps{}, 5+10*rnd.Float64()
		for rows := 1; rows <= 16; rows++ {
			costs.Observe(rows, time.Duration(at*float64(time.Millisecond)))
			at += rnd.Float64() * 6
		}
		candidates := make([]Candidate, 3)
		for i := range candidates {
			candidates[i] = Candidate{Rate: rnd.Float64(), Max: rnd.IntN(5)}
		}
		step := Step{Rows: 3, Decoding: 3, Room: rnd.IntN(13)}
		rate := func(take [3]int) float64 {
			tokens, drafts := 3.0, 0
			for i, n := range take {
				for k := range n {
					tokens += math.Pow(candidates[i].Rate, float64(k+1))
				}
				drafts += n
			}
			return tokens / costs.Estimate(3+drafts)
		}
		best := 0.0
		for a := range candidates[0].Max + 1 {
			for b := range candidates[1].Max + 1 {
				for c := range candidates[2].Max + 1 {
					if a+b+c <= step.Room {
						best = max(best, rate([3]int{a, b, c}))
					}
				}
			}
		}
		var chooser Chooser
		chooser.Choose(step, candidates, costs, nil)
		got := [3]int{candidates[0].Take, candidates[1].Take, candidates[2].Take}
		if r := rate(got); r < best/margin*(1-1e-9) || got != [3]int{} && r < best*(1-1e-9) {
			t.Errorf("seed %d: %v of %+v gives %g tokens a second, the best is %g", seed, got, candidates, r, best)
		}
	}
}
