package wasmeter

import (
	"math/bits"
	"strconv"
	"unicode/utf8"
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
	w.key(key)
	w.buf = appendString(w.buf, value)
	return w
}

// Int writes an integer. Money is best written so, in a unit small enough:
// micro-dollars, never dollars in a float.
func (w *JSON) Int(key string, value int64) *JSON {
	w.key(key)
	w.buf = strconv.AppendInt(w.buf, value, 10)
	return w
}

// Uint writes an integer that is not negative.
func (w *JSON) Uint(key string, value uint64) *JSON {
	w.key(key)
	w.buf = strconv.AppendUint(w.buf, value, 10)
	return w
}

// Bool writes true or false.
func (w *JSON) Bool(key string, value bool) *JSON {
	w.key(key)
	w.buf = strconv.AppendBool(w.buf, value)
	return w
}

// Null writes null.
func (w *JSON) Null(key string) *JSON {
	w.key(key)
	w.buf = append(w.buf, "null"...)
	return w
}

// Millis writes nanoseconds as milliseconds, exactly: 1500000 is 1.5, 5000000
// is 5.0 and 0 is 0.0.
func (w *JSON) Millis(key string, ns uint64) *JSON {
	w.key(key)
	w.buf = appendMicro(w.buf, ns/1_000_000, ns%1_000_000)
	return w
}

// Ratio writes num / den rounded half up to 6 places: 2/3 is 0.666667. It
// writes null when den is 0.
func (w *JSON) Ratio(key string, num, den uint64) *JSON {
	if den == 0 {
		return w.Null(key)
	}
	w.key(key)
	whole, rest := num/den, num%den
	// rest < den, so the quotient of the 128-bit product fits 64 bits.
	high, low := bits.Mul64(rest, 1_000_000)
	micro, rest := bits.Div64(high, low, den)
	if rest >= den-rest {
		micro++
	}
	if micro == 1_000_000 {
		whole, micro = whole+1, 0
	}
	w.buf = appendMicro(w.buf, whole, micro)
	return w
}

// Raw writes a value that is JSON already, such as Request.SpecJSON. The
// server refuses the whole result if it is not.
func (w *JSON) Raw(key, value string) *JSON {
	w.key(key)
	w.buf = append(w.buf, value...)
	return w
}

// key writes the comma that a value needs, and its key if it stands in an
// object.
func (w *JSON) key(key string) {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' {
		w.buf = append(w.buf, ',')
	}
	if n := len(w.open); n > 0 && w.open[n-1] == ']' {
		return
	}
	w.buf = append(appendString(w.buf, key), ':')
}

func (w *JSON) enter(key string, opening, closing byte) *JSON {
	w.key(key)
	w.buf = append(w.buf, opening)
	w.open = append(w.open, closing)
	return w
}

func (w *JSON) closeAll() {
	for len(w.open) > 0 {
		w.End()
	}
}

// appendMicro appends whole + micro/1e6 with at least one place and no
// trailing zeros behind it.
func appendMicro(dst []byte, whole, micro uint64) []byte {
	dst = append(strconv.AppendUint(dst, whole, 10), '.')
	for place := uint64(100_000); place > 0; place /= 10 {
		dst = append(dst, byte('0'+micro/place%10))
		if micro%place == 0 {
			break
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0 // start of the bytes not copied yet
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[plain:i]...)
		switch {
		case c >= utf8.RuneSelf:
			dst = append(dst, "\uFFFD"...)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
		i += size
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}
