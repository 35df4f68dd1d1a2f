package tokenizer

import (
	"slices"
	"sort"
	"strings"
)

// A spelling is a token that is recognised in a text as a whole, before the
// text is cut into words.
type spelling struct {
	text string
	id   int32
}

// A matcher finds spellings in a text: the leftmost, and of those that begin at
// the same byte the longest. A search costs at most the text's length times
// the longest spelling's, and the logarithm of their number.
type matcher struct {
	spellings []spelling // sorted, all different, none empty
	start     [257]int   // those that begin with byte b are start[b] to start[b+1]
}

// newMatcher sorts the list. Of two tokens with the same spelling the first
// counts; an empty spelling is never found.
func newMatcher(list []spelling) *matcher {
	slices.SortStableFunc(list, func(a, b spelling) int { return strings.Compare(a.text, b.text) })
	list = slices.CompactFunc(list, func(a, b spelling) bool { return a.text == b.text })
	if len(list) > 0 && list[0].text == "" {
		list = list[1:]
	}
	m := &matcher{spellings: list}
	for b := range 256 {
		m.start[b+1] = m.start[b]
		for m.start[b+1] < len(list) && list[m.start[b+1]].text[0] == byte(b) {
			m.start[b+1]++
		}
	}
	return m
}

// find returns the first special token and its place in text; without one, id
// is None and start and end are the text's end.
func (m *matcher) find(text string) (start, end int, id int32) {
	if len(m.spellings) == 0 {
		return len(text), len(text), None
	}
	for i := range len(text) {
		if m.start[text[i]] == m.start[int(text[i])+1] {
			continue
		}
		if n, id := m.longest(text[i:]); id != None {
			return i, i + n, id
		}
	}
	return len(text), len(text), None
}

// longest returns the longest special token with which text, which is not
// empty, begins.
func (m *matcher) longest(text string) (n int, id int32) {
	id = None
	// Each round keeps the spellings that begin with text[:i] and are longer.
	left := m.spellings[m.start[text[0]]:m.start[int(text[0])+1]]
	for i := 1; len(left) > 0; i++ {
		if len(left[0].text) == i {
			n, id = i, left[0].id
			left = left[1:]
		}
		if i == len(text) {
			break
		}
		b := text[i]
		left = left[sort.Search(len(left), func(k int) bool { return left[k].text[i] >= b }):]
		left = left[:sort.Search(len(left), func(k int) bool { return left[k].text[i] > b })]
	}
	return n, id
}
