package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// findSlowly is the definition: of all spellings at all places the leftmost,
// then the longest, then the first in the list.
func findSlowly(list []spelling, text string) (start, end int, id int32) {
	for i := range len(text) {
		start, end, id = i, i, None
		for _, s := range list {
			if len(s.text) > end-start && strings.HasPrefix(text[i:], s.text) {
				end, id = i+len(s.text), s.id
			}
		}
		if id != None {
			return start, end, id
		}
	}
	return len(text), len(text), None
}

// TestMatcher compares with the definition for random spellings over few
// letters, so that many begin or equal one another.
func TestMatcher(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	word := func(most int) string {
		b := make([]byte, rng.IntN(most+1))
		for i := range b {
			b[i] = "ab\xff"[rng.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		var list []spelling
		for id := range int32(rng.IntN(12)) {
			list = append(list, spelling{word(5), id})
		}
		m := newMatcher(append([]spelling(nil), list...))
		for range 20 {
			text := word(12)
			start, end, id := m.find(text)
			wantStart, wantEnd, wantID := findSlowly(list, text)
			if start != wantStart || end != wantEnd || id != wantID {
				t.Fatalf("find of %q in %q: got %d:%d id %d, want %d:%d id %d", list, text, start, end, id, wantStart, wantEnd, wantID)
			}
		}
	}
}
