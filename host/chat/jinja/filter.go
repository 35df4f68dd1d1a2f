package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filters by name, as jinja2's filters.py has them. Going through the value once is paid for by who calls them.
var filters map[string]func(r *run, v Value, a args) Value

func init() {
	filters = map[string]func(r *run, v Value, a args) Value{
		"tojson": toJSON,
		"items": func(r *run, v Value, _ args) Value {
			switch v := v.(type) {
			case *Dict:
				return r.pairs(v)
			case Undefined:
				return List{}
			}
			return r.fail("items of %s", kindOf(v))
		},
		"string": func(r *run, v Value, _ args) Value { return r.print(v) },
		"safe":   func(r *run, v Value, _ args) Value { return r.print(v) },
		"trim": func(r *run, v Value, a args) Value {
			return r.strip(r.print(v), a, true, true)
		},
		"lower":      func(r *run, v Value, _ args) Value { return strings.ToLower(r.print(v)) },
		"upper":      func(r *run, v Value, _ args) Value { return strings.ToUpper(r.print(v)) },
		"title":      func(r *run, v Value, _ args) Value { return title(r.print(v)) },
		"capitalize": func(r *run, v Value, _ args) Value { return capitalize(r.print(v)) },
		"escape":     func(r *run, v Value, _ args) Value { return r.escape(r.print(v)) },
		"wordcount":  func(r *run, v Value, _ args) Value { return int64(len(strings.Fields(r.print(v)))) },
		"replace": func(r *run, v Value, a args) Value {
			count := a.get(2, "count", nil)
			return r.replace(r.print(v), r.print(a.get(0, "old", nil)), r.print(a.get(1, "new", nil)), count)
		},
		"indent": indent,
		"join": func(r *run, v Value, a args) Value {
			if attribute := a.get(1, "attribute", nil); attribute != nil {
				v = r.mapped(v, args{named: &Dict{members: []member{{"attribute", attribute}}}})
			}
			return r.join(v, r.print(a.get(0, "d", "")))
		},
		"default": func(_ *run, v Value, a args) Value {
			_, undefined := v.(Undefined)
			if undefined || truth(a.get(1, "boolean", false)) && !truth(v) {
				return a.get(0, "default_value", "")
			}
			return v
		},
		"length": func(r *run, v Value, _ args) Value { return length(r, v) },
		"first":  func(r *run, v Value, _ args) Value { return r.end(v, false) },
		"last":   func(r *run, v Value, _ args) Value { return r.end(v, true) },
		"list": func(r *run, v Value, _ args) Value {
			items, _ := r.items(v)
			return items
		},
		"reverse": func(r *run, v Value, _ args) Value {
			items, _ := r.items(v)
			turned := slices.Clone(items)
			slices.Reverse(turned)
			if _, text := v.(string); text {
				return r.join(turned, "")
			}
			return turned
		},
		"sort":       sorted,
		"unique":     unique,
		"dictsort":   dictSort,
		"batch":      batch,
		"map":        func(r *run, v Value, a args) Value { return r.mapped(v, a) },
		"select":     func(r *run, v Value, a args) Value { return r.selected(v, a, false, true) },
		"reject":     func(r *run, v Value, a args) Value { return r.selected(v, a, false, false) },
		"selectattr": func(r *run, v Value, a args) Value { return r.selected(v, a, true, true) },
		"rejectattr": func(r *run, v Value, a args) Value { return r.selected(v, a, true, false) },
		"max": func(r *run, v Value, _ args) Value {
			return r.extreme(v, func(a, b Value) bool { return r.less(b, a) })
		},
		"min":   func(r *run, v Value, _ args) Value { return r.extreme(v, r.less) },
		"sum":   sum,
		"int":   toInt,
		"float": toFloat,
		"abs": func(r *run, v Value, _ args) Value {
			f, i, isInt, ok := number(v)
			switch {
			case !ok:
				return r.fail("the size of %s", kindOf(v))
			case isInt && i < 0:
				return r.integers("*", i, -1)
			case isInt:
				return i
			}
			return math.Abs(f)
		},
		"round": round,
	}
	filters["d"], filters["e"], filters["count"] = filters["default"], filters["escape"], filters["length"]
}

func (r *run) escape(s string) Value {
	if !r.spend(5 * len(s)) { // &quot; has six
		return Undefined{}
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// indent puts spaces before each line but the first, and but those that are blank.
func indent(r *run, v Value, a args) Value {
	s := r.print(v)
	pad, isText := a.get(0, "width", int64(4)).(string)
	if !isText {
		_, width, _, _ := number(a.get(0, "width", int64(4)))
		pad = r.repeat(" ", width)
	}
	w := &writer{r: r}
	for i, line := range strings.Split(s, "\n") { // as many as s has bytes
		if i > 0 {
			w.add("\n")
		}
		if i == 0 && truth(a.get(1, "first", false)) || i > 0 && (line != "" || truth(a.get(2, "blank", false))) {
			w.add(pad)
		}
		w.add(line)
	}
	return string(w.text)
}

func length(r *run, v Value) Value {
	switch v := v.(type) {
	case string:
		n := int64(0)
		for range v {
			n++
		}
		return n
	case List:
		return int64(len(v))
	case *Dict:
		return int64(len(v.members))
	case Undefined:
		return int64(0)
	}
	return r.fail("the length of %s", kindOf(v))
}

// end is the first or the last item.
func (r *run) end(v Value, last bool) Value {
	items, _ := r.items(v)
	switch {
	case len(items) == 0:
		return Undefined{name: "an item of what is empty"}
	case last:
		return items[len(items)-1]
	}
	return items[0]
}

// folded is a value as it is compared where upper and lower case are the same.
func (r *run) folded(v Value, a args, i int) Value {
	s, ok := v.(string)
	if !ok || truth(a.get(i, "case_sensitive", false)) || !r.spend(len(s)) {
		return v
	}
	return strings.ToLower(s)
}

func (r *run) sortBy(items List, key func(Value) Value, reverse bool) List {
	type keyed struct{ key, value Value }
	if !r.spend(2 * itemCost * len(items)) {
		return nil
	}
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if !r.spend(stepCost) {
			return 0
		}
		if reverse {
			a, b = b, a
		}
		switch {
		case r.less(a.key, b.key):
			return -1
		case r.less(b.key, a.key):
			return 1
		}
		return 0
	})
	out := make(List, len(all))
	for i, one := range all {
		out[i] = one.value
	}
	return out
}

func sorted(r *run, v Value, a args) Value {
	items, _ := r.items(v)
	attribute := a.get(2, "attribute", nil)
	return r.sortBy(items, func(v Value) Value { return r.folded(r.attribute(v, attribute), a, 1) }, truth(a.get(0, "reverse", false)))
}

func dictSort(r *run, v Value, a args) Value {
	d, ok := v.(*Dict)
	if !ok {
		return r.fail("dictsort of %s", kindOf(v))
	}
	at := 0
	if a.get(1, "by", "key") == "value" {
		at = 1
	}
	pairs, _ := r.pairs(d).(List)
	return r.sortBy(pairs, func(v Value) Value { return r.folded(v.(List)[at], a, 0) }, truth(a.get(2, "reverse", false)))
}

func unique(r *run, v Value, a args) Value {
	items, _ := r.items(v)
	var out, keys List
	for _, item := range items {
		key := r.folded(r.attribute(item, a.get(1, "attribute", nil)), a, 0)
		if !r.contains(keys, key) {
			keys, out = append(keys, key), append(out, item)
		}
		if r.err != nil {
			return Undefined{}
		}
	}
	return out
}

func batch(r *run, v Value, a args) Value {
	items, _ := r.items(v)
	_, n, isInt, _ := number(a.get(0, "linecount", nil))
	if !isInt || n < 1 {
		return r.fail("batch takes the number of items in each, 1 or more")
	}
	var out List
	for len(items) > 0 && r.spend(2*itemCost) {
		k := int(min(n, int64(len(items))))
		out, items = append(out, slices.Clone(items[:k])), items[k:]
	}
	return out
}

// attribute is a member of v by a path such as function.name; v itself for none.
func (r *run) attribute(v Value, path Value) Value {
	if path == nil || !r.spend(stepCost) {
		return v
	}
	names, ok := path.(string)
	if !ok {
		return (&itemNode{literal{v}, literal{path}}).eval(r)
	}
	for name := range strings.SplitSeq(names, ".") {
		var key Value = name
		if i, err := strconv.ParseInt(name, 10, 64); err == nil {
			key = i
		}
		v = (&itemNode{literal{v}, literal{key}}).eval(r)
	}
	return v
}

// mapped is each item's attribute, or what a filter makes of it.
func (r *run) mapped(v Value, a args) Value {
	if !truth(v) { // none, too, which no loop takes
		return List{}
	}
	items, _ := r.items(v)
	var filter func(*run, Value, args) Value
	attribute, byAttribute := a.named.get("attribute")
	if !byAttribute {
		name := r.text(a.get(0, "filter", Undefined{name: "the filter of map"}))
		if filter = filters[name]; filter == nil {
			return r.fail("unknown filter %q", name)
		}
		a.list = a.list[1:]
	}
	fallback, hasFallback := a.named.get("default")
	var out List
	for _, item := range items {
		if !r.enter() || !r.spend(itemCost+weight(item)) {
			return Undefined{}
		}
		if byAttribute {
			item = r.attribute(item, attribute)
			if _, undefined := item.(Undefined); undefined && hasFallback {
				item = fallback
			}
		} else {
			item = filter(r, item, a)
		}
		out = append(out, item)
		r.leave()
	}
	return out
}

// selected are the items for which a test, or being true, has the outcome wanted. With byAttribute a member is tested.
func (r *run) selected(v Value, a args, byAttribute, wanted bool) Value {
	if !truth(v) { // none, too, which no loop takes
		return List{}
	}
	items, _ := r.items(v)
	var attribute Value
	if byAttribute {
		attribute = a.get(0, "attribute", Undefined{name: "the attribute"})
		a.list = a.list[min(1, len(a.list)):]
	}
	test := func(_ *run, v Value, _ args) bool { return truth(v) }
	if len(a.list) > 0 {
		name := r.text(a.list[0])
		if test = tests[name]; test == nil {
			return r.fail("unknown test %q", name)
		}
		a.list = a.list[1:]
	}
	var out List
	for _, item := range items {
		if !r.spend(stepCost + itemCost) {
			return Undefined{}
		}
		if test(r, r.attribute(item, attribute), a) == wanted {
			out = append(out, item)
		}
	}
	return out
}

func (r *run) extreme(v Value, before func(a, b Value) bool) Value {
	items, _ := r.items(v)
	if len(items) == 0 {
		return Undefined{name: "an item of what is empty"}
	}
	best := items[0]
	for _, item := range items[1:] {
		if r.spend(stepCost) && before(item, best) {
			best = item
		}
	}
	return best
}

func sum(r *run, v Value, a args) Value {
	items, _ := r.items(v)
	total := a.get(1, "start", Value(int64(0)))
	for _, item := range items {
		item = r.attribute(item, a.get(0, "attribute", nil))
		x, i, xInt, ok := number(total)
		y, j, yInt, ok2 := number(item)
		switch {
		case !ok || !ok2 || !r.spend(stepCost):
			return r.fail("the sum of %s and %s", kindOf(total), kindOf(item))
		case xInt && yInt:
			total = r.integers("+", i, j)
		default:
			total = x + y
		}
	}
	return total
}

func toInt(_ *run, v Value, a args) Value {
	fallback := a.get(0, "default", int64(0))
	f, i, isInt, ok := number(v)
	if s, isText := v.(string); isText {
		s = strings.TrimFunc(s, unicode.IsSpace)
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil {
			return n
		}
		if f, err = strconv.ParseFloat(s, 64); err == nil {
			ok = true
		}
	}
	switch {
	case isInt:
		return i
	case ok && math.Abs(f) < 1<<62:
		return int64(f)
	}
	return fallback
}

func toFloat(_ *run, v Value, a args) Value {
	if f, _, _, ok := number(v); ok {
		return f
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, unicode.IsSpace), 64); err == nil {
			return f
		}
	}
	return a.get(0, "default", 0.0)
}

// round is to the nearest, ties to even as Python's, or up or down.
func round(r *run, v Value, a args) Value {
	f, i, whole, ok := number(v)
	_, precision, _, isInt := number(a.get(0, "precision", int64(0)))
	if !ok || !isInt || precision < -300 || precision > 300 {
		return r.fail("%s is rounded to %s digits", kindOf(v), r.print(a.get(0, "precision", nil)))
	}
	switch method := a.get(1, "method", "common"); method {
	case "ceil":
		scale := math.Pow(10, float64(precision))
		return math.Ceil(f*scale) / scale
	case "floor":
		scale := math.Pow(10, float64(precision))
		return math.Floor(f*scale) / scale
	}
	if whole && precision >= 0 {
		return i
	}
	if precision < 0 {
		scale := math.Pow(10, float64(-precision))
		if f = math.RoundToEven(f/scale) * scale; whole && math.Abs(f) < 1<<62 {
			return int64(f)
		}
		return f
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
	if err != nil { // of infinity
		return f
	}
	return rounded
}
