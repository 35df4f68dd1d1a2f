package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPace lets a device take a time for each step and a time for each row, and
// sees that steps with decoding sequences come near the target from below and
// above, after some steps of looking, also when the device changes.
func TestPace(t *testing.T) {
	const budget = 512
	for _, c := range []struct {
		name               string
		base, row          time.Duration
		target             time.Duration
		decoding, min, max int // rows in the end
	}{
		{"between", 5 * time.Millisecond, 500 * time.Microsecond, 50 * time.Millisecond, 4, 80, 92}, // (50−5)/0.5 = 90
		{"all at once", 5 * time.Millisecond, 10 * time.Microsecond, 50 * time.Millisecond, 4, budget, budget},
		{"out of reach", 80 * time.Millisecond, time.Millisecond, 50 * time.Millisecond, 4, 80, 92}, // 2·84 = 80+88
		{"far out of reach, by no fault of the rows", 6 * time.Second, 0, 50 * time.Millisecond, 4, budget, budget},
		{"many that decode", 5 * time.Millisecond, 500 * time.Microsecond, 50 * time.Millisecond, 64, 96, 96},
		{"no target", 80 * time.Millisecond, time.Millisecond, 0, 4, budget, budget},
		{"nobody decodes", 80 * time.Millisecond, time.Millisecond, 50 * time.Millisecond, 0, budget, budget},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			p := pace{target: c.target}
			step := func(rows int, slower float64) time.Duration {
				took := time.Duration(slower * float64(c.base+time.Duration(rows)*c.row) * (0.98 + 0.04*rng.Float64()))
				p.observe(rows, took)
				return took
			}
			for range 20 {
				step(max(c.decoding, 1), 1)
			}
			over, reach := 0, c.target // what can be met
			if least := c.base + time.Duration(c.decoding)*c.row; least > reach {
				reach = 2 * least
			}
			for i := range 200 {
				rows := p.bound(budget, c.decoding)
				if took := step(rows, 1); took > reach*6/5 && rows > c.decoding+leastPrompt {
					over++
				}
				if i%3 > 0 {
					step(max(c.decoding, 1), 1) // between prompts
				}
			}
			if c.target > 0 && c.decoding > 0 && over > 2 {
				t.Errorf("%d of 200 steps take a fifth more than the target", over)
			}
			if got := p.bound(budget, c.decoding); got < c.min || got > c.max {
				t.Errorf("a step may have %d rows, want %d … %d", got, c.min, c.max)
			}
		})
	}
}
