package jinja

import "strings"

// tests by name, as jinja2's tests.py has them: what follows is.
var tests map[string]func(r *run, v Value, a args) bool

func init() {
	compared := func(operator string) func(*run, Value, args) bool {
		return func(r *run, v Value, a args) bool {
			return r.compare(operator, v, a.get(0, "other", Undefined{name: "what is compared with"}))
		}
	}
	parity := func(rest int64) func(*run, Value, args) bool {
		return func(r *run, v Value, _ args) bool {
			_, i, isInt, _ := number(v)
			if !isInt {
				r.fail("%s is odd or even", kindOf(v))
			}
			return i&1 == rest
		}
	}
	is := func(kinds ...string) func(*run, Value, args) bool {
		return func(_ *run, v Value, _ args) bool {
			for _, k := range kinds {
				if kindOf(v) == k {
					return true
				}
			}
			return false
		}
	}
	tests = map[string]func(*run, Value, args) bool{
		"defined": func(_ *run, v Value, _ args) bool {
			_, undefined := v.(Undefined)
			return !undefined
		},
		"undefined": is("undefined"),
		"none":      is("none"),
		"boolean":   is("a boolean"),
		"integer":   is("an integer"),
		"float":     is("a float"),
		"number":    is("a boolean", "an integer", "a float"),
		"string":    is("a string"),
		"mapping":   is("a mapping"),
		"iterable":  is("a string", "a list", "a mapping", "undefined"),
		"sequence":  is("a string", "a list", "a mapping", "undefined"),
		"callable":  is("a function", "undefined"),
		"true":      func(_ *run, v Value, _ args) bool { return v == true },
		"false":     func(_ *run, v Value, _ args) bool { return v == false },
		"odd":       parity(1),
		"even":      parity(0),
		"divisibleby": func(r *run, v Value, a args) bool {
			_, i, _, _ := number(v)
			_, j, isInt, _ := number(a.get(0, "num", nil))
			if !isInt || j == 0 {
				r.fail("divisibleby takes an integer other than 0")
				return false
			}
			return i%j == 0
		},
		"upper": func(r *run, v Value, _ args) bool { s := r.print(v); return s == strings.ToUpper(s) },
		"lower": func(r *run, v Value, _ args) bool { s := r.print(v); return s == strings.ToLower(s) },
		"sameas": func(r *run, v Value, a args) bool {
			return kindOf(v) == kindOf(a.get(0, "other", nil)) && r.equal(v, a.get(0, "other", nil))
		},
		"in": func(r *run, v Value, a args) bool {
			return r.contains(a.get(0, "seq", Undefined{name: "what is looked into"}), v)
		},
	}
	for operator, names := range map[string]string{
		"==": "eq equalto ==", "!=": "ne !=", "<": "lt lessthan <", "<=": "le <=", ">": "gt greaterthan >", ">=": "ge >=",
	} {
		for name := range strings.FieldsSeq(names) {
			tests[name] = compared(operator)
		}
	}
}
