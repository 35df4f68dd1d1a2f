package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSpread compares with sorted values.
func TestSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 99, 100, 101, 10_000} {
		var s spread
		var all []int64
		for range n {
			v := int64(random.Uint64() >> (1 + random.UintN(63)))
			all = append(all, v)
			s.add(v)
		}
		slices.Sort(all)
		for _, p := range []uint64{0, 1, 50, 99, 100} {
			want := all[max((n*int(p)+99)/100, 1)-1]
			if p == 0 {
				want = 0
			}
			got := s.quantile(p)
			if got < want || float64(got) > float64(want)*(1+1./fineness) {
				t.Errorf("%d values, %d %%: got %d, want %d or up to 1/%d more", n, p, got, want, fineness)
			}
		}
	}
	var s spread
	s.add(math.MaxInt64)
	s.add(0)
	if got, want := s.quantiles(), (Quantiles{0, math.MaxInt64, math.MaxInt64}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := new(spread).quantiles(); got != (Quantiles{}) {
		t.Errorf("of nothing: got %+v", got)
	}
}
