package replay

import "math/bits"

// fineness is the number of buckets for each power of two: a quantile is at
// most 1/128 too high.
const fineness = 128

// spread counts values, so that their quantiles take no more memory for more
// of them.
type spread struct {
	buckets [58 * fineness]uint64
	count   uint64
	highest int64
}

// add counts a value that is not negative.
func (s *spread) add(v int64) {
	at := int(v)
	if shift := bits.Len64(uint64(v)) - 8; shift > 0 { // two powers share the first buckets
		at = shift*fineness + int(v>>shift)
	}
	s.buckets[at]++
	s.count++
	s.highest = max(s.highest, v)
}

// Quantiles are of a call's fuel, at most 1 % too high but for the last, which
// is exact.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

func (s *spread) quantiles() Quantiles {
	return Quantiles{s.quantile(50), s.quantile(99), s.highest}
}

// quantile gives a value that the given percentage of all don't exceed.
func (s *spread) quantile(percent uint64) int64 {
	rank := (s.count*percent + 99) / 100
	for at, n := range s.buckets {
		if n < rank {
			rank -= n
			continue
		}
		if rank == 0 {
			return 0
		}
		shift := max(at/fineness-1, 0)
		return min(int64(at-shift*fineness)<<shift|(1<<shift-1), s.highest)
	}
	return s.highest
}
