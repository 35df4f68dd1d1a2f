package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// generations is a Current over plugins in files of a folder.
type generations struct {
	*bench
	*Current
	t   testing.TB
	dir string
}

func newGenerations(t testing.TB) *generations {
	g := &generations{bench: newBench(t), t: t, dir: t.TempDir()}
	g.Current = NewCurrent(g.Host)
	t.Cleanup(func() {
		if err := g.Current.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// spec writes a module and describes its plugin.
func (g *generations) spec(name string, module *guest) Spec {
	g.t.Helper()
	path := filepath.Join(g.dir, name+".wasm")
	if err := os.WriteFile(path, module.assemble(), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return Spec{Name: name, Path: path, OnError: Closed, Grants: Grants{Fields: []string{"x_test"}}}
}

func (g *generations) reload(specs ...Spec) {
	g.t.Helper()
	if err := g.Reload(context.Background(), specs); err != nil {
		g.t.Fatal(err)
	}
}

// ask shapes a chat request of the set.
func ask(t testing.TB, s *Set) string {
	t.Helper()
	shaped, err := s.Chain("m", "t", EndpointChat).Shape(context.Background(), &Frame{}, new(State))
	if err != nil {
		return err.Error()
	}
	return string(shaped.Members)
}

func answering(n int) *guest { return goodGuest(fmt.Sprintf(`{"fields":{"x_test":%d}}`, n)) }

func TestReload(t *testing.T) {
	g := newGenerations(t)
	none := g.Acquire()
	if got := ask(t, none); got != "" {
		t.Errorf("without plugins: got %s", got)
	}
	none.Release()

	g.reload(g.spec("a", answering(1)))
	first := g.Acquire()
	g.reload(g.spec("a", answering(2)))
	second := g.Acquire()
	// The first generation's request goes on with its plugins.
	if got := ask(t, first) + " " + ask(t, second); got != `"x_test":1 "x_test":2` {
		t.Errorf("got %s", got)
	}
	old := first.Plugins()[0]
	if err := old.pool.closedError(); err != nil {
		t.Errorf("a plugin in use is closed: %v", err)
	}
	first.Release()
	<-old.pool.closed
	second.Release()
	if g.Acquire().Release(); len(second.Plugins()) != 1 || second.Plugins()[0].pool.closedError() != nil {
		t.Error("the current plugin is closed")
	}
}

func (p *pool) closedError() error {
	select {
	case <-p.closed:
		return errPoolClosed
	default:
		return nil
	}
}

// What has not changed is not loaded again; what has, is.
func TestReloadTakesOver(t *testing.T) {
	g := newGenerations(t)
	a, b := g.spec("a", answering(1)), g.spec("b", goodGuest(``))
	b.Grants = Grants{}
	g.reload(a, b)
	current := func() []*Plugin {
		s := g.Acquire()
		defer s.Release()
		return s.Plugins()
	}
	before := current()
	for _, c := range []struct {
		name   string
		change func(a *Spec)
		same   bool
	}{
		{"nothing", func(*Spec) {}, true},
		{"the match", func(a *Spec) { a.Match.Tenants = []string{"t"} }, true},
		{"the file's place", func(a *Spec) {
			to := filepath.Join(g.dir, "moved.wasm")
			if err := os.Rename(a.Path, to); err != nil {
				t.Fatal(err)
			}
			a.Path = to
		}, true},
		{"the config", func(a *Spec) { a.Config = []byte(`{"price":2}`) }, false},
		{"a grant", func(a *Spec) { a.Grants.Emit = true }, false},
		{"the policy", func(a *Spec) { a.OnError = Null }, false},
		{"the bytes", func(a *Spec) { a.Path = g.spec("a", answering(2)).Path }, false},
	} {
		c.change(&a)
		g.reload(b, a)
		after := current()
		if (after[1] == before[0]) != c.same || after[0] != before[1] {
			t.Errorf("%s changed: the plugin is the same: %v, the other: %v; want %v, true", c.name, after[1] == before[0], after[0] == before[1], c.same)
		}
		if open := before[0].pool.closedError() == nil; c.same != open {
			if c.same {
				t.Errorf("%s changed: the plugin was closed", c.name)
			}
			<-before[0].pool.closed
		}
		before = []*Plugin{after[1], after[0]}
	}
	g.reload()
	<-before[0].pool.closed
	<-before[1].pool.closed
}

// A reload that fails changes nothing and says which plugin and why.
func TestReloadKeepsWhatRuns(t *testing.T) {
	g := newGenerations(t)
	good := g.spec("good", answering(1))
	g.reload(good)
	before := g.Acquire()
	defer before.Release()
	spare := g.spec("spare", goodGuest(``))
	bad := func(module *guest) func() []Spec {
		return func() []Spec { return []Spec{good, g.spec("bad", module)} }
	}
	for _, c := range []struct {
		name  string
		specs func() []Spec
		want  []string
	}{
		{"no file", func() []Spec {
			missing := good
			missing.Path += ".gone"
			return []Spec{spare, missing}
		}, []string{`plugin "good"`, "no such file"}},
		{"hash", func() []Spec {
			pinned := good
			pinned.SHA256 = strings.Repeat("ab", 32)
			return []Spec{spare, pinned}
		}, []string{`plugin "good"`, "pins abab"}},
		{"a refused module", bad(goodGuest("").without(exportMarker)), []string{`plugin "bad"`, exportMarker}},
		{"init", bad(goodGuest("").with(exportInit, opI32(-1))), []string{`plugin "bad"`, "refused its configuration"}},
		{"self-test", bad(goodGuest("").with(exportShape, opUnreachable)), []string{`plugin "bad": self-test: hook shape, given a chat request: trap`}},
		{"its result", bad(goodGuest(`{"fields":{"id":1}}`)), []string{`plugin "bad": self-test`, "denied_key"}},
		{"its finish", bad(hookGuest(HookFinish, "x")), []string{`plugin "bad": self-test: hook finish`, "finish returned 1"}},
		{"the same field", bad(goodGuest(``)), []string{"may both write"}},
		{"the same name", func() []Spec { return []Spec{good, good} }, []string{"two plugins are named"}},
		{"too many", func() []Spec { return slices.Repeat([]Spec{spare}, maxPlugins+1) }, []string{"65 plugins; at most 64"}},
	} {
		err := g.Reload(context.Background(), c.specs())
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", c.name, err, want)
			}
		}
		after := g.Acquire()
		if got := ask(t, after); after != before || got != `"x_test":1` {
			t.Errorf("%s: the set is another, or broken: %s", c.name, got)
		}
		after.Release()
	}
	// What the failed ones had loaded is closed: nothing is left but one.
	if n := before.members[0].uses.Load(); n != 1 {
		t.Errorf("the plugin that stayed is used by %d sets", n)
	}
}

func TestCurrentAfterClose(t *testing.T) {
	g := newGenerations(t)
	g.reload(g.spec("a", answering(1)))
	held := g.Acquire()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Current.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closing with a request under way: got %v", err)
	}
	if s := g.Acquire(); s != nil || s.Chain("", "", EndpointChat) != nil || s.Plugins() != nil {
		t.Errorf("after the end there is a set: %v", s)
	}
	if err := g.Reload(context.Background(), nil); err == nil {
		t.Error("a closed set was reloaded")
	}
	if got := ask(t, held); got != `"x_test":1` {
		t.Errorf("the request under way got %s", got)
	}
	held.Release()
	var none *Current
	none.Acquire().Release()
}

func TestReleasedTooOften(t *testing.T) {
	g := newGenerations(t)
	s := g.Acquire()
	g.reload()
	s.Release()
	defer func() {
		if recover() == nil {
			t.Error("a set was released twice")
		}
	}()
	s.Release()
}

func TestMatch(t *testing.T) {
	g := newGenerations(t)
	var specs []Spec
	for i, match := range []Match{
		{},
		{Models: []string{"llama-*", "qwen"}},
		{Tenants: []string{"acme"}},
		{Endpoints: []string{"chat", "responses"}},
		{Models: []string{"*"}, Tenants: []string{"acme", "b*"}, Endpoints: []string{"completions"}},
	} {
		spec := g.spec(fmt.Sprint(i), goodGuest(fmt.Sprintf(`{"fields":{"x_%d":1}}`, i)))
		spec.Match, spec.Grants.Fields = match, []string{fmt.Sprintf("x_%d", i)}
		specs = append(specs, spec)
	}
	g.reload(specs...)
	set := g.Acquire()
	defer set.Release()
	for _, c := range []struct {
		model, tenant string
		endpoint      Endpoint
		want          string
	}{
		{"other", "other", EndpointCompletions, "0"},
		{"qwen", "other", EndpointCompletions, "0 1"},
		{"qwen-2", "other", EndpointCompletions, "0"},
		{"llama-", "", EndpointChat, "0 1 3"},
		{"llama", "acme", EndpointResponses, "0 2 3"},
		{"", "b", EndpointCompletions, "0 4"},
		{"llama-3", "acme", EndpointCompletions, "0 1 2 4"},
	} {
		var names []string
		chain := set.Chain(c.model, c.tenant, c.endpoint)
		for _, p := range chain.plugins {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != c.want || set.Chain(c.model, c.tenant, c.endpoint) != chain {
			t.Errorf("%+v: got %s, want %s", c, got, c.want)
		}
	}
}

// Plugins with the same field agree if no request has both.
func TestMatchesThatMeet(t *testing.T) {
	list := func(names ...string) []string { return names }
	for _, c := range []struct {
		a, b Match
		meet bool
	}{
		{Match{}, Match{Models: list("a")}, true},
		{Match{Models: list("a")}, Match{Models: list("b", "a*")}, true},
		{Match{Models: list("a")}, Match{Models: list("b")}, false},
		{Match{Models: list("a"), Tenants: list("x")}, Match{Models: list("a"), Tenants: list("y")}, false},
		{Match{Models: list("a")}, Match{Tenants: list("y")}, true},
		{Match{Endpoints: list("chat")}, Match{Endpoints: list("responses")}, false},
	} {
		g := newGenerations(t)
		a, b := g.spec("a", answering(1)), g.spec("b", goodGuest(``))
		a.Match, b.Match = c.a, c.b
		if err := g.Reload(context.Background(), []Spec{a, b}); (err != nil) != c.meet {
			t.Errorf("%+v and %+v: got %v, want an error: %v", c.a, c.b, err, c.meet)
		}
	}
	for _, m := range []Match{{Endpoints: list("embeddings")}, {Models: list("")}, {Tenants: make([]string, maxMatchNames+1)}} {
		if m.Validate() == nil {
			t.Errorf("%.50v was accepted", fmt.Sprint(m))
		}
	}
}

func TestChainID(t *testing.T) {
	g := newGenerations(t)
	a := g.spec("a", goodGuest(``).with(exportInit, opI32(int32(maskShape))))
	id := func(specs ...Spec) string {
		g.reload(specs...)
		s := g.Acquire()
		defer s.Release()
		return s.Chain("", "", EndpointChat).ID()
	}
	priced := a
	priced.Config = []byte(`{"price":1}`)
	other := g.spec("c", answering(2))
	other.Name = "a"
	b := g.spec("b", goodGuest(``))
	b.Grants = Grants{}
	ids := []string{id(a), id(priced), id(a, b), id(b, a), id(other)}
	if again := id(a); again != ids[0] || len(again) != 32 || id() != "" {
		t.Errorf("the same chain is %s and %s", ids[0], again)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 5 {
		t.Errorf("other chains have the same id: %v", ids)
	}
}

// TestUsualGrants: a refusal for want of a grant tells what the plugin works
// with, another fault does not.
func TestUsualGrants(t *testing.T) {
	g := newGenerations(t)
	const usual = "grants: {fields: [x_test]}"
	for name, c := range map[string]struct {
		module *guest
		config string
		told   bool
	}{
		"in the self-test": {module: answering(1), told: true},
		"when it is read":  {module: answering(1), config: "[]"},
	} {
		spec := g.spec("p", c.module)
		spec.Grants, spec.Config, spec.UsualGrants = Grants{}, []byte(c.config), usual
		err := g.Reload(context.Background(), []Spec{spec})
		if err == nil || strings.Contains(err.Error(), usual) != c.told {
			t.Errorf("%s: got %v, want it to tell %q: %v", name, err, usual, c.told)
		}
	}
}
