package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxDepth  = 64 // nested objects and lists in a body; tool schemas of real clients stay below 20
	maxFaults = 8  // faults spelled out in one message
	maxQuoted = 64 // bytes of a client's value repeated in a message
)

// decoder collects the faults of one request, so that a client learns all of them at once.
type decoder struct {
	faults []fault
	hidden int // faults beyond maxFaults
}

type fault struct{ param, text string }

// fault notes that the field param is not as it must be; the text follows the field's name in the message.
func (d *decoder) fault(param, format string, args ...any) {
	if len(d.faults) == maxFaults {
		d.hidden++
		return
	}
	d.faults = append(d.faults, fault{param, fmt.Sprintf(format, args...)})
}

// err is the refusal that names all faults, or nil. Its param is the first one's.
func (d *decoder) err() error {
	if len(d.faults) == 0 {
		return nil
	}
	var text strings.Builder
	for i, f := range d.faults {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(f.param + ": " + f.text)
	}
	if d.hidden > 0 {
		fmt.Fprintf(&text, "; and %d more", d.hidden)
	}
	return InvalidRequest(d.faults[0].param, text.String())
}

// members calls member for each member of the object that is the whole of body. A null counts as absent, so it is left out.
// The value is a part of body: keep copies.
func members(body []byte, member func(name string, v jsontext.Value)) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return InvalidRequest("", "the request body is empty; send a JSON object")
	}
	if tooDeep(body) {
		return InvalidRequest("", fmt.Sprintf("the request body nests deeper than %d objects and lists", maxDepth))
	}
	dec := decoderOf(body)
	defer dec.close()
	if kind := dec.PeekKind(); kind != '{' && kind != 0 {
		return InvalidRequest("", "the request body must be a JSON object, got "+kindName(kind))
	}
	if err := eachMember(dec.Decoder, member); err != nil {
		return notJSON(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return InvalidRequest("", fmt.Sprintf("the request body goes on after its JSON object, at byte %d", dec.InputOffset()))
	}
	return nil
}

// source is a decoder and what it reads, kept for the next body: a decoder has a kilobyte of state.
type source struct {
	*jsontext.Decoder
	text bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return &source{Decoder: new(jsontext.Decoder)} }}

// decoderOf reads text from its beginning. Close it.
func decoderOf(text []byte, options ...jsontext.Options) *source {
	s := decoders.Get().(*source)
	s.text = *bytes.NewBuffer(text)
	s.Reset(&s.text, options...)
	return s
}

// eachMember reads one object.
func eachMember(dec *jsontext.Decoder, member func(name string, v jsontext.Value)) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if v.Kind() != 'n' {
			member(key, v)
		}
	}
	_, err := dec.ReadToken()
	return err
}

// close lets go of the text and keeps the rest for the next one.
func (s *source) close() {
	s.text = bytes.Buffer{}
	s.Reset(&s.text)
	decoders.Put(s)
}

// part reads a value inside a body that members has read, so its names have been compared. Close it.
func part(v jsontext.Value) *source { return decoderOf(v, jsontext.AllowDuplicateNames(true)) }

// notJSON words a syntax error. The error's pointer is the field, as far as there is one.
func notJSON(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return InvalidRequest("", "the request body is not JSON: it ends too early")
	}
	var param strings.Builder
	for token := range syntax.JSONPointer.Tokens() {
		if param.Len()+len(token) > maxQuoted {
			break
		}
		if _, err := strconv.Atoi(token); err == nil {
			param.WriteString("[" + token + "]")
		} else {
			if param.Len() > 0 {
				param.WriteByte('.')
			}
			param.WriteString(strings.ToValidUTF8(token, "\uFFFD"))
		}
	}
	return InvalidRequest(param.String(), fmt.Sprintf("the request body is not JSON: %s at byte %d", cut(syntax.Err.Error()), syntax.ByteOffset))
}

// tooDeep reports whether body nests beyond maxDepth. It looks at brackets outside strings only; whether the body is JSON is
// for the decoder to say, which this spares unbounded recursion.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// object calls member for each member of v, an object inside a body that members has read.
func (d *decoder) object(param string, v jsontext.Value, member func(name string, v jsontext.Value)) {
	if v.Kind() != '{' {
		d.fault(param, "must be an object, got %s", found(v))
		return
	}
	dec := part(v)
	defer dec.close()
	if err := eachMember(dec.Decoder, member); err != nil {
		d.fault(param, "%v", err)
	}
}

// list calls item for each item of v, a list inside a body that members has read. Nulls are given too.
func (d *decoder) list(param string, v jsontext.Value, item func(param string, v jsontext.Value)) {
	if v.Kind() != '[' {
		d.fault(param, "must be a list, got %s", found(v))
		return
	}
	dec := part(v)
	defer dec.close()
	if _, err := dec.ReadToken(); err != nil {
		d.fault(param, "%v", err)
		return
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		value, err := dec.ReadValue()
		if err != nil {
			d.fault(param, "%v", err)
			return
		}
		item(param+"["+strconv.Itoa(i)+"]", value)
	}
}

// text is a string, copied.
func (d *decoder) text(param string, v jsontext.Value) string {
	if v.Kind() != '"' {
		d.fault(param, "must be a string, got %s", found(v))
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		d.fault(param, "%v", err)
	}
	return string(s)
}

// bool is true or false.
func (d *decoder) bool(param string, v jsontext.Value) bool {
	if v.Kind() != 't' && v.Kind() != 'f' {
		d.fault(param, "must be true or false, got %s", found(v))
	}
	return v.Kind() == 't'
}

// word is one of the allowed strings.
func (d *decoder) word(param string, v jsontext.Value, allowed ...string) string {
	s := d.text(param, v)
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	if v.Kind() == '"' {
		d.fault(param, "must be one of %s, got %s", strings.Join(allowed, ", "), found(v))
	}
	return ""
}

// interval is the range of a number. An end that is infinite is open.
type interval struct {
	low, high float64
	above     bool // low itself is excluded
}

func (r interval) holds(f float64) bool { return f <= r.high && (f > r.low || !r.above && f == r.low) }

func (r interval) String() string {
	switch {
	case math.IsInf(r.high, 1) && r.above:
		return fmt.Sprintf("above %v", r.low)
	case math.IsInf(r.high, 1):
		return fmt.Sprintf("at least %v", r.low)
	case r.above:
		return fmt.Sprintf("above %v and at most %v", r.low, r.high)
	}
	return fmt.Sprintf("from %v to %v", r.low, r.high)
}

// number is a number within the range. One that overflows, like 1e999, is not.
func (d *decoder) number(param string, v jsontext.Value, in interval) Opt[float64] {
	f, err := strconv.ParseFloat(string(v), 64)
	if v.Kind() != '0' || err != nil || math.IsInf(f, 0) || !in.holds(f) {
		d.fault(param, "must be a number %v, got %s", in, found(v))
		return Opt[float64]{}
	}
	return Some(f)
}

// integer is a whole number from low to high.
func (d *decoder) integer(param string, v jsontext.Value, low, high int64) Opt[int64] {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if v.Kind() == '0' && err == nil && low <= n && n <= high {
		return Some(n)
	}
	above := n > high || errors.Is(err, strconv.ErrRange) && n > 0
	switch {
	case high == math.MaxInt64:
		d.fault(param, "must be an integer of 64 bits, got %s", found(v))
	case high == math.MaxInt32 && !above: // a limit that no one meets only confuses
		d.fault(param, "must be an integer of at least %d, got %s", low, found(v))
	default:
		d.fault(param, "must be an integer from %d to %d, got %s", low, high, found(v))
	}
	return Opt[int64]{}
}

// count is an integer that fits into 32 bits and is not below low.
func (d *decoder) count(param string, v jsontext.Value, low int64) Opt[int] {
	n := d.integer(param, v, low, math.MaxInt32)
	return Opt[int]{int(n.Value), n.Set}
}

// few is an integer from 0 to high, which is small.
func (d *decoder) few(param string, v jsontext.Value, high int) Opt[int] {
	n := d.integer(param, v, 0, int64(high))
	return Opt[int]{int(n.Value), n.Set}
}

// compact is a copy of a value in one line, which an event of a stream needs.
func compact(v jsontext.Value) jsontext.Value {
	c := v.Clone()
	_ = c.Compact() // it fails for what is not JSON only, and members has read it
	return c
}

// found says what a value is, for a message.
func found(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		s, _ := jsontext.AppendUnquote(nil, v) // as much as there is will do for a message
		return "the string " + quoted(string(s))
	case '0', 't', 'f':
		if len(v) > maxQuoted {
			return "a number of " + strconv.Itoa(len(v)) + " digits"
		}
		return string(v)
	}
	return kindName(v.Kind())
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	}
	return k.String()
}

// quoted is a client's string for a message: cut, and with odd characters escaped.
func quoted(s string) string {
	if short := cut(s); short != s {
		return strconv.Quote(strings.TrimSuffix(short, "…")) + "…"
	}
	return strconv.Quote(s)
}

// cut is at most maxQuoted bytes of s, in whole characters, and a sign that there was more.
func cut(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	end := maxQuoted
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
