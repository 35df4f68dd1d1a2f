package jinja

import (
	"strings"
	"unicode"
)

// dictMethods are those of Python's dict that change nothing.
var dictMethods map[string]func(r *run, d *Dict, a args) Value

func init() {
	dictMethods = map[string]func(r *run, d *Dict, a args) Value{
		"items": func(r *run, d *Dict, _ args) Value { return r.pairs(d) },
		"keys": func(r *run, d *Dict, _ args) Value {
			keys, _ := r.items(d)
			return keys
		},
		"values": func(r *run, d *Dict, _ args) Value {
			values, _ := r.items(d)
			for i := range values {
				values[i] = d.members[i].value
			}
			return values
		},
		"get": func(_ *run, d *Dict, a args) Value {
			if v, found := d.get(a.get(0, "key", nil)); found {
				return v
			}
			return a.get(1, "default", nil)
		},
	}
	for _, name := range []string{"pop", "popitem", "update", "clear", "setdefault"} {
		dictMethods[name] = func(r *run, _ *Dict, _ args) Value {
			return r.fail("%s changes a mapping, which chat templates must not", name)
		}
	}
}

// pairs are members as lists of key and value.
func (r *run) pairs(d *Dict) Value {
	if !r.spend(4 * itemCost * len(d.members)) {
		return Undefined{}
	}
	pairs := make(List, len(d.members))
	for i, m := range d.members {
		pairs[i] = List{m.key, m.value}
	}
	return pairs
}

// stringMethods are those of Python's str. Going through the string is paid for.
var stringMethods = map[string]func(r *run, s string, a args) Value{
	"strip":  func(r *run, s string, a args) Value { return r.strip(s, a, true, true) },
	"lstrip": func(r *run, s string, a args) Value { return r.strip(s, a, true, false) },
	"rstrip": func(r *run, s string, a args) Value { return r.strip(s, a, false, true) },
	"upper":  func(_ *run, s string, _ args) Value { return strings.ToUpper(s) },
	"lower":  func(_ *run, s string, _ args) Value { return strings.ToLower(s) },
	"title":  func(_ *run, s string, _ args) Value { return title(s) },
	"capitalize": func(_ *run, s string, _ args) Value {
		return capitalize(s)
	},
	"startswith": func(r *run, s string, a args) Value { return r.affix(s, a, strings.HasPrefix) },
	"endswith":   func(r *run, s string, a args) Value { return r.affix(s, a, strings.HasSuffix) },
	"removeprefix": func(r *run, s string, a args) Value {
		return strings.TrimPrefix(s, r.text(a.get(0, "prefix", Undefined{name: "a prefix"})))
	},
	"removesuffix": func(r *run, s string, a args) Value {
		return strings.TrimSuffix(s, r.text(a.get(0, "suffix", Undefined{name: "a suffix"})))
	},
	"split":      func(r *run, s string, a args) Value { return r.split(s, a, false) },
	"rsplit":     func(r *run, s string, a args) Value { return r.split(s, a, true) },
	"splitlines": func(r *run, s string, _ args) Value { return r.list(lines(s)) },
	"replace": func(r *run, s string, a args) Value {
		return r.replace(s, r.text(a.get(0, "old", nil)), r.text(a.get(1, "new", nil)), a.get(2, "count", int64(-1)))
	},
	"count": func(r *run, s string, a args) Value { return int64(strings.Count(s, r.text(a.get(0, "sub", nil)))) },
	"find": func(r *run, s string, a args) Value {
		return runesBefore(s, strings.Index(s, r.text(a.get(0, "sub", nil))))
	},
	"rfind": func(r *run, s string, a args) Value {
		return runesBefore(s, strings.LastIndex(s, r.text(a.get(0, "sub", nil))))
	},
	"index": func(r *run, s string, a args) Value {
		i := strings.Index(s, r.text(a.get(0, "sub", nil)))
		if i < 0 {
			return r.fail("the text is not in the string")
		}
		return runesBefore(s, i)
	},
	"format":  func(r *run, s string, a args) Value { return r.format(s, a) },
	"join":    func(r *run, s string, a args) Value { return r.join(a.get(0, "iterable", nil), s) },
	"isdigit": func(_ *run, s string, _ args) Value { return all(s, unicode.IsDigit) },
	"isalpha": func(_ *run, s string, _ args) Value { return all(s, unicode.IsLetter) },
	"isspace": func(_ *run, s string, _ args) Value { return all(s, unicode.IsSpace) },
	"isalnum": func(_ *run, s string, _ args) Value {
		return all(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
	},
	"isupper": func(_ *run, s string, _ args) Value { return s == strings.ToUpper(s) && s != strings.ToLower(s) },
	"islower": func(_ *run, s string, _ args) Value { return s == strings.ToLower(s) && s != strings.ToUpper(s) },
}

// text is an argument that must be a string.
func (r *run) text(v Value) string {
	s, ok := v.(string)
	if !ok {
		r.fail("%s where a string is needed", kindOf(v))
	}
	return s
}

func (r *run) strip(s string, a args, left, right bool) Value {
	space := unicode.IsSpace
	if chars := a.get(0, "chars", nil); chars != nil {
		set := r.text(chars)
		if !r.spend(len(set) * len(s) / 8) { // each rune may be looked for in the whole set
			return Undefined{}
		}
		space = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, space)
	}
	if right {
		s = strings.TrimRightFunc(s, space)
	}
	return s
}

// affix is startswith and endswith: with one of some strings, or a string.
func (r *run) affix(s string, a args, has func(s, affix string) bool) Value {
	one := a.get(0, "prefix", nil)
	choices, ok := one.(List)
	if !ok {
		return has(s, r.text(one))
	}
	for _, choice := range choices {
		if r.spend(stepCost) && has(s, r.text(choice)) {
			return true
		}
	}
	return false
}

func (r *run) split(s string, a args, fromRight bool) Value {
	n := -1
	if limit, ok := a.get(1, "maxsplit", int64(-1)).(int64); ok && limit >= 0 && limit < int64(len(s)) {
		n = int(limit) + 1
	}
	separator := a.get(0, "sep", nil)
	if separator == nil && n < 0 {
		return r.list(strings.Fields(s))
	}
	if separator == nil {
		return r.fail("split takes a separator where it takes a limit")
	}
	by := r.text(separator)
	if by == "" {
		return r.fail("split takes a separator that is not empty")
	}
	count := strings.Count(s, by) + 1
	if !r.spend(itemCost * count) {
		return Undefined{}
	}
	if !fromRight || n < 0 || n >= count {
		return r.list(strings.SplitN(s, by, n))
	}
	parts := strings.Split(s, by)
	head := strings.Join(parts[:count-n+1], by)
	return r.list(append([]string{head}, parts[count-n+1:]...))
}

// list makes a list of strings.
func (r *run) list(items []string) Value {
	if !r.spend(itemCost * len(items)) {
		return Undefined{}
	}
	list := make(List, len(items))
	for i, item := range items {
		list[i] = item
	}
	return list
}

// lines cuts at the ends of lines, of which the last makes no line.
func lines(s string) []string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func (r *run) replace(s, old, replacement string, count Value) Value {
	n := strings.Count(s, old)
	if limit, ok := count.(int64); ok && limit >= 0 && limit < int64(n) {
		n = int(limit)
	}
	if int64(n)*int64(len(replacement)) > r.left || !r.spend(len(s)+n*len(replacement)) {
		return r.fail("%w: %d replacements of %d bytes", ErrLimit, n, len(replacement))
	}
	return strings.Replace(s, old, replacement, n)
}

// runesBefore turns an index in bytes, or -1, into Python's.
func runesBefore(s string, i int) Value {
	if i < 0 {
		return int64(-1)
	}
	return int64(len([]rune(s[:i])))
}

func (r *run) join(v Value, separator string) Value {
	items, ok := r.items(v)
	if !ok {
		return Undefined{}
	}
	w := &writer{r: r}
	for i, item := range items {
		if i > 0 {
			w.add(separator)
		}
		w.add(r.print(item))
		if !r.spend(1) {
			return Undefined{}
		}
	}
	return string(w.text)
}

// title begins each word with a capital, as str.title does.
func title(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		letter := unicode.IsLetter(c)
		defer func() { inWord = letter }()
		if inWord {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}

func capitalize(s string) string {
	first := true
	return strings.Map(func(c rune) rune {
		if first {
			first = false
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func all(s string, is func(rune) bool) Value {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
}
