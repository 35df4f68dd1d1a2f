package checkpoint

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// spaceMark is how SentencePiece spells a space.
const spaceMark = "▁"

// A step is a node of a SentencePiece tokenizer's normalizer or pre_tokenizer.
type step struct {
	Type string `json:"type"`
	All  []step `json:"normalizers"` // of a Sequence

	Prepend string         `json:"prepend"` // of Prepend
	Content string         `json:"content"` // of Replace
	Pattern map[string]any `json:"pattern"` // of Replace and Split

	Replacement string `json:"replacement"` // of Metaspace
	Scheme      string `json:"prepend_scheme"`
	Split       *bool  `json:"split"`
}

// isSpace tells whether the pattern is a space.
func (s step) isSpace() bool { return len(s.Pattern) == 1 && s.Pattern["String"] == " " }

// sentencePiece checks that BPE with byte_fallback treats spaces as a
// SentencePiece model does, and tells whether a text begins with one that it
// doesn't have.
func sentencePiece(normalizer, preTokenizer jsontext.Value) (spacePrefix bool, err error) {
	var normal, pre step
	for _, part := range []struct {
		name string
		from jsontext.Value
		to   *step
	}{{"normalizer", normalizer, &normal}, {"pre_tokenizer", preTokenizer, &pre}} {
		if part.from == nil || part.from.Kind() == 'n' {
			continue
		}
		if err := json.Unmarshal(part.from, part.to); err != nil {
			return false, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	steps := []step{normal}
	if normal.Type == "Sequence" {
		steps = normal.All
	}
	marked := false
	for _, s := range steps {
		switch {
		case s.Type == "Prepend" && s.Prepend == spaceMark:
			spacePrefix = true
		case s.Type == "Replace" && s.isSpace() && s.Content == spaceMark:
			marked = true
		case s.Type != "":
			return false, fmt.Errorf("normalizer: type %.40q is not supported in a tokenizer with byte_fallback; supported are Prepend and Replace of spaces by %s", s.Type, spaceMark)
		}
	}
	switch {
	case pre.Type == "Metaspace" && pre.Replacement == spaceMark && pre.Split != nil && !*pre.Split:
		marked, spacePrefix = true, spacePrefix || pre.Scheme != "never"
	case pre.Type == "Split" && pre.isSpace() && marked: // finds none: there are only marks
	case pre.Type != "":
		return false, fmt.Errorf("pre_tokenizer: type %.40q, in this form, is not supported in a tokenizer with byte_fallback", pre.Type)
	}
	if !marked {
		return false, fmt.Errorf("spaces are not replaced by %s: a tokenizer with byte_fallback that does not stand for a SentencePiece model is not supported", spaceMark)
	}
	return spacePrefix, nil
}

// scores gives each token a score such that SentencePiece merges in the order of
// the merges: what comes first has the highest. Tokens that no merge makes are
// not made of text either, unless they are a single rune.
func (v *vocabulary) scores() ([]float32, error) {
	ids := make(map[string]int, len(v.tokens))
	for id, text := range v.tokens {
		ids[text] = id
	}
	made := make([]bool, len(v.tokens))
	scores := make([]float32, len(v.tokens))
	for rank, merge := range v.merges {
		left, right, _ := strings.Cut(merge, " ")
		id, ok := ids[left+right]
		if !ok {
			return nil, fmt.Errorf("merge %d: %.80q makes no token", rank, merge)
		}
		if !made[id] {
			made[id], scores[id] = true, float32(-rank)
		}
	}
	for id, text := range v.tokens {
		switch {
		case v.types[id] == typeUserDefined:
			v.tokens[id] = strings.ReplaceAll(text, spaceMark, " ")
		case v.types[id] != typeNormal:
		case isByte(text):
			v.types[id] = typeByte
		case !made[id] && utf8.RuneCountInString(text) != 1:
			v.types[id] = typeUnused
		}
	}
	return scores, nil
}

// isByte tells of the tokens that stand for bytes: <0x0A>.
func isByte(text string) bool {
	hex, ok := strings.CutPrefix(text, "<0x")
	return ok && len(hex) == 3 && hex[2] == '>' && strings.Trim(hex[:2], "0123456789ABCDEF") == ""
}
