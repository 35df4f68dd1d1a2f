package draft

import "math/bits"

// Index finds where the last tokens of a sequence stood before, in the way of
// deflate: positions with the same hash of MinMatch tokens are chained, the
// latest first. What followed there is the guess of what follows here. Source:
// Saxena, Prompt Lookup Decoding, https://github.com/apoorvumang/prompt-lookup-decoding;
// for the chains, RFC 1951, section 4.
//
// It takes 12 to 20 bytes for a token, and a guess a time that does not depend on
// their number.
type Index struct {
	min, max int // tokens that must match, and that are compared at most
	// previous chains the ends of runs of min tokens: previous[e] is the end
	// before e with the same hash, 0 for none. [indexed+1]
	previous []int32
	// heads holds the latest end by hash; its length is a power of two.
	heads []int32
}

// maxChain bounds the places that are compared for one guess.
const maxChain = 32

// NewIndex makes the index of a sequence that will hold about so many tokens. A
// guess needs minMatch equal tokens, at least 1, and prefers more, up to
// maxMatch.
func NewIndex(minMatch, maxMatch, tokens int) Index {
	return Index{min: minMatch, max: max(minMatch, maxMatch), previous: make([]int32, 1, tokens+1)}
}

// Guess appends to dst what followed the longest match of the end of tokens,
// the latest of equals: n tokens, or none without a match. matched is its
// length. The tokens are those of the call before and more.
func (x *Index) Guess(dst, tokens []int32, n int) (guess []int32, matched int) {
	x.extend(tokens)
	if len(tokens) <= x.min {
		return dst, 0
	}
	from := 0
	end := int(x.heads[x.slot(tokens, len(tokens))])
	for range maxChain {
		if end == 0 {
			break
		}
		if m := x.match(tokens, end); m > matched {
			from, matched = end, m
			if m == x.max {
				break
			}
		}
		end = int(x.previous[end])
	}
	if matched < x.min {
		return dst, 0
	}
	// A match that reaches into what it continues repeats itself.
	for i := range n {
		if at := from + i; at < len(tokens) {
			dst = append(dst, tokens[at])
		} else {
			dst = append(dst, dst[len(dst)-(len(tokens)-from)])
		}
	}
	return dst, matched
}

// match is the number of tokens before end that equal the last ones, up to max.
func (x *Index) match(tokens []int32, end int) int {
	n := 0
	for n < min(x.max, end) && tokens[end-1-n] == tokens[len(tokens)-1-n] {
		n++
	}
	return n
}

// extend chains every run that ends before the end of tokens.
func (x *Index) extend(tokens []int32) {
	if len(x.heads) < 2*len(tokens) {
		// Room for the tokens that were announced, or for twice as many.
		x.heads = make([]int32, 1<<bits.Len(uint(2*max(cap(x.previous), len(tokens)))))
		x.previous = x.previous[:1]
	}
	for end := len(x.previous); end < len(tokens); end++ {
		if end < x.min {
			x.previous = append(x.previous, 0)
			continue
		}
		slot := x.slot(tokens, end)
		x.previous = append(x.previous, x.heads[slot])
		x.heads[slot] = int32(end)
	}
}

// slot is the place in heads of the run that ends at end.
func (x *Index) slot(tokens []int32, end int) int {
	h := uint64(0)
	for _, id := range tokens[end-x.min : end] {
		h = (h ^ uint64(uint32(id))) * 0x9E3779B97F4A7C15 // 2⁶⁴ over the golden ratio
		h ^= h >> 29
	}
	return int(h>>32) & (len(x.heads) - 1)
}
