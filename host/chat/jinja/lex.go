package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	kindEnd      kind = iota // of the template
	kindText                 // outside of tags
	kindOpen                 // {{
	kindClose                // }}
	kindBegin                // {%
	kindFinish               // %}
	kindName                 //
	kindString               // its text is what it means
	kindInteger              //
	kindFloat                //
	kindOperator             //
)

type token struct {
	kind kind
	text string
	at   int // byte in the source
}

// lexer cuts a source into tokens, by the rules of jinja2's lexer.py with trim_blocks and lstrip_blocks.
type lexer struct {
	source string
	at     int
	tokens []token
	err    error
}

func lex(source string) ([]token, error) {
	l := &lexer{source: source}
	for l.err == nil && l.at < len(source) {
		l.next()
	}
	return append(l.tokens, token{kind: kindEnd, at: len(source)}), l.err
}

// errorAt names a place of the source.
func errorAt(source string, at int, format string, arguments ...any) error {
	before := source[:min(at, len(source))]
	line, column := 1+strings.Count(before, "\n"), len(before)-strings.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, col %d: %s", line, column, fmt.Sprintf(format, arguments...))
}

func (l *lexer) emit(k kind, text string, at int) { l.tokens = append(l.tokens, token{k, text, at}) }

// next takes text and the tag after it.
func (l *lexer) next() {
	start := l.at
	rest := l.source[start:]
	i := 0
	for ; i < len(rest); i++ {
		if rest[i] == '{' && i+1 < len(rest) && strings.IndexByte("{%#", rest[i+1]) >= 0 {
			break
		}
	}
	if i == len(rest) {
		l.emit(kindText, rest, start)
		l.at = len(l.source)
		return
	}
	tag := rest[i+1]
	l.at = start + i + 2
	l.text(start, start+i, l.sign(), tag != '{')
	switch tag {
	case '#':
		l.comment(start + i)
	case '{':
		l.emit(kindOpen, "", start+i)
		l.expression(start+i, "}}", kindClose)
	default:
		l.emit(kindBegin, "", start+i)
		begin := len(l.tokens)
		l.expression(start+i, "%}", kindFinish)
		if l.err == nil && len(l.tokens) == begin+2 && l.tokens[begin].kind == kindName && l.tokens[begin].text == "raw" {
			l.tokens = l.tokens[:begin-1]
			l.raw(start + i)
		}
	}
}

// sign takes the - or + after the beginning of a tag.
func (l *lexer) sign() byte {
	if l.at < len(l.source) && (l.source[l.at] == '-' || l.source[l.at] == '+') {
		l.at++
		return l.source[l.at-1]
	}
	return 0
}

// text emits what stands before a tag: without the white space before it for -, without a block's indentation otherwise.
func (l *lexer) text(start, end int, sign byte, block bool) {
	text := l.source[start:end]
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign == 0 && block:
		line := strings.LastIndexByte(text, '\n') + 1
		lineBegins := line > 0 || start == 0 || l.source[start-1] == '\n'
		if lineBegins && strings.TrimSpace(text[line:]) == "" {
			text = text[:line]
		}
	}
	if text != "" {
		l.emit(kindText, text, start)
	}
}

// after skips what the end of a tag takes with it: all white space for -, and one line's end after a block.
func (l *lexer) after(sign byte, block bool) {
	switch {
	case sign == '-':
		l.at = len(l.source) - len(strings.TrimLeftFunc(l.source[l.at:], unicode.IsSpace))
	case sign == 0 && block && strings.HasPrefix(l.source[l.at:], "\n"):
		l.at++
	}
}

func (l *lexer) comment(begin int) {
	end := strings.Index(l.source[l.at:], "#}")
	if end < 0 {
		l.err = errorAt(l.source, begin, "the comment has no end")
		return
	}
	var sign byte
	if end > 0 {
		if c := l.source[l.at+end-1]; c == '-' || c == '+' {
			sign = c
		}
	}
	l.at += end + 2
	l.after(sign, true)
}

var endRaw = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)

func (l *lexer) raw(begin int) {
	found := endRaw.FindStringSubmatchIndex(l.source[l.at:])
	if found == nil {
		l.err = errorAt(l.source, begin, "raw has no endraw")
		return
	}
	if strings.HasSuffix(l.source[:l.at], "%}\n") && !strings.HasSuffix(l.source[:l.at], "-%}\n") {
		l.at-- // the line's end belongs to what is raw
		found[0], found[1] = found[0]+1, found[1]+1
		for i := 2; i < 6; i++ {
			found[i]++
		}
	}
	start := l.at
	sign := func(from, to int) byte {
		if from == to {
			return 0
		}
		return l.source[start+from]
	}
	l.text(start, start+found[0], sign(found[2], found[3]), true)
	l.at = start + found[1]
	l.after(sign(found[4], found[5]), true)
}

// expression takes the tokens up to the end of a tag, which stands outside of all brackets.
func (l *lexer) expression(begin int, end string, k kind) {
	var brackets []byte
	for l.err == nil {
		l.at = len(l.source) - len(strings.TrimLeftFunc(l.source[l.at:], unicode.IsSpace))
		rest := l.source[l.at:]
		if rest == "" {
			l.err = errorAt(l.source, begin, "the tag has no end %s", end)
			return
		}
		if len(brackets) == 0 {
			sign := byte(0)
			if (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], end) {
				sign, rest = rest[0], rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.emit(k, "", l.at)
				l.at = len(l.source) - len(rest) + 2
				l.after(sign, k == kindFinish)
				return
			}
		}
		brackets = l.token(rest, brackets)
	}
}

// token takes one, which rest begins with.
func (l *lexer) token(rest string, brackets []byte) []byte {
	at := l.at
	c, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '_' || unicode.IsLetter(c):
		n := strings.IndexFunc(rest, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
		if n < 0 {
			n = len(rest)
		}
		l.emit(kindName, rest[:n], at)
		l.at += n
	case c >= '0' && c <= '9':
		text := numeral.FindString(rest)
		k := kindInteger
		if strings.ContainsAny(text, ".eE") {
			k = kindFloat
		}
		l.emit(k, strings.ReplaceAll(text, "_", ""), at)
		l.at += len(text)
	case c == '\'' || c == '"':
		l.quoted(rest)
	default:
		n := 1
		if len(rest) > 1 && strings.Contains(" // ** == != <= >= ", " "+rest[:2]+" ") {
			n = 2
		} else if c >= utf8.RuneSelf || !strings.ContainsRune("+-/*%~[](){}<>=.:|,", c) {
			l.err = errorAt(l.source, at, "unexpected %q", c)
			return brackets
		}
		l.emit(kindOperator, rest[:n], at)
		l.at += n
		switch c {
		case '(', '[', '{':
			brackets = append(brackets, rest[0])
		case ')', ']', '}':
			if n := len(brackets); n == 0 || brackets[n-1] != opening[c] {
				l.err = errorAt(l.source, at, "unexpected %q", c)
			} else {
				brackets = brackets[:n-1]
			}
		}
	}
	return brackets
}

var (
	opening = map[rune]byte{')': '(', ']': '[', '}': '{'}
	numeral = regexp.MustCompile(`^[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][-+]?[0-9]+)?`)
	escape  = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|(?s:.))`)
)

// quoted takes a string.
func (l *lexer) quoted(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			l.emit(kindString, escape.ReplaceAllStringFunc(rest[1:i], unescape), l.at)
			l.at += i + 1
			return
		}
	}
	l.err = errorAt(l.source, l.at, "the string has no end")
}

// unescape gives the meaning of an escape in a string; one without a meaning stands for itself.
func unescape(s string) string {
	digits, base := s[1:], 8
	switch s[1] {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'a':
		return "\a"
	case 'b':
		return "\b"
	case 'f':
		return "\f"
	case 'v':
		return "\v"
	case '\\', '\'', '"':
		return s[1:]
	case '\n':
		return ""
	case 'x', 'u', 'U':
		digits, base = s[2:], 16
	}
	code, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return s
	}
	return string(rune(code))
}
