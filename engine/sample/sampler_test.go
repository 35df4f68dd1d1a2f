package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

func TestGreedy(t *testing.T) {
	for _, c := range []struct {
		name   string
		row    []float32
		banned []int32
		want   int32
	}{
		{"greatest", []float32{1, 3, 2}, nil, 1},
		{"lowest id of equals", []float32{1, 3, 3}, nil, 1},
		{"zero and minus zero are equal", []float32{float32(math.Copysign(0, -1)), 0}, nil, 0},
		{"NaN never wins", []float32{nan, -5, nan}, nil, 1},
		{"infinity wins", []float32{1, inf, 2}, nil, 1},
		{"banned", []float32{1, 3, 2}, []int32{1}, 2},
		{"bans outside the vocabulary", []float32{1, 3, 2}, []int32{-1, 7, 1}, 2},
		{"all NaN", []float32{nan, nan, nan}, nil, 0},
		{"all NaN, lowest banned", []float32{nan, nan, nan}, []int32{1, 0}, 2},
		{"all −Inf", []float32{-inf, -inf}, nil, 0},
		{"all banned", []float32{1, 2}, []int32{0, 1}, 0},
		{"one token", []float32{-3}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			scratch := NewScratch(len(c.row))
			p := Defaults()
			for _, set := range []struct {
				name        string
				temperature float32
				k           int
			}{
				{"temperature 0", 0, 0},
				{"top-k 1", 1, 1},
				{"top-k 1, hot", 100, 1},
				{"top-k 1, cold", math.SmallestNonzeroFloat32, 1},
			} {
				p.Temperature, p.TopK = set.temperature, set.k
				got := NewSampler(p, 0, nil, len(c.row)).Sample(scratch, slices.Clone(c.row), 0, c.banned).ID
				if got != c.want {
					t.Errorf("%s: token %d of %v without %v, want %d", set.name, got, c.row, c.banned, c.want)
				}
			}
		})
	}
}

// The distributions and what is left of them are those of
// tests/generation/test_logits_process.py in
// https://github.com/huggingface/transformers. Top-p 0.79999995 stands for
// 0.8, whose outcome there hangs on a rounding.
func TestCutsAgainstTransformers(t *testing.T) {
	ramp := []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	stepped := []float32{10, 11, 12, 13, 14, 5, 6, 7, 8, 9}
	for _, c := range []struct {
		name       string
		topK       int
		topP, minP float32
		row        []float32
		want       []int32
	}{
		{"top-k of a ramp", 3, 1, 0, ramp, []int32{7, 8, 9}},
		{"top-k of a stepped ramp", 3, 1, 0, stepped, []int32{2, 3, 4}},
		{"top-p on its edge", 0, 0.79999995, 0, logs(0.3, 0.1, 0.1, 0.5), []int32{0, 3}},
		{"top-p", 0, 0.79999995, 0, logs(0.15, 0.3, 0.3, 0.25), []int32{1, 2, 3}},
		{"min-p keeps two", 0, 1, 0.05, logs(0.9, 0.0274, 0.047, 0.0274), []int32{0, 2}},
		{"min-p keeps all", 0, 1, 0.05, logs(0.15, 0.3, 0.3, 0.25), []int32{0, 1, 2, 3}},
		{"min-p keeps one", 0, 1, 0.05, logs(0.97, 0.01, 0.01, 0.01), []int32{0}},
	} {
		p := Defaults()
		p.TopK, p.TopP, p.MinP = c.topK, c.topP, c.minP
		var got []int32
		for _, e := range NewSampler(p, 0, nil, len(c.row)).candidates(NewScratch(len(c.row)), c.row) {
			got = append(got, e.id())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v of %v are kept, want %v", c.name, got, c.row, c.want)
		}
	}
}

func logs(probs ...float64) []float32 {
	row := make([]float32, len(probs))
	for i, p := range probs {
		row[i] = float32(math.Log(p))
	}
	return row
}

// The first two cases are those of transformers' test of its repetition penalty
// (tests/generation/test_logits_process.py); the others are worked out from the
// formula of the OpenAI API reference: logit − count·frequency − (count > 0)·presence.
func TestPenalties(t *testing.T) {
	for _, c := range []struct {
		name                            string
		repetition, presence, frequency float32
		prompt, output                  []int32
		row, want                       []float32
	}{
		{"repetition, negative logit", 2, 0, 0, []int32{0, 1}, nil, []float32{-0.1, 0.1, 0.1}, []float32{-0.2, 0.05, 0.1}},
		{"repetition, positive logit", 2, 0, 0, []int32{2, 0}, nil, []float32{0.1, 0.1, 0.4}, []float32{0.05, 0.1, 0.2}},
		{"repetition counts the output once", 2, 0, 0, nil, []int32{0, 0, 0}, []float32{8, -1}, []float32{4, -1}},
		{"presence is of the output alone", 1, 0.5, 0, []int32{0}, []int32{1, 1}, []float32{3, 3, 3}, []float32{3, 2.5, 3}},
		{"frequency counts", 1, 0, 0.5, []int32{0, 0}, []int32{1, 2, 2, 2}, []float32{3, 3, 3}, []float32{3, 2.5, 1.5}},
		{"negative penalties raise", 1, -1, -0.5, nil, []int32{0, 0}, []float32{1, 1}, []float32{3, 1}},
		{"repetition comes first", 2, 1, 0.5, []int32{0}, []int32{0, 0, 1}, []float32{8, -4, 1}, []float32{2, -9.5, 1}},
		{"presence spares the prompt beside repetition", 2, 1, 1, []int32{0}, []int32{1}, []float32{4, 4}, []float32{2, 0}},
		{"ids outside the vocabulary", 2, 1, 1, []int32{-1, 9}, []int32{-7, 2}, []float32{4, 4}, []float32{4, 4}},
	} {
		p := Defaults()
		p.RepetitionPenalty, p.PresencePenalty, p.FrequencyPenalty = c.repetition, c.presence, c.frequency
		p.Temperature = 0
		s := NewSampler(p, 0, c.prompt, len(c.row))
		for _, id := range c.output {
			s.Accept(id)
		}
		row := slices.Clone(c.row)
		s.Sample(NewScratch(len(row)), row, 0, nil)
		if !slices.Equal(row, c.want) {
			t.Errorf("%s: %v after prompt %v and output %v, want %v of %v", c.name, row, c.prompt, c.output, c.want, c.row)
		}
	}
}

func TestBiasAndBans(t *testing.T) {
	p := Defaults()
	p.Temperature = 0
	p.Bias = map[int32]float32{0: 100, 2: -100, 3: 1.5}
	row := []float32{1, 2, 3, 4}
	got := NewSampler(p, 0, nil, 4).Sample(NewScratch(4), row, 0, []int32{0}).ID
	if want := []float32{-inf, 2, -97, 5.5}; !slices.Equal(row, want) || got != 3 {
		t.Errorf("row %v and token %d, want %v and 3: a ban is stronger than a bias", row, got, want)
	}
}

// A banned token is never drawn at random either.
func TestBannedIsNeverDrawn(t *testing.T) {
	s := NewSampler(Defaults(), 0, nil, 3)
	scratch := NewScratch(3)
	for position := range 2000 {
		if got := s.Sample(scratch, []float32{9, 1, 1}, position, []int32{0}).ID; got == 0 {
			t.Fatalf("position %d draws the banned token 0", position)
		}
	}
}

// TestFrequencies draws one row at many positions and compares the counts with
// the probabilities by Pearson's chi-squared test.
func TestFrequencies(t *testing.T) {
	row := logs(0.4, 0.05, 0.2, 0.15, 0.1, 0.05, 0.04, 0.01)
	const draws = 40_000
	for _, c := range []struct {
		name        string
		temperature float32
		topK        int
		topP        float32
		minP        float32
	}{
		{"plain", 1, 0, 1, 0},
		{"cold", 0.5, 0, 1, 0},
		{"hot", 3, 0, 1, 0},
		{"top-k", 1, 3, 1, 0},
		{"top-p", 1, 0, 0.8, 0},
		{"min-p", 1, 0, 1, 0.2},
		{"all", 1.5, 6, 0.9, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Defaults()
			p.Temperature, p.TopK, p.TopP, p.MinP, p.Seed = c.temperature, c.topK, c.topP, c.minP, 20
			probs, _ := twin(p, row)
			scratch := NewScratch(len(row))
			s := NewSampler(p, 0, nil, len(row))
			counts := make([]int, len(row))
			buffer := make([]float32, len(row))
			for position := range draws {
				copy(buffer, row)
				counts[s.Sample(scratch, buffer, position, nil).ID]++
			}
			statistic := 0.0
			for id, n := range counts {
				if probs[id] == 0 {
					if n > 0 {
						t.Errorf("token %d is drawn %d times, want never", id, n)
					}
					continue
				}
				expected := probs[id] * draws
				statistic += (float64(n) - expected) * (float64(n) - expected) / expected
			}
			// The quantile of 0.9999 at seven degrees of freedom, the most here.
			if statistic > 29.88 {
				t.Errorf("chi-squared is %.1f, want at most 29.88; seed %d, counts %v, probabilities %.4f", statistic, p.Seed, counts, probs)
			}
		})
	}
}

// TestIndependence draws a sequence's tokens alone, and again while the scratch
// is shared with others.
func TestIndependence(t *testing.T) {
	const vocab, positions = 1000, 50
	rng := rand.New(rand.NewPCG(5, 6))
	rows := make([][]float32, positions)
	for i := range rows {
		rows[i] = make([]float32, vocab)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64() * 3)
		}
	}
	p := Defaults()
	p.Seed, p.TopK, p.TopP, p.Logprobs, p.FrequencyPenalty = 7, 50, 0.9, 3, 0.3
	draw := func(s *Sampler, scratch *Scratch, position int) Token {
		token := s.Sample(scratch, slices.Clone(rows[position]), position, nil)
		s.Accept(token.ID)
		return token
	}

	alone := make([]Token, positions)
	s, scratch := NewSampler(p, 0, nil, vocab), NewScratch(vocab)
	for i := range alone {
		alone[i] = draw(s, scratch, i)
	}
	var same, otherChoice int
	s, choice1 := NewSampler(p, 0, nil, vocab), NewSampler(p, 1, nil, vocab)
	others := Defaults()
	for i := range alone {
		others.TopK, others.TopP = i*20, float32(i+1)/positions
		NewSampler(others, i, nil, vocab).Sample(scratch, slices.Clone(rows[positions-1-i]), i, nil)
		got := draw(s, scratch, i)
		if got.ID != alone[i].ID || got.Logprob != alone[i].Logprob || !slices.Equal(got.Top, alone[i].Top) {
			t.Fatalf("position %d: %+v among others, want %+v as alone", i, got, alone[i])
		}
		same++
		if draw(choice1, scratch, i).ID == got.ID {
			otherChoice++
		}
	}
	if otherChoice == same {
		t.Errorf("choices 0 and 1 draw the same %d tokens, want their own noise", same)
	}
}

func TestSampleDoesNotAllocate(t *testing.T) {
	const vocab = 4096
	rng := rand.New(rand.NewPCG(7, 8))
	row, buffer := make([]float32, vocab), make([]float32, vocab)
	for i := range row {
		row[i] = float32(rng.NormFloat64() * 3)
	}
	scratch := NewScratch(vocab)
	for name, set := range settings() {
		p := Defaults()
		set(&p)
		p.FrequencyPenalty, p.RepetitionPenalty = 0.01, 1.01
		p.Bias = map[int32]float32{1: 1}
		s := NewSampler(p, 0, []int32{1, 2, 3}, vocab)
		s.Accept(5)
		banned := []int32{4}
		position := 0
		if n := testing.AllocsPerRun(100, func() {
			copy(buffer, row)
			s.Sample(scratch, buffer, position, banned)
			s.Accept(5)
			position++
		}); n != 0 {
			t.Errorf("%s: %v allocations a token, want 0", name, n)
		}
	}
}

// settings are the ways to sample that cost differently.
func settings() map[string]func(*Params) {
	return map[string]func(*Params){
		"greedy":      func(p *Params) { p.Temperature = 0 },
		"top-k top-p": func(p *Params) { p.TopK, p.TopP = 40, 0.95 },
		"top-k 20000": func(p *Params) { p.TopK = 20000 },
		"top-p":       func(p *Params) { p.TopP = 0.95 },
		"min-p":       func(p *Params) { p.MinP = 0.05 },
		"temperature": func(p *Params) { p.Temperature = 0.8 },
	}
}

func BenchmarkSample(b *testing.B) {
	const vocab = 49152 // SmolLM2's
	rng := rand.New(rand.NewPCG(9, 10))
	row, buffer := make([]float32, vocab), make([]float32, vocab)
	for i := range row {
		row[i] = float32(rng.NormFloat64()*3 - 3)
	}
	for range 50 {
		row[rng.IntN(vocab)] += 12
	}
	scratch := NewScratch(vocab)
	for name, set := range settings() {
		b.Run(name, func(b *testing.B) {
			p := Defaults()
			set(&p)
			s := NewSampler(p, 0, nil, vocab)
			b.ReportAllocs()
			for position := 0; b.Loop(); position++ {
				copy(buffer, row)
				s.Sample(scratch, buffer, position, nil)
			}
		})
	}
	b.Run("logprobs", func(b *testing.B) {
		p := Defaults()
		p.Temperature, p.Logprobs = 0, 5
		s := NewSampler(p, 0, nil, vocab)
		b.ReportAllocs()
		for position := 0; b.Loop(); position++ {
			copy(buffer, row)
			s.Sample(scratch, buffer, position, nil)
		}
	})
}
