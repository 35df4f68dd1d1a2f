package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// guess is Index.Guess as its comment has it, by looking everywhere.
func guess(tokens []int32, minMatch, maxMatch, n int) (out []int32, matched int) {
	from := 0
	for end := len(tokens) - 1; end > 0; end-- { // the latest first
		m := 0
		for m < min(maxMatch, end) && tokens[end-1-m] == tokens[len(tokens)-1-m] {
			m++
		}
		if m >= minMatch && m > matched {
			from, matched = end, m
		}
	}
	if matched == 0 {
		return nil, 0
	}
	text := slices.Clone(tokens)
	for i := range n {
		text = append(text, text[from+i])
	}
	return text[len(tokens):], matched
}

// TestIndexAgainstTwin grows texts of few letters token by token. They are short
// enough that no chain is cut.
func TestIndexAgainstTwin(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		minMatch := 1 + rnd.IntN(4)
		maxMatch := minMatch + rnd.IntN(5)
		letters := int32(2 + rnd.IntN(20))
		x := NewIndex(minMatch, maxMatch, rnd.IntN(40))
		var tokens []int32
		for len(tokens) < maxChain {
			for range 1 + rnd.IntN(5) { // several accepted at once
				tokens = append(tokens, rnd.Int32N(letters))
			}
			n := rnd.IntN(9)
			got, gotMatch := x.Guess(nil, tokens, n)
			want, wantMatch := guess(tokens, minMatch, maxMatch, n)
			if gotMatch != wantMatch || !slices.Equal(got, want) {
				t.Fatalf("seed %d, matches of %d … %d, %d tokens after %v:\ngot  %v, match %d\nwant %v, match %d",
					seed, minMatch, maxMatch, n, tokens, got, gotMatch, want, wantMatch)
			}
		}
	}
}

func TestGuess(t *testing.T) {
	for _, c := range []struct {
		name    string
		tokens  []int32
		want    []int32
		matched int
	}{
		{"nothing", nil, nil, 0},
		{"as many as must match", []int32{1, 2}, nil, 0},
		{"no match", []int32{1, 2, 3, 4, 5}, nil, 0},
		{"one token is too few", []int32{1, 2, 9, 2}, nil, 0},
		{"a match", []int32{1, 2, 3, 4, 9, 1, 2}, []int32{3, 4, 9, 1}, 2},
		{"the longer match", []int32{7, 1, 2, 3, 9, 8, 1, 2, 4, 9, 7, 1, 2}, []int32{3, 9, 8, 1}, 3},
		{"the later of equals", []int32{1, 2, 3, 9, 1, 2, 4, 9, 5, 1, 2}, []int32{4, 9, 5, 1}, 2},
		{"it repeats itself", []int32{5, 6, 5, 6}, []int32{5, 6, 5, 6}, 2},
		{"one token over and over", []int32{8, 8, 8, 8}, []int32{8, 8, 8, 8}, 3},
	} {
		x := NewIndex(2, 8, 0)
		got, matched := x.Guess(nil, c.tokens, 4)
		if !slices.Equal(got, c.want) || matched != c.matched {
			t.Errorf("%s: after %v: got %v, match %d; want %v, match %d", c.name, c.tokens, got, matched, c.want, c.matched)
		}
	}
}

// TestLongChainsAreCut: one token over and over makes the longest chains there
// are; the match is found at once.
func TestLongChainsAreCut(t *testing.T) {
	tokens := make([]int32, 100_000)
	for i := range tokens {
		tokens[i] = int32(i % 2) // every other place has the same hash
	}
	x := NewIndex(2, 64, len(tokens))
	if got, matched := x.Guess(nil, tokens, 3); !slices.Equal(got, []int32{0, 1, 0}) || matched != 64 {
		t.Errorf("got %v, match %d; want 0 1 0, match 64", got, matched)
	}
}

func BenchmarkGuess(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	tokens := make([]int32, 8192)
	for i := range tokens {
		tokens[i] = rnd.Int32N(300) // runs of two come back about every ten places of 8192
	}
	x := NewIndex(2, 8, len(tokens))
	dst, _ := x.Guess(nil, tokens, 8)
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = x.Guess(dst[:0], tokens, 8)
	}
}
