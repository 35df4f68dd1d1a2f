package wasmeter

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// JSON writes members of a JSON object. Every method returns its receiver,
// so that a small object is one line. What it writes is always well-formed:
// text is escaped, invalid UTF-8 becomes U+FFFD, objects left open are
// closed when the hook returns. Keys are not checked for duplicates; the
// server refuses those.
//
// Inside a List the key of a value is ignored.
type JSON struct {
	buf  []byte
	open []byte // the closing brackets still to come, innermost last
}

// AppendTo appends what was written, with everything closed, to dst: the
// members without braces around them. It is for tests of a hook.
func (w *JSON) AppendTo(dst []byte) []byte {
	dst = append(dst, w.buf...)
	for i := len(w.open) - 1; i >= 0; i-- {
		dst = append(dst, w.open[i])
	}
	return dst
}

// Object opens an object; End closes it.
func (w *JSON) Object(key string) *JSON { return w.enter(key, '{', '}') }

// List opens an array; End closes it.
func (w *JSON) List(key string) *JSON { return w.enter(key, '[', ']') }

// End closes the innermost object or list. Without one it does nothing.
func (w *JSON) End() *JSON {
	if n := len(w.open); n > 0 {
		w.buf = append(w.buf, w.open[n-1])
		w.open = w.open[:n-1]
	}
	return w
}

// Str writes a string.
func (w *JSON) Str(key, value string) *JSON {
	w.buf = appendString(w.key(key), value)
	return w
}

// Int writes an integer. Money is best written so, in a unit small enough:
// micro-dollars, never dollars in a float.
func (w *JSON) Int(key string, value int64) *JSON {
	w.buf = strconv.AppendInt(w.key(key), value, 10)
	return w
}

// Uint writes an integer that is not negative.
func (w *JSON) Uint(key string, value uint64) *JSON {
	w.buf = strconv.AppendUint(w.key(key), value, 10)
	return w
}

// Bool writes true or false.
func (w *JSON) Bool(key string, value bool) *JSON {
	w.buf = strconv.AppendBool(w.key(key), value)
	return w
}

// Null writes null.
func (w *JSON) Null(key string) *JSON {
	w.buf = append(w.key(key), "null"...)
	return w
}

// Millis writes nanoseconds as milliseconds, exactly: 1500000 is 1.5, 5000000
// is 5.0 and 0 is 0.0.
func (w *JSON) Millis(key string, ns uint64) *JSON {
	w.buf = appendMicro(w.key(key), ns/1_000_000, uint32(ns%1_000_000))
	return w
}

// Ratio writes num / den rounded half up to 6 places: 2/3 is 0.666667. It
// writes null when den is 0.
func (w *JSON) Ratio(key string, num, den uint64) *JSON {
	if den == 0 {
		return w.Null(key)
	}
	const places = 1_000_000
	whole, rest := num/den, num%den
	var micro uint64
	if rest <= math.MaxUint64/places {
		micro, rest = rest*places/den, rest*places%den
	} else {
		// rest < den, so the quotient of the 128-bit product fits 64 bits.
		high, low := bits.Mul64(rest, places)
		micro, rest = bits.Div64(high, low, den)
	}
	if rest >= den-rest {
		micro++
	}
	if micro == places {
		whole, micro = whole+1, 0
	}
	w.buf = appendMicro(w.key(key), whole, uint32(micro))
	return w
}

// Raw writes a value that is JSON already, such as Request.SpecJSON. The
// server refuses the whole result if it is not.
func (w *JSON) Raw(key, value string) *JSON {
	w.buf = append(w.key(key), value...)
	return w
}

// key gives what was written with the comma that a value needs, and with
// the value's key if it stands in an object.
func (w *JSON) key(key string) []byte {
	buf := w.buf
	if n := len(buf); n > 0 && buf[n-1] != '{' && buf[n-1] != '[' {
		buf = append(buf, ',')
	}
	if n := len(w.open); n > 0 && w.open[n-1] == ']' {
		return buf
	}
	return append(appendString(buf, key), ':')
}

func (w *JSON) enter(key string, opening, closing byte) *JSON {
	w.buf = append(w.key(key), opening)
	w.open = append(w.open, closing)
	return w
}

// reset forgets what was written and keeps the memory.
func (w *JSON) reset() { w.buf, w.open = w.buf[:0], w.open[:0] }

// appendMicro appends whole + micro/1e6 with at least one place and no
// trailing zeros behind it.
func appendMicro(dst []byte, whole uint64, micro uint32) []byte {
	dst = strconv.AppendUint(dst, whole, 10)
	dst = append(dst, '.',
		byte('0'+micro/100_000), byte('0'+micro/10_000%10), byte('0'+micro/1_000%10),
		byte('0'+micro/100%10), byte('0'+micro/10%10), byte('0'+micro%10))
	for dst[len(dst)-1] == '0' && dst[len(dst)-2] != '.' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Keys and values are nearly always
// plain, and a guest's loop over bytes is slow, so plain text is checked and
// copied eight bytes at a time; the last word overlaps the one before it.
func appendString(dst []byte, s string) []byte {
	const quotes, word = 2, 8
	n := len(dst)
	if cap(dst)-n < len(s)+quotes+word { // a word, since room is for what follows too
		dst = slices.Grow(dst, len(s)+64)
	}
	room := unsafe.Pointer(unsafe.SliceData(dst[n:cap(dst)]))
	text := unsafe.Pointer(unsafe.StringData(s))
	*(*byte)(room) = '"'
	room = unsafe.Add(room, 1)
	if len(s) >= word {
		last := len(s) - word
		for i := 0; ; i = min(i+word, last) {
			eight := *(*uint64)(unsafe.Add(text, i))
			if !isPlain(eight) {
				return appendEscaped(dst[:n+1+i], s[i:])
			}
			*(*uint64)(unsafe.Add(room, i)) = eight
			if i == last {
				break
			}
		}
	} else {
		for i := range len(s) {
			c := s[i]
			if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
				return appendEscaped(dst[:n+1+i], s[i:])
			}
			*(*byte)(unsafe.Add(room, i)) = c
		}
	}
	*(*byte)(unsafe.Add(room, len(s))) = '"'
	return dst[:n+len(s)+quotes]
}

// isPlain reports whether eight bytes are printable ASCII without quote and
// backslash. In each term the top bit of a byte is set if the byte is, in
// turn, below a space, a quote, a backslash or not ASCII; a borrow from such
// a byte may set a bit beside it, so the answer is never wrongly true.
func isPlain(word uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote := word ^ ones*'"'
	backslash := word ^ ones*'\\'
	return ((word-ones*' ')|(quote-ones)|(backslash-ones)|word)&tops == 0
}

// appendEscaped appends the rest of a string in which something has to be
// escaped, and its closing quote.
func appendEscaped(dst []byte, s string) []byte {
	for _, r := range s { // an invalid byte is read as U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
