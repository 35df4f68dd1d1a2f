package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLogprobsAgainstSort(t *testing.T) {
	const vocab = 2000
	rng := rand.New(rand.NewPCG(11, 12))
	row := make([]float32, vocab)
	for i := range row {
		row[i] = float32(rng.IntN(400)) / 40 // with ties
	}
	total := 0.0
	for _, x := range row {
		total += math.Exp(float64(x))
	}
	order := make([]int32, vocab)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	scratch := NewScratch(vocab)
	for _, n := range []int{0, 1, 5, 20, 300, vocab} {
		p := Defaults()
		p.Logprobs, p.Temperature, p.TopK = n, 0.5, 10
		p.Bias = map[int32]float32{order[0]: -100}
		token := NewSampler(p, 0, nil, vocab).Sample(scratch, slices.Clone(row), 3, nil)
		check := func(got Logprob, id int32) {
			t.Helper()
			// float32's rounding of a value near −10, and the sum's 1e-8.
			want := float64(row[id]) - math.Log(total)
			if got.ID != id || math.Abs(float64(got.Value)-want) > 1e-6 {
				t.Fatalf("%d of the most likely: %+v, want token %d with %v", n, got, id, want)
			}
		}
		if len(token.Top) != n {
			t.Fatalf("%d tokens listed, want %d", len(token.Top), n)
		}
		check(Logprob{token.ID, token.Logprob}, token.ID)
		for i, l := range token.Top {
			check(l, order[i])
		}
	}
}

func TestLogprobsOfSpecialRows(t *testing.T) {
	ln2 := float32(math.Ln2)
	for _, c := range []struct {
		name string
		row  []float32
		want float32
		top  []Logprob
	}{
		{"equal", []float32{7, 7}, -ln2, []Logprob{{0, -ln2}, {1, -ln2}}},
		{"NaN and −Inf have none", []float32{nan, 3, -inf}, 0, []Logprob{{1, 0}}},
		{"infinity is certain", []float32{3, inf}, 0, []Logprob{{1, 0}, {0, -inf}}},
		{"two infinities share", []float32{inf, 3, inf}, -ln2, []Logprob{{0, -ln2}, {2, -ln2}, {1, -inf}}},
		{"far apart", []float32{-3e38, 3e38}, 0, []Logprob{{1, 0}, {0, -inf}}},
		{"nothing left", []float32{nan, -inf}, -inf, []Logprob{}},
	} {
		p := Defaults()
		p.Temperature, p.Logprobs = 0, len(c.row)
		got := NewSampler(p, 0, nil, len(c.row)).Sample(NewScratch(len(c.row)), slices.Clone(c.row), 0, nil)
		if got.Logprob != c.want || !slices.Equal(got.Top, c.top) {
			t.Errorf("%s: %v and %v of %v, want %v and %v", c.name, got.Logprob, got.Top, c.row, c.want, c.top)
		}
	}
}
