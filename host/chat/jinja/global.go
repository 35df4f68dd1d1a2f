package jinja

// globals are the functions that every template has.
var globals map[string]*Function

func init() {
	globals = make(map[string]*Function)
	for name, call := range map[string]func(*run, args) Value{
		"range":     rangeOf,
		"namespace": func(r *run, a args) Value { return &namespace{r.dict(a)} },
		"dict":      func(r *run, a args) Value { return r.dict(a) },
		"joiner":    joiner,
		"cycler": func(r *run, a args) Value {
			if len(a.list) == 0 {
				return r.fail("cycler takes a value or more")
			}
			return &cycler{items: a.list}
		},
	} {
		globals[name] = &Function{name, call}
	}
}

// dict is a mapping of the named arguments, over those of a mapping.
func (r *run) dict(a args) *Dict {
	d := NewDict()
	sources := []Value{}
	if len(a.list) > 0 {
		sources = append(sources, a.list[0])
	}
	if a.named != nil {
		sources = append(sources, a.named)
	}
	for _, source := range sources {
		members, ok := source.(*Dict)
		if !ok {
			r.fail("a mapping is made of %s", kindOf(source))
			return d
		}
		if !r.spend(itemCost * len(members.members)) {
			return d
		}
		for _, m := range members.members {
			d.set(m.key, m.value)
		}
	}
	return d
}

func rangeOf(r *run, a args) Value {
	if len(a.list) < 1 || len(a.list) > 3 || a.named != nil {
		return r.fail("range takes 1 to 3 integers")
	}
	bounds := [3]int64{0, 0, 1} // start, stop, step
	for i, v := range a.list {
		_, n, isInt, _ := number(v)
		if !isInt {
			return r.fail("range takes integers, got %s", kindOf(v))
		}
		bounds[i] = n
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if len(a.list) == 1 {
		start, stop = 0, start
	}
	if step == 0 {
		return r.fail("range takes a step other than 0")
	}
	var items List
	for n := start; step > 0 && n < stop || step < 0 && n > stop; {
		if !r.spend(itemCost) {
			return Undefined{}
		}
		items = append(items, n)
		next := n + step
		if (next > n) != (step > 0) { // beyond 64 bits
			break
		}
		n = next
	}
	return items
}

// joiner gives nothing the first time it is called, and the separator after that.
func joiner(r *run, a args) Value {
	separator, called := a.get(0, "sep", ", "), false
	return &Function{"joiner", func(*run, args) Value {
		if !called {
			called = true
			return ""
		}
		return separator
	}}
}

// cycler gives its items in turn.
type cycler struct {
	items []Value
	at    int
}

func (c *cycler) member(name string) Value {
	switch name {
	case "current":
		return c.items[c.at]
	case "next":
		return &Function{"cycler.next", func(*run, args) Value {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v
		}}
	case "reset":
		return &Function{"cycler.reset", func(*run, args) Value {
			c.at = 0
			return nil
		}}
	}
	return Undefined{name: "cycler." + name}
}
