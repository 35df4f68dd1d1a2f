package keys

import (
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	ring := func(entries ...string) *Ring { // name=tenant:key
		r := &Ring{}
		for _, e := range entries {
			name, rest, _ := strings.Cut(e, "=")
			tenant, key, _ := strings.Cut(rest, ":")
			if err := r.Add(key, Owner{Name: name, Tenant: tenant}); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	for _, c := range []struct {
		name          string
		before, after *Ring
		want          string
	}{
		{"nothing", ring("a=x:1", "b=x:2"), ring("a=x:1", "b=x:2"), ""},
		{"another order", ring("a=x:1", "b=x:2"), ring("b=x:2", "a=x:1"), ""},
		{"one more", ring("a=x:1"), ring("a=x:1", "b=x:2"), "+b"},
		{"one less", ring("a=x:1", "b=x:2"), ring("b=x:2"), "-a"},
		{"another secret", ring("a=x:1"), ring("a=x:3"), "~a"},
		{"another tenant", ring("a=x:1"), ring("a=y:1"), "~a"},
		{"all", ring("a=x:1", "b=x:2"), ring("c=x:3", "b=y:2"), "+c ~b -a"},
		{"the same key by another name", ring("a=x:1"), ring("b=x:1"), "+b -a"},
		{"from none", nil, ring("a=x:1"), "+a"},
		{"to none", ring("a=x:1"), nil, "-a"},
		{"none", nil, &Ring{}, ""},
	} {
		if got := strings.Join(c.after.Changes(c.before), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
