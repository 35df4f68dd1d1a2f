package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter returns the length in bytes of the first word of a text that is
// not empty. Words cover the text without gap; merges never cross them. Each
// splitter is the hand-written form of the regular expression above it, with
// the alternatives tried in its order.
type splitter func(text string) int

// A pretokenizer is one way to cut text into words.
type pretokenizer struct {
	split splitter
	// wholeWords tells that a word which is a token is that token, whatever the
	// merges would make of it ("ignore_merges").
	wholeWords bool
	// addBOS tells that prompts begin with BOS, unless the file says otherwise.
	addBOS bool
}

// preTokenizer returns the one that tokenizer.ggml.pre names.
func preTokenizer(name string) (pretokenizer, error) {
	switch name {
	case "smollm":
		return pretokenizer{split: splitSmolLM}, nil
	case "gpt2", "gpt-2":
		return pretokenizer{split: splitGPT2}, nil
	case "llama-bpe", "llama3", "llama-v3":
		return pretokenizer{split: splitLlama3, wholeWords: true, addBOS: true}, nil
	case "qwen2", "deepseek-r1-qwen":
		return pretokenizer{split: splitQwen2}, nil
	case "tekken":
		return pretokenizer{split: splitTekken, wholeWords: true, addBOS: true}, nil
	}
	return pretokenizer{}, fmt.Errorf("pre-tokenizer %q is not supported; the supported ones are %s", name,
		strings.Join([]string{"smollm", "gpt2 (gpt-2)", "llama-bpe (llama3, llama-v3)", "qwen2 (deepseek-r1-qwen)", "tekken"}, ", "))
}

// splitGPT2 is GPT-2's rule:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitGPT2(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	n := 0
	if text[0] == ' ' {
		n = 1
	}
	if c := classAt(text, n); c == letter || c == number || c == other {
		return n + run(text[n:], c)
	}
	return spaces(text)
}

// splitSmolLM cuts out each digit (\p{N}) before it applies GPT-2's rule to
// what is between them, so that a space before a digit is a word of its own
// and the lookahead takes a digit for the text's end.
func splitSmolLM(text string) int {
	if c, n := classOf(text); c == number {
		return n
	}
	if n := contraction(text); n > 0 {
		return n
	}
	n := 0
	if text[0] == ' ' {
		n = 1
	}
	if c := classAt(text, n); c == letter || c == other {
		return n + run(text[n:], c)
	}
	if n := run(text, space); classAt(text, n) == number {
		return n
	}
	return spaces(text)
}

// splitLlama3 is Llama 3's rule, which takes up to three digits together:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitLlama3(text string) int {
	n := 0
	for range 3 {
		c, size := classOf(text[n:])
		if c != number {
			break
		}
		n += size
	}
	if n > 0 {
		return n
	}
	return splitWordsAndLines(text)
}

// splitQwen2 is Qwen 2's rule: Llama 3's with each digit by itself (\p{N} for
// \p{N}{1,3}).
func splitQwen2(text string) int {
	if c, n := classOf(text); c == number {
		return n
	}
	return splitWordsAndLines(text)
}

// splitWordsAndLines has the alternatives that Llama 3 and Qwen 2 share, for a
// text that does not begin with a digit.
func splitWordsAndLines(text string) int {
	if n := contractionFold(text); n > 0 {
		return n
	}
	c, n := classOf(text)
	if c == letter {
		return run(text, letter)
	}
	if text[0] != '\r' && text[0] != '\n' && classAt(text, n) == letter {
		return n + run(text[n:], letter)
	}
	return symbolsAndLines(text, "\r\n")
}

// symbolsAndLines has the alternatives after those for letters and digits; ends
// are the bytes that symbols may end with.
func symbolsAndLines(text, ends string) int {
	n := 0
	if text[0] == ' ' {
		n = 1
	}
	if classAt(text, n) == other {
		n += run(text[n:], other)
		return n + len(text[n:]) - len(strings.TrimLeft(text[n:], ends))
	}
	if n := strings.LastIndexAny(text[:run(text, space)], "\r\n"); n >= 0 {
		return n + 1
	}
	return spaces(text)
}

// contraction returns the length of an English contraction, 0 without one.
func contraction(text string) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if strings.HasPrefix(text[2:], "e") {
			return 3
		}
	case 'l':
		if strings.HasPrefix(text[2:], "l") {
			return 3
		}
	}
	return 0
}

// contractionFold is contraction whatever the case of the letters. The long s
// 'ſ' is an s in another case by Unicode's folding, which (?i:) follows.
func contractionFold(text string) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	if strings.HasPrefix(text[1:], "ſ") {
		return 1 + len("ſ")
	}
	// Folding is by OR with 0x20 and right for the letters compared here: no
	// other ASCII byte becomes one of them.
	var low [3]byte
	for i := range copy(low[:], text) {
		low[i] |= 0x20
	}
	low[0] = '\''
	return contraction(string(low[:min(len(text), 3)]))
}

// spaces has the alternatives \s+(?!\S)|\s+ for a text that begins with white
// space: all of it at the text's end, otherwise all but the last rune, which is
// left to the next word, otherwise the one rune.
func spaces(text string) int {
	n := run(text, space)
	if n == len(text) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(text[:n]); last < n {
		return n - last
	}
	return n
}

// A class is what the regular expressions tell apart of a rune.
type class uint8

const (
	end    class = iota // no rune: the text's end
	letter              // \p{L}
	number              // \p{N}
	space               // \s, which is Unicode's White_Space
	other               // the rest, and bytes that are not UTF-8
)

// run returns the length of the runes of class c at the text's start.
func run(text string, c class) int {
	n := 0
	for n < len(text) {
		got, size := classOf(text[n:])
		if got != c {
			break
		}
		n += size
	}
	return n
}

func classAt(text string, n int) class {
	c, _ := classOf(text[n:])
	return c
}

// classOf returns the class and the length of the first rune.
func classOf(text string) (c class, size int) {
	if text == "" {
		return end, 0
	}
	if b := text[0]; b < utf8.RuneSelf {
		switch {
		case 'a' <= b|0x20 && b|0x20 <= 'z':
			return letter, 1
		case '0' <= b && b <= '9':
			return number, 1
		case b == ' ' || '\t' <= b && b <= '\r':
			return space, 1
		}
		return other, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case unicode.IsLetter(r):
		return letter, size
	case unicode.IsNumber(r):
		return number, size
	case unicode.IsSpace(r):
		return space, size
	}
	return other, size
}
