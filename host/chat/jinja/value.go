package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is what a template computes with: nil, which is none, or a bool, int64, float64, string, List, *Dict, *Function or
// Undefined. Lists and dicts are not changed once a template has seen them, so that no value holds itself.
type Value = any

// List is a list or a tuple.
type List []Value

// Undefined is the value of a name or member that is not there.
type Undefined struct {
	name string     // for errors
	of   expression // the same, if name is empty; nil for none
}

// Function is what a template may call.
type Function struct {
	name string
	call func(r *run, a args) Value
}

// NewFunction makes a function of the host's.
func NewFunction(name string, call func(args []Value) (Value, error)) *Function {
	return &Function{name, func(r *run, a args) Value {
		for _, v := range a.list {
			if !r.spend(hostCost * weight(v)) {
				return Undefined{}
			}
		}
		v, err := call(a.list)
		if err != nil {
			return r.fail("%s: %w", name, err)
		}
		return v
	}}
}

// namespace is the one value that a template may change: its members are read and set, and it is never printed with them.
type namespace struct{ members *Dict }

// args are the arguments of a call.
type args struct {
	list  []Value
	named *Dict // nil for none
}

// get is the argument at place i, or of that name, or the fallback.
func (a args) get(i int, name string, fallback Value) Value {
	if i < len(a.list) {
		return a.list[i]
	}
	if v, found := a.named.get(name); found {
		return v
	}
	return fallback
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case List:
		return len(v) > 0
	case *Dict:
		return len(v.members) > 0
	}
	return true
}

// kindOf names a value's kind in Python's words.
func kindOf(v Value) string {
	switch v.(type) {
	case nil:
		return "none"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a string"
	case List:
		return "a list"
	case *Dict:
		return "a mapping"
	case Undefined:
		return "undefined"
	case *namespace:
		return "a namespace"
	case *Function:
		return "a function"
	}
	return "an object"
}

// number is a value as a float, and as an integer if it is one. Booleans count as in Python.
func number(v Value) (f float64, i int64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==.
func (r *run) equal(a, b Value) bool {
	if !r.enter() {
		return false
	}
	defer r.leave()
	if x, i, xInt, ok := number(a); ok {
		y, j, yInt, ok := number(b)
		return ok && (xInt && yInt && i == j || !(xInt && yInt) && x == y)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case string:
		b, ok := b.(string)
		return ok && r.spend(min(len(a), len(b))) && a == b
	case List:
		b, ok := b.(List)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !r.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.members) != len(b.members) {
			return false
		}
		for _, m := range a.members {
			if other, found := b.get(m.key); !found || !r.equal(m.value, other) {
				return false
			}
		}
		return true
	case *namespace:
		b, ok := b.(*namespace)
		return ok && a == b
	case *Function:
		b, ok := b.(*Function)
		return ok && a == b
	}
	return false
}

// less is Python's <.
func (r *run) less(a, b Value) bool {
	if x, i, xInt, ok := number(a); ok {
		if y, j, yInt, ok := number(b); ok {
			if xInt && yInt {
				return i < j
			}
			return x < y
		}
	}
	s, sOK := a.(string)
	t, tOK := b.(string)
	if !sOK || !tOK {
		r.fail("%s and %s have no order", kindOf(a), kindOf(b))
		return false
	}
	return r.spend(min(len(s), len(t))) && s < t
}

// print is Python's str.
func (r *run) print(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case Undefined:
		return ""
	}
	w := &writer{r: r}
	w.repr(v)
	return string(w.text)
}

// writer makes a text that is paid for.
type writer struct {
	r    *run
	text []byte
}

func (w *writer) add(s string) {
	if w.r.spend(len(s)) {
		w.text = append(w.text, s...)
	}
}

// repr is Python's repr.
func (w *writer) repr(v Value) {
	if !w.r.enter() {
		return
	}
	defer w.r.leave()
	switch v := v.(type) {
	case nil:
		w.add("None")
	case bool:
		if v {
			w.add("True")
		} else {
			w.add("False")
		}
	case int64:
		w.add(strconv.FormatInt(v, 10))
	case float64:
		w.add(formatFloat(v))
	case string:
		if w.r.spend(4 * len(v)) {
			w.text = appendRepr(w.text, v)
		}
	case Undefined:
		w.add("Undefined")
	case List:
		w.add("[")
		for i, item := range v {
			if i > 0 {
				w.add(", ")
			}
			w.repr(item)
		}
		w.add("]")
	case *Dict:
		w.add("{")
		for i, m := range v.members {
			if i > 0 {
				w.add(", ")
			}
			w.repr(m.key)
			w.add(": ")
			w.repr(m.value)
		}
		w.add("}")
	case *namespace:
		w.add("<Namespace>")
	case *Function:
		w.add("<function " + v.name + ">")
	default:
		w.add("<object>")
	}
}

// appendRepr quotes as Python does: with double quotes where the text has single ones alone.
func appendRepr(dst []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	dst = append(dst, quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20 || c == 0x7f || c > 0x7f && c < 0x100 && !unicode.IsPrint(c):
			dst = append(dst, `\x`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, quote)
}

const hex = "0123456789abcdef"

// formatFloat is Python's repr of a float: the shortest digits, an exponent below 1e-4 and from 1e16 on.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// weight is what it costs to go through a value once, without what its items hold.
func weight(v Value) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case List:
		return itemCost * len(v)
	case *Dict:
		return itemCost * len(v.members)
	}
	return 0
}
