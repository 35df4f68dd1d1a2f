package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// splitTekken is the rule of Mistral's Tekken, which cuts words where their case
// changes. With U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L for
// [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
//
//	[^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitTekken(text string) int {
	c, n := classOf(text)
	if c == number {
		return n
	}
	if c == letter || text[0] == '\r' || text[0] == '\n' {
		n = 0 // nothing before the word
	}
	for _, word := range [...]func(string) int{lowerWord, upperRun} {
		if m := word(text[n:]); m > 0 {
			return n + m
		}
		if m := word(text); m > 0 {
			return m
		}
	}
	return symbolsAndLines(text, "\r\n/")
}

// A letterCase is what Tekken tells apart of letters and marks.
type letterCase uint8

const (
	noLetter letterCase = iota
	upper               // in U alone
	lower               // in L alone
	either              // in both
)

// lowerWord returns the length of U*L+ at the text's start, 0 without one. U*
// takes all it can and gives back down to the last rune that is in L too.
func lowerWord(text string) int {
	n, last := 0, 0
	for {
		c, size := letterCaseOf(text[n:])
		switch c {
		case lower:
			for c == lower || c == either {
				n += size
				c, size = letterCaseOf(text[n:])
			}
			return n
		case noLetter:
			return last
		}
		n += size
		if c == either {
			last = n
		}
	}
}

// upperRun returns the length of U+ at the start of a text that has no U*L+, so
// that no L follows.
func upperRun(text string) int {
	n := 0
	for {
		c, size := letterCaseOf(text[n:])
		if c != upper {
			return n
		}
		n += size
	}
}

// letterCaseOf returns the case and the length of the first rune; a text's end
// has none.
func letterCaseOf(text string) (letterCase, int) {
	if text == "" {
		return noLetter, 0
	}
	if b := text[0]; b < utf8.RuneSelf {
		switch {
		case 'a' <= b && b <= 'z':
			return lower, 1
		case 'A' <= b && b <= 'Z':
			return upper, 1
		}
		return noLetter, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case unicode.Is(unicode.Ll, r):
		return lower, size
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper, size
	case unicode.In(r, unicode.Lm, unicode.Lo, unicode.M):
		return either, size
	}
	return noLetter, size
}
