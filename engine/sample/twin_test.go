package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// twin is the slow readable sampler: a full sort, float64, math.Exp. It returns
// each token's probability of being drawn, 0 for those cut, and how far the
// nearest cut was from falling otherwise.
func twin(p Params, row []float32) (probs []float64, margin float64) {
	margin = math.Inf(1)
	order := make([]int, 0, len(row)) // the most likely first
	for id, x := range row {
		if x > float32(math.Inf(-1)) {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	weight := func(id int) float64 {
		return math.Exp((float64(row[id]) - float64(row[order[0]])) / float64(p.Temperature))
	}
	if p.TopK > 0 && len(order) > p.TopK {
		order = order[:p.TopK]
	}
	order = slices.DeleteFunc(order, func(id int) bool {
		margin = min(margin, math.Abs(weight(id)-float64(p.MinP)))
		return weight(id) < float64(p.MinP)
	})
	total := 0.0
	for _, id := range order {
		total += weight(id)
	}
	if p.TopP < 1 {
		sum := 0.0
		for i, id := range order {
			sum += weight(id)
			margin = min(margin, math.Abs(sum/total-float64(p.TopP)))
			if sum >= float64(p.TopP)*total {
				order, total = order[:i+1], sum
				break
			}
		}
	}
	probs = make([]float64, len(row))
	for _, id := range order {
		probs[id] = weight(id) / total
	}
	return probs, margin
}

// TestAgainstTwin compares the probabilities and the token on random rows under
// every combination of the cuts.
func TestAgainstTwin(t *testing.T) {
	const (
		tolerance = 2e-9 // 5e-10 in the weight and in the sum
		undecided = 1e-8 // a cut or a draw nearer than this may fall otherwise
	)
	rng := rand.New(rand.NewPCG(3, 4))
	rows := map[string]func(i, n int) float32{
		"normal": func(int, int) float32 { return float32(rng.NormFloat64() * 4) },
		"flat":   func(int, int) float32 { return float32(rng.NormFloat64() * 0.01) },
		"ties":   func(int, int) float32 { return float32(rng.IntN(7)) },
		"rising": func(i, n int) float32 { return float32(i) / float32(n) * 20 },
		"peaked": func(i, n int) float32 {
			if i == n/2 {
				return 40
			}
			return float32(rng.NormFloat64())
		},
		"holes": func(i, n int) float32 {
			return []float32{float32(rng.NormFloat64()), float32(math.Inf(-1)), float32(math.NaN())}[rng.IntN(3)]
		},
	}
	const maxTokens = 3000
	scratch := NewScratch(maxTokens)
	var compared, skipped int
	for _, n := range []int{1, 2, 5, 300, maxTokens} {
		for name, value := range rows {
			row := make([]float32, n)
			for i := range row {
				row[i] = value(i, n)
			}
			row[rng.IntN(n)] = 5 // at least one can be drawn
			for _, temperature := range []float32{1e-3, 0.7, 1, 100} {
				for _, k := range []int{0, 1, 2, 40, 290, 1600, 5000} {
					for _, topP := range []float32{1e-6, 0.3, 0.95, 1} {
						for _, minP := range []float32{0, 0.05, 1} {
							p := Defaults()
							p.Temperature, p.TopK, p.TopP, p.MinP, p.Seed = temperature, k, topP, minP, rng.Uint64()
							probs, margin := twin(p, row)
							if margin < undecided && !(margin == 0 && minP == 1) {
								skipped++
								continue
							}
							compared++
							s := NewSampler(p, 0, nil, n)
							checkCandidates(t, name, p, s, scratch, row, probs, tolerance)
							got := s.Sample(scratch, slices.Clone(row), compared, nil).ID
							checkToken(t, name, p, row, probs, float64(noise(p.Seed, 0, compared))/(1<<64), got, undecided)
							if t.Failed() {
								t.Fatalf("row %s of %d tokens, %+v", name, n, p)
							}
						}
					}
				}
			}
		}
	}
	if skipped > compared/10 {
		t.Errorf("%d of %d cases were too near a cut to compare; at most a tenth may be", skipped, skipped+compared)
	}
}

// checkCandidates compares the weights with the twin's probabilities.
func checkCandidates(t *testing.T, name string, p Params, s *Sampler, scratch *Scratch, row []float32, probs []float64, tolerance float64) {
	t.Helper()
	got := make([]float64, len(row))
	candidates := s.candidates(scratch, row)
	last := int32(-1)
	for _, c := range candidates {
		if c.id() <= last {
			t.Errorf("%s: token %d after %d, want ascending ids", name, c.id(), last)
		}
		last = c.id()
		got[c.id()] = float64(c.value()) / float64(sum(candidates))
	}
	for id := range got {
		// 2⁻⁴⁰ of the most likely is as fine as weights go.
		if math.Abs(got[id]-probs[id]) > tolerance*probs[id]+1e-12 {
			t.Errorf("%s: token %d, logit %v, is drawn with %v, want %v", name, id, row[id], got[id], probs[id])
			return
		}
		if probs[id] == 0 && got[id] != 0 {
			t.Errorf("%s: token %d is among the candidates, want it cut", name, id)
			return
		}
	}
}

// checkToken finds the twin's token by inverting the distribution at u.
func checkToken(t *testing.T, name string, p Params, row []float32, probs []float64, u float64, got int32, undecided float64) {
	t.Helper()
	cumulative := 0.0
	for id, prob := range probs {
		if u >= cumulative-undecided && u < cumulative+prob+undecided && int32(id) == got && prob > 0 {
			return
		}
		cumulative += prob
	}
	t.Errorf("%s: token %d at u = %v is not where the distribution says", name, got, u)
}
