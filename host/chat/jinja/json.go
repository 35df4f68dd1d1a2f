package jinja

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// FromJSON makes a value of a scalar as encoding/json's decoder gives it: null, a boolean, a string or a json.Number.
func FromJSON(v any) Value {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i
	}
	f, _ := n.Float64() // beyond its range it is infinite
	return f
}

// toJSON is the filter as transformers has it: Python's json.dumps, which leaves letters as they are.
func toJSON(r *run, v Value, a args) Value {
	e := &encoder{writer: writer{r: r}, item: ", ", key: ": ", sorted: truth(a.get(3, "sort_keys", false)), ascii: truth(a.get(0, "ensure_ascii", false))}
	switch width := a.get(1, "indent", nil).(type) {
	case nil:
	case string:
		e.indented, e.step = true, width
	default:
		_, n, _, ok := number(width)
		if !ok {
			return r.fail("tojson indents by %s", kindOf(width))
		}
		e.indented, e.step = true, r.repeat(" ", n)
	}
	if e.indented {
		e.item = ","
	}
	if separators, ok := a.get(2, "separators", nil).(List); ok {
		if len(separators) != 2 {
			return r.fail("tojson takes two separators")
		}
		e.item, e.key = r.text(separators[0]), r.text(separators[1])
	}
	e.encode(v, "\n")
	return string(e.text)
}

// encoder writes JSON.
type encoder struct {
	writer
	item, key, step         string
	indented, sorted, ascii bool
}

// encode writes v. line is the end of a line and the indentation of what is around v.
func (e *encoder) encode(v Value, line string) {
	if !e.r.enter() {
		return
	}
	defer e.r.leave()
	switch v := v.(type) {
	case nil:
		e.add("null")
	case bool:
		e.add(strconv.FormatBool(v))
	case int64:
		e.add(strconv.FormatInt(v, 10))
	case float64:
		e.add(jsonFloat(v))
	case string:
		e.quote(v)
	case List:
		e.members("[", "]", len(v), line, func(i int, line string) { e.encode(v[i], line) })
	case *Dict:
		members := v.members
		if e.sorted && e.r.spend(stepCost*len(members)) {
			members = slices.SortedStableFunc(slices.Values(members), e.order)
		}
		e.members("{", "}", len(members), line, func(i int, line string) {
			e.name(members[i].key)
			e.add(e.key)
			e.encode(members[i].value, line)
		})
	default:
		e.r.fail("tojson of %s", kindOf(v))
	}
}

// order is by keys.
func (e *encoder) order(a, b member) int {
	switch {
	case e.r.less(a.key, b.key):
		return -1
	case e.r.less(b.key, a.key):
		return 1
	}
	return 0
}

// name writes a key, which is a string in JSON.
func (e *encoder) name(key Value) {
	if text, ok := key.(string); ok {
		e.quote(text)
		return
	}
	e.add(`"`)
	e.encode(key, "")
	e.add(`"`)
}

// members writes what is inside of brackets.
func (e *encoder) members(open, end string, n int, line string, member func(i int, line string)) {
	e.add(open)
	inner := line
	if e.indented && n > 0 && e.r.spend(len(line)+len(e.step)) {
		inner += e.step
	}
	for i := range n {
		if i > 0 {
			e.add(e.item)
		}
		if e.indented {
			e.add(inner)
		}
		if member(i, inner); e.r.err != nil {
			return
		}
	}
	if e.indented && n > 0 {
		e.add(line)
	}
	e.add(end)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

// quote writes a string as Python's json does.
func (e *encoder) quote(s string) {
	if !e.r.spend(2 * len(s)) {
		return
	}
	b := append(e.text, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < 0x20 || e.ascii && c >= 0x7f && c <= 0xffff:
			b = appendUnit(b, uint16(c))
		case e.ascii && c > 0xffff: // as two surrogates
			b = appendUnit(appendUnit(b, uint16(0xd800+(c-0x10000)>>10)), uint16(0xdc00+(c-0x10000)&0x3ff))
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	e.text = append(b, '"')
}

func appendUnit(b []byte, unit uint16) []byte {
	return append(b, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
