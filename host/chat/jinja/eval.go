package jinja

import (
	"math"
	"strings"
)

type literal struct{ value Value }

func (n literal) eval(*run) Value { return n.value }

type nameNode string

func (n nameNode) eval(r *run) Value { return r.lookup(string(n)) }

type listNode struct{ items []expression }

func (n *listNode) eval(r *run) Value {
	items := make(List, len(n.items)) // as many as the source has
	for i, x := range n.items {
		items[i] = r.eval(x)
	}
	return items
}

type dictNode struct{ keys, values []expression }

func (n *dictNode) eval(r *run) Value {
	d := NewDict()
	for i, x := range n.keys {
		key := r.eval(x)
		if !d.set(key, r.eval(n.values[i])) {
			return r.fail("a key of a mapping is %s; chat templates take none, booleans, numbers and strings", kindOf(key))
		}
	}
	return d
}

type conditionNode struct{ condition, then, otherwise expression }

func (n *conditionNode) eval(r *run) Value {
	switch {
	case truth(r.eval(n.condition)):
		return r.eval(n.then)
	case n.otherwise != nil:
		return r.eval(n.otherwise)
	}
	return Undefined{name: "the other side of an if"}
}

type logicNode struct {
	or          bool
	left, right expression
}

func (n *logicNode) eval(r *run) Value {
	if left := r.eval(n.left); truth(left) == n.or {
		return left
	}
	return r.eval(n.right)
}

type notNode struct{ x expression }

func (n *notNode) eval(r *run) Value { return !truth(r.eval(n.x)) }

type comparison struct {
	operator string
	x        expression
}

type compareNode struct {
	first expression
	rest  []comparison
}

func (n *compareNode) eval(r *run) Value {
	left := r.eval(n.first)
	for _, c := range n.rest {
		right := r.eval(c.x)
		if !r.compare(c.operator, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) compare(operator string, left, right Value) bool {
	switch operator {
	case "==":
		return r.equal(left, right)
	case "!=":
		return !r.equal(left, right)
	case "<":
		return r.less(left, right)
	case ">":
		return r.less(right, left)
	case "<=":
		return r.less(left, right) || r.equal(left, right)
	case ">=":
		return r.less(right, left) || r.equal(left, right)
	case "in":
		return r.contains(right, left)
	}
	return !r.contains(right, left)
}

// contains is Python's in.
func (r *run) contains(container, v Value) bool {
	if !r.spend(weight(container)) {
		return false
	}
	switch c := container.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			r.fail("%s is looked for in a string", kindOf(v))
		}
		return ok && strings.Contains(c, s)
	case List:
		for _, item := range c {
			if r.equal(item, v) {
				return true
			}
			if r.err != nil {
				return false
			}
		}
	case *Dict:
		_, found := c.get(v)
		return found
	case Undefined: // jinja2's is empty
	default:
		r.fail("%s holds nothing that could be in it", kindOf(c))
	}
	return false
}

func (r *run) undefined(v Undefined) Value {
	name := v.name
	if name == "" {
		name = describe(v.of, maxDescribed)
	}
	return r.fail("%s is undefined", name)
}

type concatNode []expression

func (n concatNode) eval(r *run) Value {
	w := &writer{r: r}
	for _, x := range n {
		w.add(r.print(r.eval(x)))
	}
	return string(w.text)
}

type signNode struct {
	minus bool
	x     expression
}

func (n *signNode) eval(r *run) Value {
	v := r.eval(n.x)
	f, i, isInt, ok := number(v)
	switch {
	case !ok:
		return r.fail("the sign of %s", kindOf(v))
	case !n.minus && isInt:
		return i
	case !n.minus:
		return f
	case isInt && i == math.MinInt64:
		return r.fail("-%d is beyond 64 bits", i)
	case isInt:
		return -i
	}
	return -f
}

type arithmeticNode struct {
	operator    string
	left, right expression
}

func (n *arithmeticNode) eval(r *run) Value {
	left := r.eval(n.left)
	return r.arithmetic(n.operator, left, r.eval(n.right))
}

func (r *run) arithmetic(operator string, left, right Value) Value {
	if u, ok := left.(Undefined); ok {
		return r.undefined(u)
	}
	if u, ok := right.(Undefined); ok {
		return r.undefined(u)
	}
	switch operator {
	case "+":
		if v, ok := r.joined(left, right); ok {
			return v
		}
	case "*":
		if v, ok := r.multiplied(left, right); ok {
			return v
		}
		if v, ok := r.multiplied(right, left); ok {
			return v
		}
	}
	x, i, xInt, ok := number(left)
	y, j, yInt, ok2 := number(right)
	if !ok || !ok2 {
		return r.fail("%s %s %s", kindOf(left), operator, kindOf(right))
	}
	if xInt && yInt && operator != "/" && (operator != "**" || j >= 0) {
		return r.integers(operator, i, j)
	}
	return r.floats(operator, x, y)
}

// sumNode is two or more terms with + between them, which mostly are strings.
type sumNode []expression

func (n sumNode) eval(r *run) Value {
	var few [maxFew]Value
	terms, bytes := n.terms(r, few[:0])
	if bytes < 0 {
		return r.sum(terms)
	}
	if !r.spend(bytes) {
		return Undefined{}
	}
	var text strings.Builder
	text.Grow(bytes)
	for _, t := range terms {
		text.WriteString(t.(string))
	}
	return text.String()
}

// write writes the sum, strings without putting them together first.
func (n sumNode) write(r *run) {
	if !r.enter() {
		return
	}
	defer r.leave()
	var few [maxFew]Value
	terms, bytes := n.terms(r, few[:0])
	if bytes < 0 {
		r.write(r.print(r.sum(terms)))
		return
	}
	for _, t := range terms {
		r.write(t.(string))
	}
}

// maxFew is how many terms need no memory of their own.
const maxFew = 8

// terms appends the values of the terms, and gives the bytes of their text: -1 if one is no string.
func (n sumNode) terms(r *run, values []Value) (_ []Value, bytes int) {
	for _, x := range n {
		v := r.eval(x)
		values = append(values, v)
		if text, ok := v.(string); !ok || r.err != nil {
			bytes = -1
		} else if bytes >= 0 {
			bytes += len(text)
		}
	}
	return values, bytes
}

func (r *run) sum(terms []Value) Value {
	v := terms[0]
	for _, t := range terms[1:] {
		if r.err != nil {
			return Undefined{}
		}
		v = r.arithmetic("+", v, t)
	}
	return v
}

// joined is the sum of two strings or two lists.
func (r *run) joined(left, right Value) (Value, bool) {
	switch a := left.(type) {
	case string:
		if b, ok := right.(string); ok {
			if !r.spend(len(a) + len(b)) {
				return Undefined{}, true
			}
			return a + b, true
		}
	case List:
		if b, ok := right.(List); ok {
			if !r.spend(itemCost * (len(a) + len(b))) {
				return Undefined{}, true
			}
			return append(append(make(List, 0, len(a)+len(b)), a...), b...), true
		}
	}
	return nil, false
}

// multiplied is a string or a list, n times.
func (r *run) multiplied(left, right Value) (Value, bool) {
	_, n, isInt, _ := number(right)
	if !isInt {
		return nil, false
	}
	switch a := left.(type) {
	case string:
		return r.repeat(a, n), true
	case List:
		var all List
		for ; n > 0 && len(a) > 0 && r.spend(itemCost*len(a)); n-- {
			all = append(all, a...)
		}
		return all, true
	}
	return nil, false
}

func (r *run) integers(operator string, i, j int64) Value {
	overflow := func() Value { return r.fail("%d %s %d is beyond 64 bits", i, operator, j) }
	if j == 0 && (operator == "//" || operator == "%") {
		return r.fail("division of %d by zero", i)
	}
	switch operator {
	case "+":
		if sum := i + j; (sum > i) == (j > 0) {
			return sum
		}
		return overflow()
	case "-":
		if difference := i - j; (difference < i) == (j > 0) {
			return difference
		}
		return overflow()
	case "*":
		product := i * j
		if i != 0 && (product/i != j || i == -1 && j == math.MinInt64) {
			return overflow()
		}
		return product
	case "//":
		if i == math.MinInt64 && j == -1 {
			return overflow()
		}
		q := i / j
		if i%j != 0 && (i < 0) != (j < 0) {
			q-- // rounds down
		}
		return q
	case "%":
		if j == -1 {
			return int64(0)
		}
		m := i % j
		if m != 0 && (m < 0) != (j < 0) {
			m += j // has the divisor's sign
		}
		return m
	}
	power := int64(1)
	for ; j > 0 && r.spend(1); j-- {
		next := power * i
		if i != 0 && next/i != power {
			return overflow()
		}
		if next == power { // 0 and 1 stay
			return next
		}
		power = next
	}
	return power
}

func (r *run) floats(operator string, x, y float64) Value {
	if y == 0 && (operator == "/" || operator == "//" || operator == "%") {
		return r.fail("division of %v by zero", x)
	}
	switch operator {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	return math.Pow(x, y)
}

type arguments struct {
	list   []expression
	names  []string
	values []expression // of names
}

func (a *arguments) eval(r *run) args {
	var out args
	for _, x := range a.list {
		out.list = append(out.list, r.eval(x))
	}
	for i, name := range a.names {
		if out.named == nil {
			out.named = NewDict()
		}
		out.named.Set(name, r.eval(a.values[i]))
	}
	return out
}

type callNode struct {
	f         expression
	arguments arguments
}

func (n *callNode) eval(r *run) Value { return n.call(r, n.arguments.eval(r)) }

func (n *callNode) call(r *run, a args) Value {
	f := r.eval(n.f)
	if r.err != nil {
		return Undefined{}
	}
	function, ok := f.(*Function)
	if !ok {
		return r.fail("%s is not callable: it is %s", describe(n.f, maxDescribed), kindOf(f))
	}
	return function.call(r, a)
}

type filterNode struct {
	x         expression
	name      string
	filter    func(r *run, v Value, a args) Value
	arguments arguments
}

func (n *filterNode) eval(r *run) Value {
	v, a := r.eval(n.x), n.arguments.eval(r)
	if !r.spend(weight(v)) {
		return Undefined{}
	}
	return n.filter(r, v, a)
}

type testNode struct {
	x         expression
	name      string
	negated   bool
	test      func(r *run, v Value, a args) bool
	arguments arguments
}

func (n *testNode) eval(r *run) Value {
	v, a := r.eval(n.x), n.arguments.eval(r)
	if r.err != nil {
		return false
	}
	return n.test(r, v, a) != n.negated
}

// captureNode is what a block writes, as a string.
type captureNode struct{ body []statement }

func (n *captureNode) eval(r *run) Value {
	return r.captured(func() { r.inScope(r.scope, func() { r.exec(n.body) }) })
}
