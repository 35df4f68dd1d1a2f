package jinja

import (
	"fmt"
	"strconv"
)

// expression is a node that has a value. Evaluate it through run.eval, which pays for it.
type expression interface{ eval(r *run) Value }

// tuple reads one expression, or several between commas as a list. Before the if of a loop, that if is not its own.
func (p *parser) tuple(loop bool) expression {
	one := p.expression
	if loop {
		one = p.or
	}
	first := one()
	if !p.is(kindOperator, ",") {
		return first
	}
	items := &listNode{[]expression{first}}
	for p.take(kindOperator, ",") {
		if k := p.peek().kind; k == kindClose || k == kindFinish || k == kindEnd || p.is(kindOperator, ")", "=") {
			break
		}
		items.items = append(items.items, one())
	}
	return items
}

// expression reads a condition: x if y else z.
func (p *parser) expression() expression {
	defer p.nest()()
	x := p.or()
	for p.take(kindName, "if") {
		n := &conditionNode{then: x, condition: p.or()}
		if p.take(kindName, "else") {
			n.otherwise = p.expression()
		}
		x = n
	}
	return x
}

func (p *parser) or() expression {
	x := p.and()
	for p.take(kindName, "or") {
		x = &logicNode{or: true, left: x, right: p.and()}
	}
	return x
}

func (p *parser) and() expression {
	x := p.not()
	for p.take(kindName, "and") {
		x = &logicNode{left: x, right: p.not()}
	}
	return x
}

func (p *parser) not() expression {
	if p.take(kindName, "not") {
		defer p.nest()()
		return &notNode{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	first := p.sum()
	var rest []comparison
	for {
		operator := ""
		switch {
		case p.is(kindOperator, "==", "!=", "<", "<=", ">", ">="), p.is(kindName, "in"):
			operator = p.next().text
		case p.is(kindName, "not") && p.tokens[1].kind == kindName && p.tokens[1].text == "in":
			p.next()
			p.next()
			operator = "not in"
		default:
			if rest == nil {
				return first
			}
			return &compareNode{first, rest}
		}
		rest = append(rest, comparison{operator, p.sum()})
	}
}

func (p *parser) sum() expression {
	x := p.concat()
	for p.is(kindOperator, "+", "-") {
		operator := p.next().text
		right := p.concat()
		if terms, ok := x.(sumNode); ok && operator == "+" {
			x = append(terms, right)
		} else if operator == "+" {
			x = sumNode{x, right}
		} else {
			x = &arithmeticNode{operator, x, right}
		}
	}
	return x
}

func (p *parser) concat() expression {
	x := p.product()
	if !p.is(kindOperator, "~") {
		return x
	}
	parts := []expression{x}
	for p.take(kindOperator, "~") {
		parts = append(parts, p.product())
	}
	return concatNode(parts)
}

func (p *parser) product() expression {
	x := p.power()
	for p.is(kindOperator, "*", "/", "//", "%") {
		x = &arithmeticNode{p.next().text, x, nil}
		x.(*arithmeticNode).right = p.power()
	}
	return x
}

func (p *parser) power() expression {
	x := p.unary(true)
	for p.take(kindOperator, "**") {
		x = &arithmeticNode{"**", x, p.unary(true)}
	}
	return x
}

func (p *parser) unary(filtered bool) expression {
	var x expression
	if p.is(kindOperator, "-", "+") {
		defer p.nest()()
		x = &signNode{p.next().text == "-", p.unary(false)}
	} else {
		x = p.postfix(p.primary())
	}
	if filtered {
		x = p.filters(x, false)
	}
	return x
}

func (p *parser) primary() expression {
	switch t := p.next(); t.kind {
	case kindName:
		switch t.text {
		case "true", "True":
			return literal{true}
		case "false", "False":
			return literal{false}
		case "none", "None":
			return literal{nil}
		}
		return nameNode(t.text)
	case kindString:
		text := t.text
		for p.peek().kind == kindString {
			text += p.next().text
		}
		return literal{text}
	case kindInteger:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			p.fail(t, "%s is beyond 64 bits", t.text)
		}
		return literal{n}
	case kindFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail(t, "%s is beyond 64 bits", t.text)
		}
		return literal{f}
	case kindOperator:
		switch t.text {
		case "(":
			if p.take(kindOperator, ")") {
				return &listNode{}
			}
			x := p.tuple(false)
			p.expect(kindOperator, ")")
			return x
		case "[":
			return &listNode{p.items("]")}
		case "{":
			return p.dict()
		}
		p.unexpected(t, "an expression")
	default:
		p.unexpected(t, "an expression")
	}
	return literal{nil}
}

func (p *parser) items(end string) (items []expression) {
	for p.err == nil && !p.take(kindOperator, end) {
		if len(items) > 0 {
			p.expect(kindOperator, ",")
			if p.take(kindOperator, end) {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) dict() expression {
	n := &dictNode{}
	for p.err == nil && !p.take(kindOperator, "}") {
		if len(n.keys) > 0 {
			p.expect(kindOperator, ",")
			if p.take(kindOperator, "}") {
				break
			}
		}
		n.keys = append(n.keys, p.expression())
		p.expect(kindOperator, ":")
		n.values = append(n.values, p.expression())
	}
	return n
}

// postfix reads members, items and calls after x.
func (p *parser) postfix(x expression) expression {
	for {
		switch {
		case p.take(kindOperator, "."):
			if t := p.next(); t.kind == kindInteger {
				i, err := strconv.ParseInt(t.text, 10, 64)
				if err != nil {
					p.fail(t, "%s is beyond 64 bits", t.text)
				}
				x = &itemNode{x, literal{i}}
			} else if t.kind == kindName {
				x = &memberNode{x, t.text}
			} else {
				p.unexpected(t, "a name")
			}
		case p.take(kindOperator, "["):
			x = p.subscript(x)
		case p.is(kindOperator, "("):
			x = &callNode{f: x, arguments: p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) subscript(x expression) expression {
	var parts [3]expression // start, stop, step
	colons := 0
	for p.err == nil && !p.take(kindOperator, "]") {
		switch {
		case colons < 2 && p.take(kindOperator, ":"):
			colons++
		case parts[colons] == nil:
			parts[colons] = p.expression()
		default:
			p.unexpected(p.peek(), "]")
		}
	}
	if colons > 0 {
		return &sliceNode{x, parts}
	}
	if parts[0] == nil {
		p.unexpected(p.peek(), "an index")
	}
	return &itemNode{x, parts[0]}
}

func (p *parser) arguments() (a arguments) {
	p.expect(kindOperator, "(")
	for p.err == nil && !p.take(kindOperator, ")") {
		if len(a.list)+len(a.values) > 0 {
			p.expect(kindOperator, ",")
			if p.take(kindOperator, ")") {
				break
			}
		}
		switch t := p.peek(); {
		case p.is(kindOperator, "*", "**"):
			p.fail(t, "star arguments are not supported in chat templates")
		case t.kind == kindName && p.tokens[1].kind == kindOperator && p.tokens[1].text == "=":
			p.next()
			p.next()
			a.names = append(a.names, t.text)
			a.values = append(a.values, p.expression())
		case len(a.names) > 0:
			p.fail(t, "an argument without a name stands after one with a name")
		default:
			a.list = append(a.list, p.expression())
		}
	}
	return a
}

// filters reads filters and tests after x. bare begins with the name of a filter, as the filter block does.
func (p *parser) filters(x expression, bare bool) expression {
	for {
		switch {
		case bare || p.take(kindOperator, "|"):
			bare = false
			x = p.filter(x)
		case p.take(kindName, "is"):
			x = p.test(x)
		case p.is(kindOperator, "("):
			x = &callNode{f: x, arguments: p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) filter(x expression) expression {
	t := p.peek()
	n := &filterNode{x: x, name: p.name()}
	if n.filter = filters[n.name]; n.filter == nil {
		p.unknown(t, "filter")
		n.filter = func(r *run, _ Value, _ args) Value { return r.fail("unknown filter %q", n.name) }
	}
	if p.is(kindOperator, "(") {
		n.arguments = p.arguments()
	}
	return n
}

// unknown is a filter or a test that there is none of. Inside of an if it fails when it is used, as in jinja2: templates ask for
// the filters of other engines in branches that are not taken.
func (p *parser) unknown(t token, what string) {
	if p.ifs == 0 || t.kind != kindName {
		p.fail(t, "unknown %s %q", what, t.text)
	}
}

func (p *parser) test(x expression) expression {
	n := &testNode{x: x, negated: p.take(kindName, "not")}
	t := p.next()
	n.name = t.text
	if n.test = tests[n.name]; n.test == nil {
		p.unknown(t, "test")
		n.test = func(r *run, _ Value, _ args) bool { r.fail("unknown test %q", n.name); return false }
	}
	switch next := p.peek(); {
	case p.is(kindOperator, "("):
		n.arguments = p.arguments()
	case next.kind == kindName && !p.is(kindName, "else", "or", "and", "if", "is", "in", "not", "recursive"),
		next.kind == kindString, next.kind == kindInteger, next.kind == kindFloat, p.is(kindOperator, "[", "{"):
		n.arguments.list = []expression{p.postfix(p.primary())}
	}
	return n
}

// maxDescribed is how many members of members an error names.
const maxDescribed = 4

// describe names an expression in errors.
func describe(x expression, depth int) string {
	if depth == 0 {
		return "…"
	}
	switch x := x.(type) {
	case nameNode:
		return string(x)
	case *memberNode:
		return describe(x.x, depth-1) + "." + x.name
	case *itemNode:
		if key, ok := x.key.(literal); ok {
			return fmt.Sprintf("%s[%.40v]", describe(x.x, depth-1), key.value)
		}
		return describe(x.x, depth-1) + "[…]"
	}
	return "a value"
}
