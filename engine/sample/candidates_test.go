package sample

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEntryOrder(t *testing.T) {
	// In descending order: the greater logit first, then the lower id.
	order := []entry{}
	for _, x := range []float32{inf, math.MaxFloat32, 1, math.SmallestNonzeroFloat32, 0, -math.SmallestNonzeroFloat32, -1, -math.MaxFloat32, -inf} {
		for _, id := range []int{0, 1, MaxVocab - 1} {
			e := newEntry(ordinal(x), id)
			if got := logit(e.value()); got != x || e.id() != int32(id) {
				t.Errorf("entry of %v, %d holds %v, %d", x, id, got, e.id())
			}
			order = append(order, e)
		}
	}
	for i := 1; i < len(order); i++ {
		if order[i-1] <= order[i] {
			t.Errorf("entry %d, %x, is not above entry %d, %x", i-1, order[i-1], i, order[i])
		}
	}
	if a, b := ordinal(0), ordinal(float32(math.Copysign(0, -1))); a != b {
		t.Errorf("ordinals of 0 and −0 are %x and %x, want them equal", a, b)
	}
}

// TestSelection compares kth, reaching, nucleus and pick with a sort and a count
// on every small list of weights.
func TestSelection(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for round := range 300 {
		entries := make([]entry, 1+rng.IntN(9))
		for id := range entries {
			entries[id] = newEntry(uint64(rng.IntN(4)), id)
		}
		entries[rng.IntN(len(entries))] += MaxVocab // one weight at least
		sorted := slices.Clone(entries)
		slices.Sort(sorted)
		slices.Reverse(sorted)
		for k := 1; k <= len(entries); k++ {
			if got := kth(slices.Clone(entries), k); got != sorted[k-1] {
				t.Fatalf("round %d: kth(%x, %d) = %x, want %x", round, entries, k, got, sorted[k-1])
			}
		}
		total := sum(entries)
		for least := uint64(1); least <= total; least++ {
			n := 0
			for added := uint64(0); added < least; n++ {
				added += sorted[n].value()
			}
			if got := reaching(slices.Clone(entries), least); got != sorted[n-1] {
				t.Fatalf("round %d: reaching(%x, %d) = %x, want %x", round, entries, least, got, sorted[n-1])
			}
			// Any share just above (least−1)/total needs as much.
			p := (float64(least) - 0.5) / float64(total)
			kept := NewScratch(len(entries)).nucleus(slices.Clone(entries), need(p, total))
			if want := slices.Clone(sorted[:n]); !slices.Equal(kept, byID(want)) {
				t.Fatalf("round %d: nucleus(%x, %v) = %x, want %x", round, entries, p, kept, want)
			}
		}
		var at uint64
		for _, e := range entries {
			for range e.value() {
				if got := pick(entries, at); got != e.id() {
					t.Fatalf("round %d: pick(%x, %d) = %d, want %d", round, entries, at, got, e.id())
				}
				at++
			}
		}
	}
}

func byID(entries []entry) []entry {
	slices.SortFunc(entries, func(a, b entry) int { return int(a.id() - b.id()) })
	return entries
}

// TestDrawAny compares the draw by spans with one from a list of all weights.
func TestDrawAny(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, n := range []int{1, 2, span - 1, span, span + 1, 3*span + 7} {
		for _, temperature := range []float32{1e-3, 0.7, 100} {
			row := make([]float32, n)
			for i := range row {
				row[i] = []float32{float32(rng.NormFloat64() * 5), float32(rng.NormFloat64()), nan, -inf}[rng.IntN(4)]
			}
			row[rng.IntN(n)] = 3
			p := Defaults()
			p.Temperature = temperature
			scratch, s := NewScratch(n), NewSampler(p, 0, nil, n)
			all := slices.Clone(s.candidates(scratch, row))
			for range 200 {
				u := rng.Uint64()
				at, _ := bits.Mul64(u, sum(all))
				if got, want := scratch.drawAny(row, s.scale(), u), pick(all, at); got != want {
					t.Fatalf("%d tokens at temperature %v, %x: got %d, want %d of %v", n, temperature, u, got, want, row)
				}
			}
		}
	}
	if got := NewScratch(2).drawAny([]float32{nan, -inf}, 1, 1); got != -1 {
		t.Errorf("a row without any token: got %d, want -1", got)
	}
}

// TestTopAgainstSort has rows long enough for several cuts.
func TestTopAgainstSort(t *testing.T) {
	const vocab = 5000
	rng := rand.New(rand.NewPCG(15, 16))
	scratch := NewScratch(vocab)
	row := make([]float32, vocab)
	for name, value := range map[string]func(i int) float32{
		"random":  func(int) float32 { return float32(rng.NormFloat64()) },
		"rising":  func(i int) float32 { return float32(i) },
		"falling": func(i int) float32 { return float32(-i) },
		"equal":   func(int) float32 { return -3 },
		"few":     func(int) float32 { return float32(rng.IntN(3)) },
		"organ":   func(i int) float32 { return float32(min(i, vocab-i)) },
	} {
		all := make([]entry, vocab)
		for i := range row {
			row[i] = value(i)
			all[i] = newEntry(ordinal(row[i]), i)
		}
		slices.Sort(all)
		slices.Reverse(all)
		for _, k := range []int{1, 2, 127, 128, 129, 1000, 2499, 2500, 2501, 4999, 5000, 6000} {
			got := scratch.top(row, k)
			if want := byID(slices.Clone(all[:min(k, vocab)])); !slices.Equal(got, want) {
				t.Errorf("%s: the top %d are %d entries that differ from the sorted row's", name, k, len(got))
			}
		}
	}
}
