package plugin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonScanner reads a guest's JSON once, front to back, without allocating:
// strict grammar, bounded depth, numbers that a float64 can hold, no
// duplicate keys. What is rare and long to decide (escapes, objects with
// many keys) it leaves to jsontext, in end.
//
// After the first error every read fails.
type jsonScanner struct {
	doc []byte
	at  int
	err error

	escaped  bool // doc has a backslash: end asks jsontext
	crowded  bool // more keys are open than keys has room for: the same
	nonASCII bool
	deepest  int // how deep containers may be nested; 0 is maxResultDepth

	keys    [64]keySpan // keys of the open objects, innermost last
	numKeys int
}

// keySpan is a key in doc.
type keySpan struct{ from, to uint32 }

// jsonObject is an object that the scanner is inside of.
type jsonObject struct {
	firstKey int // in keys
	begun    bool
}

var errSyntax = errors.New("not strict JSON")

func (s *jsonScanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// reset begins with another document. What is in keys is of no matter.
func (s *jsonScanner) reset(doc []byte) {
	s.doc, s.at, s.err = doc, 0, nil
	s.escaped, s.crowded, s.nonASCII, s.deepest, s.numKeys = false, false, false, 0, 0
}

// peek gives the next byte that is not white space, 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.at < len(s.doc) {
		switch c := s.doc[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// enter goes into the object that comes next.
func (s *jsonScanner) enter() jsonObject {
	if s.peek() != '{' {
		s.fail(errSyntax)
		return jsonObject{}
	}
	s.at++
	return jsonObject{firstKey: s.numKeys}
}

// next reads a key, up to its value; more is false behind the object's end
// or at an error. The key is as it is written, without its quotes.
func (s *jsonScanner) next(o *jsonObject) (key []byte, more bool) {
	if s.err != nil {
		return nil, false
	}
	c := s.peek()
	if c == '}' {
		s.at++
		s.numKeys = o.firstKey
		return nil, false
	}
	if o.begun {
		if c != ',' {
			s.fail(errSyntax)
			return nil, false
		}
		s.at++
		c = s.peek()
	}
	if c != '"' {
		s.fail(errSyntax)
		return nil, false
	}
	o.begun = true
	from := s.at + 1
	s.string()
	to := s.at - 1
	if s.err != nil || s.peek() != ':' {
		s.fail(errSyntax)
		return nil, false
	}
	key = s.doc[from:to]
	s.at++
	s.remember(o, key, from)
	return key, s.err == nil
}

// remember keeps a key of the open object o and refuses one seen before.
func (s *jsonScanner) remember(o *jsonObject, key []byte, from int) {
	if s.numKeys == len(s.keys) {
		s.crowded = true
		return
	}
	for _, k := range s.keys[o.firstKey:s.numKeys] {
		if bytes.Equal(s.doc[k.from:k.to], key) {
			s.fail(fmt.Errorf("duplicate key %q", key))
		}
	}
	s.keys[s.numKeys] = keySpan{uint32(from), uint32(from + len(key))}
	s.numKeys++
}

// value reads a value whose containers are nested depth deep, and gives its
// bytes.
func (s *jsonScanner) value(depth int) []byte {
	c := s.peek()
	from := s.at
	switch {
	case s.err != nil:
	case c == '"':
		s.string()
	case c == '{' || c == '[':
		if deepest := cmp.Or(s.deepest, maxResultDepth); depth > deepest {
			s.fail(fmt.Errorf("nested deeper than %d", deepest))
		} else if c == '{' {
			for o := s.enter(); ; {
				if _, more := s.next(&o); !more {
					break
				}
				s.value(depth + 1)
			}
		} else {
			s.list(depth)
		}
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.fail(errSyntax)
	}
	if s.err != nil {
		return nil
	}
	return s.doc[from:s.at]
}

func (s *jsonScanner) list(depth int) {
	s.at++
	if s.peek() == ']' {
		s.at++
		return
	}
	for s.err == nil {
		s.value(depth + 1)
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return
		default:
			s.fail(errSyntax)
		}
	}
}

func (s *jsonScanner) word(word string) {
	if !bytes.HasPrefix(s.doc[s.at:], []byte(word)) {
		s.fail(errSyntax)
		return
	}
	s.at += len(word)
}

func (s *jsonScanner) string() {
	doc := s.doc
	for i := s.at + 1; i < len(doc); i++ {
		// Nearly all bytes of nearly all strings are plain: eight at a time.
		for i+8 <= len(doc) {
			special := notPlain(binary.LittleEndian.Uint64(doc[i:]))
			if special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i == len(doc) {
			break
		}
		switch c := doc[i]; {
		case c == '"':
			s.at = i + 1
			return
		case c == '\\':
			s.escaped = true
			i++
		case c < ' ':
			s.fail(errSyntax)
			return
		case c >= utf8.RuneSelf:
			s.nonASCII = true
		}
	}
	s.fail(errSyntax)
}

// notPlain finds the first byte of eight, counted from the lowest, that is not
// printable ASCII or is a quote or a backslash: it has the lowest bit that is
// set; 0 means that there is none. Each term sets the top bit of a byte that is,
// in turn, below a space, a quote, a backslash or not ASCII. A borrow from such
// a byte may set bits above it, never below.
func notPlain(eight uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	return ((eight - ones*' ') | (quote - ones) | (backslash - ones) | eight) & tops
}

func (s *jsonScanner) number() {
	doc, from := s.doc, s.at
	i := from
	if doc[i] == '-' {
		i++
	}
	if i < len(doc) && doc[i] == '0' {
		i++
	} else {
		i = s.digits(i)
	}
	if i < len(doc) && doc[i] == '.' {
		i = s.digits(i + 1)
	}
	exponent := i < len(doc) && doc[i]|0x20 == 'e'
	if exponent {
		i++
		if i < len(doc) && (doc[i] == '+' || doc[i] == '-') {
			i++
		}
		i = s.digits(i)
	}
	s.at = i
	// Without an exponent anything under 309 digits is finite, which spares
	// the usual number its parse.
	if number := doc[from:i]; s.err == nil && (exponent || len(number) >= 309) {
		if _, err := strconv.ParseFloat(string(number), 64); err != nil {
			s.fail(fmt.Errorf("number %.40s is beyond a float64", number))
		}
	}
}

// digits gives the place behind the digits at i, of which there must be one.
func (s *jsonScanner) digits(i int) int {
	from := i
	for i < len(s.doc) && s.doc[i]-'0' <= 9 {
		i++
	}
	if i == from {
		s.fail(errSyntax)
	}
	return i
}

// end checks that the document ends here and decides what was left open.
func (s *jsonScanner) end() error {
	if s.err == nil && (s.peek() != 0 || s.at < len(s.doc)) {
		s.fail(errSyntax)
	}
	if s.err == nil && (s.escaped || s.crowded) && !jsontext.Value(s.doc).IsValid() {
		s.fail(errSyntax)
	}
	if s.err == nil && s.nonASCII && !utf8.Valid(s.doc) {
		s.fail(errSyntax)
	}
	if s.err == errSyntax {
		return syntaxError(s.doc)
	}
	return s.err
}

// syntaxError says where a document goes wrong, in jsontext's words.
func syntaxError(doc []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	if _, err := d.ReadValue(); err == io.EOF {
		return errors.New("empty")
	} else if err != nil {
		return fmt.Errorf("%w: %w", errSyntax, err)
	}
	if d.PeekKind() != 0 {
		return fmt.Errorf("%w: more than one value", errSyntax)
	}
	return errSyntax
}
