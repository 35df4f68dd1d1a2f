package jinja

type memberNode struct {
	x    expression
	name string
}

func (n *memberNode) eval(r *run) Value {
	switch v := r.eval(n.x).(type) {
	case Undefined:
		return r.undefined(v)
	case *Dict:
		if m := dictMethods[n.name]; m != nil { // before a key of that name, as in Python
			return &Function{n.name, func(r *run, a args) Value { return m(r, v, a) }}
		}
		if member, found := v.get(n.name); found {
			return member
		}
	case string:
		if m := stringMethods[n.name]; m != nil {
			return &Function{n.name, func(r *run, a args) Value {
				if !r.spend(len(v)) {
					return Undefined{}
				}
				return m(r, v, a)
			}}
		}
	case List:
		switch n.name {
		case "append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort":
			return r.fail("%s changes a list, which chat templates must not; make another with +", n.name)
		case "index", "count":
			return &Function{n.name, func(r *run, a args) Value { return r.find(v, n.name, a) }}
		}
	case *loop:
		return v.member(n.name)
	case *namespace:
		if member, found := v.members.get(n.name); found {
			return member
		}
	case *cycler:
		return v.member(n.name)
	}
	return Undefined{of: n}
}

// find is a list's index or count.
func (r *run) find(l List, method string, a args) Value {
	count := int64(0)
	for i, item := range l {
		if r.equal(item, a.get(0, "value", nil)) {
			if method == "index" {
				return int64(i)
			}
			count++
		}
	}
	if method == "index" {
		return r.fail("the value is not in the list")
	}
	return count
}

type itemNode struct{ x, key expression }

func (n *itemNode) eval(r *run) Value {
	v, key := r.eval(n.x), r.eval(n.key)
	name, isName := key.(string)
	switch v := v.(type) {
	case Undefined:
		return r.undefined(v)
	case *Dict:
		if member, found := v.get(key); found {
			return member
		}
	case List:
		if i, ok := place(key, len(v)); ok {
			return v[i]
		}
	case string:
		if !r.spend(4 * len(v)) {
			return Undefined{}
		}
		runes := []rune(v)
		if i, ok := place(key, len(runes)); ok {
			return string(runes[i])
		}
	}
	if isName { // an item that is not there may be a member
		if _, isDict := v.(*Dict); !isDict || dictMethods[name] != nil {
			return (&memberNode{literal{v}, name}).eval(r)
		}
	}
	return Undefined{of: n}
}

// place is the index that a key means in n items, if it is one.
func place(key Value, n int) (int, bool) {
	i, ok := key.(int64)
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

type sliceNode struct {
	x     expression
	parts [3]expression // start, stop, step; nil for none
}

func (n *sliceNode) eval(r *run) Value {
	v := r.eval(n.x)
	var bounds [3]*int64
	for i, x := range n.parts {
		if x == nil {
			continue
		}
		switch part := r.eval(x).(type) {
		case nil:
		case int64:
			bounds[i] = &part
		default:
			return r.fail("a slice begins, ends or steps at %s", kindOf(part))
		}
	}
	switch v := v.(type) {
	case string:
		if !r.spend(4 * len(v)) {
			return Undefined{}
		}
		runes := []rune(v)
		var out []rune
		if r.slice(len(runes), bounds, func(i int) { out = append(out, runes[i]) }) {
			return string(out)
		}
		return Undefined{}
	case List:
		var out List
		if r.spend(itemCost*len(v)) && r.slice(len(v), bounds, func(i int) { out = append(out, v[i]) }) {
			return out
		}
		return Undefined{}
	case Undefined:
		return r.undefined(v)
	}
	return r.fail("a slice of %s", kindOf(v))
}

// slice yields the indices of a slice of n items, as CPython's PySlice_AdjustIndices has it.
func (r *run) slice(n int, bounds [3]*int64, yield func(int)) bool {
	length, step := int64(n), int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		r.fail("a slice steps by 0")
		return false
	}
	lowest, highest := int64(0), length
	start, stop := lowest, highest
	if step < 0 {
		lowest, highest = -1, length-1
		start, stop = highest, lowest
	}
	adjust := func(bound *int64, fallback int64) int64 {
		if bound == nil {
			return fallback
		}
		at := *bound
		if at < 0 {
			at += length
		}
		return min(max(at, lowest), highest)
	}
	start, stop = adjust(bounds[0], start), adjust(bounds[1], stop)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		yield(int(i))
		if step > length || step < -length {
			break // one was all, and the next index might be beyond 64 bits
		}
		i += step
	}
	return true
}
