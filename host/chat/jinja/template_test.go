package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
)

// decode makes a value of a JSON document, objects with their keys in order.
func decode(t testing.TB, dec *json.Decoder) Value {
	t.Helper()
	next := func() json.Token {
		token, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	switch token := next(); token {
	case json.Delim('{'):
		d := NewDict()
		for dec.More() {
			d.Set(next().(string), decode(t, dec))
		}
		next()
		return d
	case json.Delim('['):
		l := List{}
		for dec.More() {
			l = append(l, decode(t, dec))
		}
		next()
		return l
	default:
		return FromJSON(token)
	}
}

func variables(t testing.TB, document []byte) map[string]Value {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	return maps.Collect(decode(t, dec).(*Dict).All())
}

func render(source string, variables map[string]Value) (string, error) {
	template, err := Compile(source)
	if err != nil {
		return "", err
	}
	data := map[string]Value{"raise_exception": NewFunction("raise_exception", func([]Value) (Value, error) { return nil, errors.New("raised") })}
	for name, v := range variables {
		data[name] = v
	}
	return template.Render(data, 0)
}

// TestJinja2 compares with jinja2 (testdata/expected.py). What one refuses the other refuses.
func TestJinja2(t *testing.T) {
	document, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Variables json.RawMessage
		Cases     []struct {
			Template string
			Text     *string
		}
	}
	if err := json.Unmarshal(document, &expected); err != nil {
		t.Fatal(err)
	}
	if len(expected.Cases) < 80 {
		t.Fatalf("%d cases, want 80 or more", len(expected.Cases))
	}
	for _, c := range expected.Cases {
		got, err := render(c.Template, variables(t, expected.Variables))
		switch {
		case c.Text == nil && err == nil:
			t.Errorf("%q: got %q, want an error", c.Template, got)
		case c.Text != nil && err != nil:
			t.Errorf("%q: %v, want %q", c.Template, err, *c.Text)
		case c.Text != nil && got != *c.Text:
			t.Errorf("%q:\n got %q\nwant %q", c.Template, got, *c.Text)
		}
	}
}

// TestErrors: an error says where, what and why.
func TestErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a\nb {{ x":                     "line 2, col 3: the tag has no end }}",
		"a\n{% for x in y %}":           "line 2, col 1: the block has no endfor",
		"{{ a b }}":                     `line 1, col 6: "b" stands where }} is expected`,
		"\n{{ a ? b }}":                 "line 2, col 6: unexpected '?'",
		"{% extends 'x' %}":             "the statement extends is not supported",
		"{{ x | nope }}":                `unknown filter "nope"`,
		"{{ x is nope }}":               `unknown test "nope"`,
		"x\n\n{{ a.b.c }}":              "line 3: a is undefined",
		"{{ a }}\n{{ {'b': 1}.c.d() }}": "line 2: a value.c is undefined",
		"{{ f() }}":                     "f is not callable: it is undefined",
		"{{ l.append(1) }}":             "changes a list",
		"{{ 9223372036854775807 + 1 }}": "beyond 64 bits",
		"{{ 99999999999999999999 }}":    "beyond 64 bits",
		"{% set a.b = 1 %}":             "a is no namespace",
	} {
		_, err := render(source, map[string]Value{"l": List{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", source, err, want)
		}
	}
}

// hostile templates never end, or would take all memory or the whole stack.
var hostile = map[string]string{
	"a macro calls itself":         "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
	"two call each other":          "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
	"a macro is an argument":       "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
	"a macro is in a namespace":    "{% set n = namespace() %}{% macro f() %}{{ n.f() }}{% endmacro %}{% set n.f = f %}{{ f() }}",
	"a macro is in a list":         "{% macro f(l) %}{{ l[0](l) }}{% endmacro %}{{ f([f]) }}",
	"a macro is its own default":   "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
	"a macro calls its caller":     "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
	"recursion fans out":           "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(200) }}",
	"a long range":                 "{% for i in range(10 ** 9) %}{% endfor %}",
	"range as a list":              "{{ range(10 ** 12) | list | length }}",
	"loops in loops":               strings.Repeat("{% for i in range(1000) %}", 10) + strings.Repeat("{% endfor %}", 10),
	"loops over text":              strings.Repeat("{% for i in 'abcdefghijklmnopqrstuvwxyz' %}", 20) + strings.Repeat("{% endfor %}", 20),
	"text times a number":          "{{ 'x' * 10 ** 12 }}",
	"a number times text":          "{{ 9223372036854775807 * 'xy' }}",
	"a list times a number":        "{{ ([1] * 10 ** 12) | length }}",
	"text doubles":                 "{% set n = namespace(x='x') %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
	"text doubles by +":            "{% set n = namespace(x='x') %}{% for i in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
	"text doubles by join":         "{% set n = namespace(x='x') %}{% for i in range(64) %}{% set n.x = [n.x, n.x] | join %}{% endfor %}",
	"lists double":                 "{% set n = namespace(x=[1]) %}{% for i in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
	"a list of lists is printed":   "{% set n = namespace(x=[1]) %}{% for i in range(64) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
	"a list of lists is compared":  "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(64) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
	"a list of lists is JSON":      "{% set n = namespace(x=[1]) %}{% for i in range(64) %}{% set n.x = {'a': n.x, 'b': n.x} %}{% endfor %}{{ n.x | tojson }}",
	"a deep list is printed":       "{% set n = namespace(x=1) %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
	"a deep list is JSON":          "{% set n = namespace(x=1) %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson }}",
	"wide indentation":             "{{ 'a\nb' | indent(10 ** 12) }}",
	"wide JSON":                    "{{ [1] | tojson(indent=10 ** 12) }}",
	"replacements":                 "{% set x = 'x' * 10 ** 6 %}{{ x.replace('x', x) }}",
	"replacements of nothing":      "{% set x = 'x' * 10 ** 6 %}{{ x | replace('', x) }}",
	"a wide separator":             "{% set x = 'x' * 10 ** 6 %}{{ range(1000) | join(x) }}",
	"text is written again":        "{% set x = 'x' * 10 ** 6 %}{% for i in range(1000) %}{{ x }}{% endfor %}",
	"text is cut again":            "{% set x = 'x' * 10 ** 6 %}{% for i in range(1000) %}{{ x[1:] | length }}{{ x.split('x') | length }}{% endfor %}",
	"text is searched again":       "{% set x = 'x' * 10 ** 6 %}{% for i in range(10 ** 5) %}{{ 'y' in x }}{% endfor %}",
	"text is stripped of all":      "{% set x = 'ab' * 10 ** 6 %}{{ x.strip(x) }}",
	"filters go through it all":    "{% set x = 'x' * 10 ** 6 %}{% for i in range(10 ** 5) %}{{ [x, x] | map('length') | sum }}{% endfor %}",
	"sorting":                      "{% for i in range(1000) %}{{ range(10000) | sort(reverse=true) | first }}{% endfor %}",
	"unlike values":                "{{ range(10 ** 5) | unique | list | length }}",
	"many names":                   "{% set a = 1 %}{% for i in range(10 ** 6) %}{% set b = i %}{{ a }}{% endfor %}",
	"a long chain of operators":    "{{ 1" + strings.Repeat(" - 1", 100_000) + " }}",
	"a long chain of members":      "{% set n = namespace() %}{% set n.n = n %}{{ n" + strings.Repeat(".n", 100_000) + " }}",
	"a long chain of filters":      "{{ 1" + strings.Repeat(" | abs", 100_000) + " }}",
	"brackets in brackets":         "{{ " + strings.Repeat("(", 300_000) + "1" + strings.Repeat(")", 300_000) + " }}",
	"lists in lists":               "{{ " + strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000) + " }}",
	"items of items":               "{{ a" + strings.Repeat("[a", 300_000) + strings.Repeat("]", 300_000) + " }}",
	"signs":                        "{{ " + strings.Repeat("-", 500_000) + "1 }}",
	"not not":                      "{{ " + strings.Repeat("not ", 200_000) + "1 }}",
	"else else":                    "{{ 1" + strings.Repeat(" if 1 else 1", 50_000) + " }}",
	"blocks in blocks":             strings.Repeat("{% if 1 %}", 100_000) + strings.Repeat("{% endif %}", 100_000),
	"blocks without an end":        strings.Repeat("{% for a in b %}", 60_000),
	"captures in captures":         strings.Repeat("{% set a %}", 90_000),
	"calls in calls":               strings.Repeat("{% call a() %}", 70_000),
	"filters in filters":           strings.Repeat("{% filter upper %}", 50_000),
	"tests of tests":               "{{ 1" + strings.Repeat(" is eq 1", 100_000) + " }}",
	"a power of a power":           "{{ 9 ** 9 ** 9 ** 9 }}",
	"a power that stays":           "{% for i in range(10 ** 5) %}{{ (-1) ** 9223372036854775807 }}{% endfor %}",
	"a step of a slice":            "{% for i in range(10 ** 7) %}{{ 'abc'[0:9223372036854775807:9223372036854775807] }}{% endfor %}",
	"batches":                      "{{ range(10 ** 6) | batch(1) | list | length }}",
	"items of a growing mapping":   "{% set n = namespace(d=dict()) %}{% for i in range(10 ** 5) %}{% set n.d = dict(n.d, **{}) %}{% endfor %}",
	"mappings are copied":          "{% set n = namespace(d=dict(a=1, b=2, c=3)) %}{% for i in range(10 ** 6) %}{% set n.d = dict(n.d, z=i) %}{% endfor %}",
	"a host's function":            "{% for i in range(10 ** 6) %}{{ echo('x' * 1000) }}{% endfor %}",
	"a comment without an end":     strings.Repeat("{#", 100_000),
	"raw without an end":           strings.Repeat("{% raw %}", 50_000),
	"many tags that end no block":  strings.Repeat("{% endif %}", 90_000),
	"a cycler that goes on":        "{% set c = cycler(1, 2) %}{% for i in range(10 ** 7) %}{{ c.next() }}{% endfor %}",
	"nothing is written for ever":  strings.Repeat("{% for i in range(4000) %}", 3) + strings.Repeat("{% endfor %}", 3),
	"conditions of loops":          "{% for i in range(10 ** 6) if range(1000) | sum < 0 %}{% endfor %}",
	"selected by a test":           "{% for i in range(10 ** 6) %}{{ range(1000) | select('odd') | list }}{% endfor %}",
	"a macro writes into its text": "{% macro f(n, s) %}{% if n %}{{ f(n - 1, s ~ s) }}{% endif %}{% endmacro %}{{ f(64, 'x') }}",
}

// TestHostile: each ends with an error, in a time and memory that the budget bounds; that the test ends at all is half of it.
func TestHostile(t *testing.T) {
	for name, source := range hostile {
		t.Run(name, func(t *testing.T) {
			text, err := render(source, map[string]Value{"echo": NewFunction("echo", func(a []Value) (Value, error) { return a[0], nil })})
			if err == nil {
				t.Fatalf("got a text of %d bytes, want an error", len(text))
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestBudgetGrowsWithInput: what a rendering may take is bounded by what it is given, so that a long conversation is no loop.
func TestBudgetGrowsWithInput(t *testing.T) {
	template, err := Compile("{% for i in range(200) %}{{ x }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	x := strings.Repeat("x", 1<<20)
	if _, err := template.Render(map[string]Value{"x": x}, 0); !errors.Is(err, ErrLimit) {
		t.Errorf("200 MB of text from nothing: got %v, want %v", err, ErrLimit)
	}
	if text, err := template.Render(map[string]Value{"x": x}, 4*len(x)); err != nil || len(text) != 200<<20 {
		t.Errorf("with 4 MB given: %d bytes, %v", len(text), err)
	}
}

// FuzzRender: no template takes the process down, nor more than its budget.
func FuzzRender(f *testing.F) {
	document, err := os.ReadFile("testdata/snippets.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(document)) {
		f.Add(line)
	}
	for _, source := range hostile {
		if len(source) < 1000 {
			f.Add(source)
		}
	}
	data := variables(f, []byte(`{"l": [1, 2.5, "a", null], "d": {"k": "v", "items": [1]}, "s": "héllo\n wörld", "ms": [{"role": "user", "content": "<x>"}]}`))
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Compile(source)
		if err != nil {
			return
		}
		r := &run{left: 1 << 16, scope: newScope(nil), out: new(strings.Builder)}
		for name, v := range data {
			r.scope.set(name, v)
		}
		r.exec(template.nodes)
		if r.depth != 0 {
			t.Errorf("%q: %d steps have not ended", source, r.depth)
		}
		if r.out.Len() > 1<<16 {
			t.Errorf("%q: wrote %d bytes with a budget of %d", source, r.out.Len(), 1<<16)
		}
		if r.err != nil && !strings.HasPrefix(r.err.Error(), "line ") {
			t.Errorf("%q: %v", source, r.err)
		}
	})
}

func ExampleTemplate_Render() {
	template, err := Compile("{% for name in names %}Hello {{ name | title }}!\n{% endfor %}")
	if err != nil {
		panic(err)
	}
	text, err := template.Render(map[string]Value{"names": List{"ada", "grace"}}, 0)
	fmt.Print(text, err)
	// Output:
	// Hello Ada!
	// Hello Grace!
	// <nil>
}
