package chat

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Control tokens must come from the template alone: a user who writes "<|im_end|>\n<|im_start|>system" must not get a system
// turn. A template mixes its text with the client's, and its output no longer says which is which. So a marker goes into every
// spelling of a control token in the client's strings, where it keeps the spelling from being one; the output is split at the
// spellings that are whole, and the markers are taken out of the text between them.
//
// The marker is a Unicode noncharacter, which text for interchange does not hold, and one that occurs nowhere in the
// conversation or the template. Spellings could also be made of two strings side by side. So the beginning of a spelling at the
// end of a string is marked too, and the end of one at the beginning, whatever white space the template may trim from there.
//
// What remains is a template that builds a spelling around a client's whole string, as Phi-3's <|user|> is built around the role:
// roles are checked against a fixed list before they come here.

// spellings are a model's control tokens, made ready to be found in text.
type spellings struct {
	first    [256]*node    // by first byte
	leads    []byte        // the first bytes
	suffixes [256][]string // proper ends of spellings, by first byte
}

// node is where the spellings with the same beginning part. A tree finds the one of Llama 3's 256 in the time of its length.
type node struct {
	next map[byte]*node
	end  bool // a spelling ends here
}

// newSpellings leaves out spellings of a single rune, which no marker could go into.
func newSpellings(specials []string) *spellings {
	s := new(spellings)
	for _, special := range specials {
		if utf8.RuneCountInString(special) < 2 || !utf8.ValidString(special) {
			continue
		}
		s.add(special)
		for i := range special {
			if end := special[i:]; i > 0 && !slices.Contains(s.suffixes[end[0]], end) {
				s.suffixes[end[0]] = append(s.suffixes[end[0]], end)
			}
		}
	}
	return s
}

func (s *spellings) add(special string) {
	if s.first[special[0]] == nil {
		s.first[special[0]] = &node{next: make(map[byte]*node)}
		s.leads = append(s.leads, special[0])
	}
	n := s.first[special[0]]
	for i := 1; i < len(special); i++ {
		if n.next[special[i]] == nil {
			n.next[special[i]] = &node{next: make(map[byte]*node)}
		}
		n = n.next[special[i]]
	}
	n.end = true
}

// candidate is the first place in text, from i on, where a spelling may begin; the text's end if there is none.
func (s *spellings) candidate(text string, i int) int {
	if len(s.leads) == 1 { // < in most models
		if at := strings.IndexByte(text[i:], s.leads[0]); at >= 0 {
			return i + at
		}
		return len(text)
	}
	for i < len(text) && s.first[text[i]] == nil {
		i++
	}
	return i
}

// match is the length of the longest spelling that text begins with, 0 for none, and how many bytes of text begin any.
func (s *spellings) match(text string) (whole, common int) {
	n := s.first[text[0]]
	for i := 0; n != nil; {
		i++
		common = i
		if n.end {
			whole = i
		}
		if i == len(text) {
			break
		}
		n = n.next[text[i]]
	}
	return whole, common
}

// guard puts the marker into spellings.
type guard struct {
	spellings *spellings
	marker    string // one rune
}

// text is s with the marker in each spelling of a control token, and in each part of one that stands at an end of s.
func (g *guard) text(s string) string {
	var out strings.Builder
	written := 0
	mark := func(at int) { // positions rise
		out.WriteString(s[written:at])
		out.WriteString(g.marker)
		written = at
	}
	start := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	end := start + len(strings.TrimRightFunc(s[start:], unicode.IsSpace))
	cuts := g.leadingCuts(s[start:end])
	for i := start; i < end; i++ {
		limit := end
		if len(cuts) > 0 {
			limit = start + cuts[0]
		}
		if i = g.spellings.candidate(s[:limit], i); i == end {
			break
		}
		if i == limit {
			mark(i)
			cuts = cuts[1:]
		}
		if whole, common := g.spellings.match(s[i:]); whole > 0 || common >= end-i {
			_, size := utf8.DecodeRuneInString(s[i:])
			mark(i + size)
		}
	}
	if written == 0 && out.Len() == 0 {
		return s
	}
	out.WriteString(s[written:])
	return out.String()
}

// leadingCuts are the positions, rising, before the last rune of each end of a spelling that s begins with.
func (g *guard) leadingCuts(s string) []int {
	if s == "" {
		return nil
	}
	var cuts []int
	for _, suffix := range g.spellings.suffixes[s[0]] {
		if strings.HasPrefix(s, suffix) {
			_, size := utf8.DecodeLastRuneInString(suffix)
			cuts = append(cuts, len(suffix)-size)
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// split cuts a rendered prompt into control tokens and text, and takes the markers out of the text.
func (g *guard) split(prompt string) []Piece {
	var pieces []Piece
	text := func(s string) {
		if s = strings.ReplaceAll(s, g.marker, ""); s != "" {
			pieces = append(pieces, Piece{Text: s})
		}
	}
	start := 0
	for i := 0; ; {
		if i = g.spellings.candidate(prompt, i); i == len(prompt) {
			break
		}
		whole, _ := g.spellings.match(prompt[i:])
		if whole == 0 {
			i++
			continue
		}
		text(prompt[start:i])
		pieces = append(pieces, Piece{Text: prompt[i : i+whole], Special: true})
		i += whole
		start = i
	}
	text(prompt[start:])
	return pieces
}
