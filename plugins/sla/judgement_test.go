package main

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// Comparisons are those of exact fractions.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	fraction := func(s span) *big.Rat {
		return new(big.Rat).SetFrac(new(big.Int).SetUint64(s.ns), new(big.Int).SetUint64(s.over))
	}
	random := func() span {
		return span{r.Uint64() >> r.IntN(64), max(1, uint64(r.Uint32()>>r.IntN(32)))}
	}
	beyond := 0
	for range 100_000 {
		s, other, ms := random(), random(), 1+r.Uint64N(mostMillis)>>r.IntN(27)
		switch r.IntN(3) {
		case 0: // equal, or nearly
			s.ns = ms*nsPerMS*s.over + r.Uint64N(3) - 1
		case 1:
			other = span{s.ns, s.over}
		}
		target := new(big.Rat).SetInt(new(big.Int).Mul(new(big.Int).SetUint64(ms), big.NewInt(nsPerMS)))
		want := fraction(s).Cmp(target) > 0
		if want {
			beyond++
		}
		if got := s.beyond(ms); got != want {
			t.Fatalf("%d / %d ns beyond %d ms: got %v, want %v", s.ns, s.over, ms, got, want)
		}
		if got, want := s.above(other), fraction(s).Cmp(fraction(other)) > 0; got != want {
			t.Fatalf("%d / %d above %d / %d: got %v, want %v", s.ns, s.over, other.ns, other.over, got, want)
		}
	}
	if beyond < 10_000 || beyond > 90_000 {
		t.Errorf("%d of 100,000 are beyond their targets; the test wants many of both", beyond)
	}
}
