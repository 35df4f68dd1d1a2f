package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// ErrLimit is a rendering that took more than it may.
var ErrLimit = errors.New("the template does not come to an end within its limits")

// What a rendering pays. A unit is about a byte that is made or read.
const (
	stepCost = 32 // evaluating a node, a few of which take a microsecond
	itemCost = 32 // an item of a list or a mapping, which takes 16 bytes or more

	hostCost = 16 // a byte that a function of the host's is given, such as a date's format

	// baseBudget is a fraction of a second, and bounds the memory; templates of published models take less than a thousandth.
	baseBudget = 32 << 20
	// inputBudget is what each byte of the variables adds: templates look at a message's text a few times.
	inputBudget = 64

	// maxNesting bounds the evaluations inside each other, those of macros' bodies and of nested values included: of the order of
	// a kilobyte of stack each. A macro that goes down a JSON schema takes 8 for a level.
	maxNesting = 4000
)

// run is one rendering. The first error is kept: whatever is evaluated after it is undefined at once.
type run struct {
	err   error
	left  int64 // of the budget
	depth int
	line  int // of the tag that is evaluated
	scope *scope
	out   *strings.Builder
}

// fail keeps an error. It returns the value of what has failed.
func (r *run) fail(format string, arguments ...any) Value {
	if r.err == nil {
		r.err = fmt.Errorf("line %d: "+format, append([]any{r.line}, arguments...)...)
	}
	return Undefined{}
}

// spend pays for units of work before they are done. It reports whether they may be.
func (r *run) spend(units int) bool {
	if r.err != nil {
		return false
	}
	if r.left -= int64(units); r.left < 0 {
		r.fail("%w: it makes too much text or too many turns", ErrLimit)
		return false
	}
	return true
}

// enter begins a step, which leave ends if enter reports true.
func (r *run) enter() bool {
	if !r.spend(stepCost) {
		return false
	}
	if r.depth == maxNesting {
		r.fail("%w: macros, expressions or values are nested deeper than %d", ErrLimit, maxNesting)
		return false
	}
	r.depth++
	return true
}

func (r *run) leave() { r.depth-- }

func (r *run) eval(x expression) Value {
	if !r.enter() {
		return Undefined{}
	}
	v := x.eval(r)
	r.leave()
	return v
}

// repeat is s, n times.
func (r *run) repeat(s string, n int64) string {
	if n <= 0 || s == "" {
		return ""
	}
	if n > r.left || !r.spend(int(n)) || int64(len(s)) > r.left/n || !r.spend(int(n)*len(s)) {
		r.fail("%w: a string of %d bytes is repeated %d times", ErrLimit, len(s), n)
		return ""
	}
	return strings.Repeat(s, int(n))
}

// captured is what f writes.
func (r *run) captured(f func()) string {
	before := r.out
	r.out = new(strings.Builder)
	f()
	text := r.out.String()
	r.out = before
	return text
}

func (r *run) write(s string) {
	if r.spend(len(s)) {
		r.out.WriteString(s)
	}
}

// scope is the variables of a template, a turn of a loop, a macro's call.
type scope struct {
	variables []variable
	few       [4]variable // their first place
	parent    *scope
}

type variable struct {
	name  string
	value Value
}

func newScope(parent *scope) *scope {
	s := &scope{parent: parent}
	s.variables = s.few[:0]
	return s
}

func (s *scope) set(name string, v Value) {
	for i := range s.variables {
		if s.variables[i].name == name {
			s.variables[i].value = v
			return
		}
	}
	s.variables = append(s.variables, variable{name, v})
}

// lookup finds a variable: in the scopes from the inside out, then among the data and the functions of every template.
func (r *run) lookup(name string) Value {
	for s := r.scope; s != nil; s = s.parent {
		if !r.spend(len(s.variables)) {
			return Undefined{}
		}
		for i := range s.variables {
			if s.variables[i].name == name {
				return s.variables[i].value
			}
		}
	}
	if f, found := globals[name]; found {
		return f
	}
	return Undefined{name: name}
}

// inScope does f with a scope of its own inside of parent.
func (r *run) inScope(parent *scope, f func()) {
	before := r.scope
	r.scope = newScope(parent)
	f()
	r.scope = before
}
