package jinja

// statement is a node that writes text or sets variables.
type statement interface{ exec(r *run) jump }

// jump is how a statement ends: on, or out of the turn or the loop that it is in.
type jump uint8

const (
	goOn jump = iota
	toNextTurn
	outOfLoop
)

func (r *run) exec(nodes []statement) jump {
	if !r.enter() {
		return goOn
	}
	defer r.leave()
	for _, n := range nodes {
		if !r.spend(stepCost) {
			return goOn
		}
		if j := n.exec(r); j != goOn {
			return j
		}
	}
	return goOn
}

type textNode string

func (n textNode) exec(r *run) jump {
	r.write(string(n))
	return goOn
}

type outputNode struct {
	line int
	x    expression
}

func (n *outputNode) exec(r *run) jump {
	r.line = n.line
	if sum, ok := n.x.(sumNode); ok {
		sum.write(r)
	} else {
		r.write(r.print(r.eval(n.x)))
	}
	return goOn
}

type groupNode []statement

func (n groupNode) exec(r *run) jump { return r.exec(n) }

type jumpNode string

func (n jumpNode) exec(*run) jump {
	if n == "break" {
		return outOfLoop
	}
	return toNextTurn
}

type branch struct {
	condition expression
	body      []statement
}

type ifNode struct {
	line      int
	branches  []branch
	otherwise []statement
}

func (n *ifNode) exec(r *run) jump {
	for _, b := range n.branches {
		r.line = n.line
		if truth(r.eval(b.condition)) {
			return r.exec(b.body)
		}
	}
	return r.exec(n.otherwise)
}

type setNode struct {
	line    int
	targets []string
	member  string // of the one target, a namespace
	value   expression
}

func (n *setNode) exec(r *run) jump {
	r.line = n.line
	v := r.eval(n.value)
	if n.member == "" {
		r.assign(n.targets, v)
		return goOn
	}
	space, ok := r.lookup(n.targets[0]).(*namespace)
	if !ok {
		r.fail("%s is no namespace, so that %s can't be set", n.targets[0], n.member)
		return goOn
	}
	space.members.Set(n.member, v)
	return goOn
}

// assign sets one name, or as many as a list has items.
func (r *run) assign(targets []string, v Value) {
	if len(targets) == 1 {
		r.scope.set(targets[0], v)
		return
	}
	items, ok := r.items(v)
	if !ok {
		return
	}
	if len(items) != len(targets) {
		r.fail("%d values for %d names", len(items), len(targets))
		return
	}
	for i, name := range targets {
		r.scope.set(name, items[i])
	}
}

// items is what a loop over a value goes through.
func (r *run) items(v Value) (List, bool) {
	switch v := v.(type) {
	case List:
		return v, true
	case Undefined:
		return nil, true
	case *Dict:
		if !r.spend(itemCost * len(v.members)) {
			return nil, false
		}
		keys := make(List, len(v.members))
		for i, m := range v.members {
			keys[i] = m.key
		}
		return keys, true
	case string:
		if !r.spend(itemCost * len(v)) {
			return nil, false
		}
		var runes List
		for _, c := range v {
			runes = append(runes, string(c))
		}
		return runes, true
	}
	r.fail("%s is looped over", kindOf(v))
	return nil, false
}

type forNode struct {
	line            int
	targets         []string
	items           expression
	condition       expression // nil for none
	body, otherwise []statement
}

func (n *forNode) exec(r *run) jump {
	r.line = n.line
	items, ok := r.items(r.eval(n.items))
	if !ok {
		return goOn
	}
	if n.condition != nil {
		items = n.chosen(r, items)
	}
	if len(items) == 0 {
		return r.exec(n.otherwise)
	}
	outer := r.scope
	turn := &loop{items: items}
	inner := newScope(outer) // all turns', so that a macro sees the one that is going on
	for i := range items {
		inner.variables = inner.variables[:0]
		r.line, r.scope, turn.i = n.line, inner, i
		inner.set("loop", turn)
		r.assign(n.targets, items[i])
		if r.exec(n.body) == outOfLoop || r.err != nil {
			break
		}
	}
	r.scope = outer
	return goOn
}

// chosen are the items that the loop's condition holds for.
func (n *forNode) chosen(r *run, items List) List {
	var chosen List
	for _, item := range items {
		r.inScope(r.scope, func() {
			r.assign(n.targets, item)
			if truth(r.eval(n.condition)) && r.spend(itemCost) {
				chosen = append(chosen, item)
			}
		})
		if r.err != nil {
			return nil
		}
	}
	return chosen
}

// loop is the variable of that name in a loop.
type loop struct {
	items List
	i     int
}

func (l *loop) member(name string) Value {
	at := func(i int) Value {
		if i < 0 || i >= len(l.items) {
			return Undefined{name: "loop." + name}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(l.i + 1)
	case "index0":
		return int64(l.i)
	case "revindex":
		return int64(len(l.items) - l.i)
	case "revindex0":
		return int64(len(l.items) - l.i - 1)
	case "first":
		return l.i == 0
	case "last":
		return l.i == len(l.items)-1
	case "length":
		return int64(len(l.items))
	case "previtem":
		return at(l.i - 1)
	case "nextitem":
		return at(l.i + 1)
	case "cycle":
		return &Function{"loop.cycle", func(r *run, a args) Value {
			if len(a.list) == 0 {
				return r.fail("loop.cycle takes a value or more")
			}
			return a.list[l.i%len(a.list)]
		}}
	}
	return Undefined{name: "loop." + name}
}

type parameter struct {
	name     string
	fallback expression // nil for none
}

type macroNode struct {
	line       int
	name       string
	parameters []parameter
	body       []statement
}

func (n *macroNode) exec(r *run) jump {
	r.scope.set(n.name, n.bind(r.scope))
	return goOn
}

// bind makes a function of a macro. It sees the variables of where it stands.
func (n *macroNode) bind(around *scope) *Function {
	return &Function{n.name, func(r *run, a args) Value {
		if !r.enter() {
			return Undefined{}
		}
		defer r.leave()
		if len(a.list) > len(n.parameters) {
			return r.fail("%s takes %d arguments, not %d", n.name, len(n.parameters), len(a.list))
		}
		line := r.line
		text := r.captured(func() {
			r.inScope(around, func() {
				n.pass(r, a)
				r.exec(n.body)
			})
		})
		r.line = line
		return text
	}}
}

// pass gives a call's arguments to the parameters.
func (n *macroNode) pass(r *run, a args) {
	known := func(name string) bool {
		for _, p := range n.parameters {
			if p.name == name {
				return true
			}
		}
		return name == "caller"
	}
	for _, m := range a.named.named() {
		name, _ := m.key.(string)
		if !known(name) {
			r.fail("%s has no parameter %s", n.name, name)
			return
		}
		r.scope.set(name, m.value)
	}
	for i, p := range n.parameters {
		_, named := a.named.get(p.name)
		switch {
		case i < len(a.list):
			r.scope.set(p.name, a.list[i])
		case named:
		case p.fallback != nil:
			r.scope.set(p.name, r.eval(p.fallback))
		default:
			r.scope.set(p.name, Undefined{name: p.name})
		}
	}
}

// callBlockNode calls a macro, which finds the block as caller.
type callBlockNode struct {
	line   int
	call   *callNode
	caller macroNode
}

func (n *callBlockNode) exec(r *run) jump {
	r.line = n.line
	a := n.call.arguments.eval(r)
	if a.named == nil {
		a.named = NewDict()
	}
	a.named.Set("caller", n.caller.bind(r.scope))
	r.write(r.print(n.call.call(r, a)))
	return goOn
}
