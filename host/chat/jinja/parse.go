package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxBlocks bounds what nests in a source: blocks and brackets. Published templates nest about 10 deep.
const maxBlocks = 200

// parser reads statements and, in expression.go, expressions, by the grammar of jinja2's parser.py. After the first error it
// sees the template's end only.
type parser struct {
	source string
	tokens []token
	depth  int
	ifs    int // around what is read
	err    error

	counted, lines int // bytes of the source in which lines were counted, and their number
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != kindEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// fail keeps the first error, at a token.
func (p *parser) fail(t token, format string, arguments ...any) {
	if p.err == nil {
		p.err = errorAt(p.source, t.at, format, arguments...)
	}
	p.tokens = p.tokens[len(p.tokens)-1:]
}

// unexpected is a token that has no place where it stands.
func (p *parser) unexpected(t token, wanted string) {
	what := map[kind]string{kindEnd: "the end of the template", kindClose: "}}", kindFinish: "%}", kindText: "text", kindOpen: "{{", kindBegin: "{%"}[t.kind]
	if what == "" {
		what = fmt.Sprintf("%q", t.text)
	}
	p.fail(t, "%s stands where %s is expected", what, wanted)
}

// is reports whether the next token is that operator or word.
func (p *parser) is(k kind, texts ...string) bool {
	t := p.peek()
	return t.kind == k && slices.Contains(texts, t.text)
}

// take takes the next token if it is that one.
func (p *parser) take(k kind, text string) bool {
	if !p.is(k, text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k kind, text string) {
	if !p.take(k, text) {
		p.unexpected(p.peek(), fmt.Sprintf("%q", text))
	}
}

func (p *parser) name() string {
	t := p.next()
	if t.kind != kindName {
		p.unexpected(t, "a name")
	}
	return t.text
}

// finish takes the end of a tag.
func (p *parser) finish() {
	if t := p.next(); t.kind != kindFinish {
		p.unexpected(t, "%}")
	}
}

// nest counts what is inside of something, until the function that it gives is called.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxBlocks {
		p.fail(p.peek(), "nested deeper than %d", maxBlocks)
	}
	return func() { p.depth-- }
}

// body reads up to a tag of one of the words, of which it takes the beginning and the word. Without words it reads all.
func (p *parser) body(opened token, ends ...string) (nodes []statement, end string) {
	defer p.nest()()
	for {
		switch t := p.next(); t.kind {
		case kindText:
			nodes = append(nodes, textNode(t.text))
		case kindOpen:
			line := p.line(t)
			x := p.tuple(false)
			if c := p.next(); c.kind != kindClose {
				p.unexpected(c, "}}")
			}
			nodes = append(nodes, &outputNode{line, x})
		case kindBegin:
			word := p.name()
			if slices.Contains(ends, word) {
				return nodes, word
			}
			if n := p.statement(t, word); n != nil {
				nodes = append(nodes, n)
			}
		default:
			if p.err == nil && len(ends) > 0 {
				p.fail(opened, "the block has no %s", ends[len(ends)-1])
			}
			return nodes, ""
		}
	}
}

// line is a tag's. Those that were asked for before stand before it.
func (p *parser) line(t token) int {
	if t.at > p.counted {
		p.lines += strings.Count(p.source[p.counted:t.at], "\n")
		p.counted = t.at
	}
	return 1 + p.lines
}

func (p *parser) statement(t token, word string) statement {
	switch word {
	case "if":
		return p.ifBlock(t)
	case "for":
		return p.forBlock(t)
	case "set":
		return p.set(t)
	case "macro":
		return p.macro(t)
	case "call":
		return p.callBlock(t)
	case "filter":
		x := p.filters(&captureNode{}, true)
		p.finish()
		body, _ := p.body(t, "endfilter")
		p.finish()
		innermost(x).body = body
		return &outputNode{p.line(t), x}
	case "break", "continue":
		p.finish()
		return jumpNode(word)
	case "generation": // transformers: marks what a model wrote, for training
		p.finish()
		body, _ := p.body(t, "endgeneration")
		p.finish()
		return groupNode(body)
	case "include", "import", "from", "extends", "block", "do", "with", "autoescape", "trans":
		p.fail(t, "the statement %s is not supported in chat templates", word)
	default:
		p.fail(t, "unknown statement %q", word)
	}
	return nil
}

// innermost is what a chain of filters begins with.
func innermost(x expression) *captureNode {
	for {
		switch n := x.(type) {
		case *filterNode:
			x = n.x
		case *captureNode:
			return n
		default:
			return &captureNode{} // after an error
		}
	}
}

func (p *parser) ifBlock(t token) statement {
	n := &ifNode{line: p.line(t)}
	p.ifs++
	defer func() { p.ifs-- }()
	for {
		condition := p.tuple(false)
		p.finish()
		body, end := p.body(t, "elif", "else", "endif")
		n.branches = append(n.branches, branch{condition, body})
		if end == "elif" {
			continue
		}
		p.finish()
		if end == "else" {
			n.otherwise, _ = p.body(t, "endif")
			p.finish()
		}
		return n
	}
}

func (p *parser) forBlock(t token) statement {
	n := &forNode{line: p.line(t), targets: p.targets()}
	p.expect(kindName, "in")
	n.items = p.tuple(true)
	if p.take(kindName, "if") {
		n.condition = p.expression()
	}
	if p.is(kindName, "recursive") {
		p.fail(p.peek(), "recursive loops are not supported in chat templates")
	}
	p.finish()
	var end string
	n.body, end = p.body(t, "else", "endfor")
	p.finish()
	if end == "else" {
		n.otherwise, _ = p.body(t, "endfor")
		p.finish()
	}
	return n
}

// targets are the names that are assigned to, between commas.
func (p *parser) targets() []string {
	bracket := p.take(kindOperator, "(")
	names := []string{p.name()}
	for p.take(kindOperator, ",") && p.peek().kind == kindName && !p.is(kindName, "in") {
		names = append(names, p.name())
	}
	if bracket {
		p.expect(kindOperator, ")")
	}
	return names
}

func (p *parser) set(t token) statement {
	n := &setNode{line: p.line(t), targets: p.targets()}
	if len(n.targets) == 1 && p.take(kindOperator, ".") {
		n.member = p.name()
	}
	if p.take(kindOperator, "=") {
		n.value = p.tuple(false)
		p.finish()
		return n
	}
	n.value = p.filters(&captureNode{}, false)
	p.finish()
	body, _ := p.body(t, "endset")
	p.finish()
	innermost(n.value).body = body
	return n
}

func (p *parser) parameters() (all []parameter) {
	p.expect(kindOperator, "(")
	for p.err == nil && !p.take(kindOperator, ")") {
		if len(all) > 0 {
			p.expect(kindOperator, ",")
		}
		one := parameter{name: p.name()}
		if p.take(kindOperator, "=") {
			one.fallback = p.expression()
		}
		all = append(all, one)
	}
	return all
}

func (p *parser) macro(t token) statement {
	n := &macroNode{line: p.line(t), name: p.name(), parameters: p.parameters()}
	p.finish()
	n.body, _ = p.body(t, "endmacro")
	p.finish()
	return n
}

func (p *parser) callBlock(t token) statement {
	n := &callBlockNode{line: p.line(t), caller: macroNode{line: p.line(t), name: "caller"}}
	if p.is(kindOperator, "(") {
		n.caller.parameters = p.parameters()
	}
	at := p.peek()
	call, ok := p.unary(false).(*callNode)
	if !ok {
		p.fail(at, "call takes the call of a macro")
		return nil
	}
	n.call = call
	p.finish()
	n.caller.body, _ = p.body(t, "endcall")
	p.finish()
	return n
}

// Template is a source that was read. It may be rendered by many goroutines.
type Template struct{ nodes []statement }

// Compile reads a template. The error names line and column.
func Compile(source string) (*Template, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.TrimSuffix(source, "\n") // keep_trailing_newline=False
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{source: source, tokens: tokens}
	nodes, _ := p.body(token{})
	if p.err == nil && p.peek().kind != kindEnd {
		p.err = errors.New("the template goes on after its end") // body reads all
	}
	return &Template{nodes}, p.err
}

// Render is the template's text for the variables. size is about how many bytes they hold, which the budget grows with.
func (t *Template) Render(variables map[string]Value, size int) (string, error) {
	r := &run{left: baseBudget + inputBudget*int64(size), out: new(strings.Builder)}
	r.out.Grow(size)
	data := &scope{variables: make([]variable, 0, len(variables))}
	for name, v := range variables {
		data.variables = append(data.variables, variable{name, v})
	}
	r.scope = newScope(data)
	r.exec(t.nodes)
	return r.out.String(), r.err
}
