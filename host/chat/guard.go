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
	byFirst  [256][]string // by first byte, longest first
	suffixes [256][]string // proper ends of spellings, by first byte
}

// newSpellings leaves out spellings of a single rune, which no marker could go into.
func newSpellings(specials []string) *spellings {
	s := new(spellings)
	for _, special := range specials {
		if utf8.RuneCountInString(special) < 2 || !utf8.ValidString(special) || slices.Contains(s.byFirst[special[0]], special) {
			continue
		}
		s.byFirst[special[0]] = append(s.byFirst[special[0]], special)
		for i := range special {
			if end := special[i:]; i > 0 && !slices.Contains(s.suffixes[end[0]], end) {
				s.suffixes[end[0]] = append(s.suffixes[end[0]], end)
			}
		}
	}
	for _, list := range s.byFirst {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return s
}

// at is the longest spelling that text begins with, or "".
func (s *spellings) at(text string) string {
	for _, special := range s.byFirst[text[0]] {
		if strings.HasPrefix(text, special) {
			return special
		}
	}
	return ""
}

// begins reports whether text is the beginning of a spelling.
func (s *spellings) begins(text string) bool {
	for _, special := range s.byFirst[text[0]] {
		if strings.HasPrefix(special, text) {
			return true
		}
	}
	return false
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
		if len(cuts) > 0 && cuts[0] == i-start {
			mark(i)
			cuts = cuts[1:]
		}
		if g.spellings.byFirst[s[i]] == nil {
			continue
		}
		if g.spellings.at(s[i:]) != "" || g.spellings.begins(s[i:end]) {
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
	for i := 0; i < len(prompt); {
		special := g.spellings.at(prompt[i:])
		if special == "" {
			i++
			continue
		}
		text(prompt[start:i])
		pieces = append(pieces, Piece{Text: special, Special: true})
		i += len(special)
		start = i
	}
	text(prompt[start:])
	return pieces
}
