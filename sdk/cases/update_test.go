package cases

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// TestUpdate: only expectations that differ are written, where they stand or at
// the end of their step; comments and spaces stay.
func TestUpdate(t *testing.T) {
	const before = `# A case.
steps:
  - hook: request   # first
    expect:
      carry: "same"

  - hook: chunk
    expect: {carry: old}  # goes with it
    frame: {n: 2}

  # a comment between
  - expect:
      headers:
        x-a: "1"
      # inside
      carry: |
        long
        text
    hook: shape
  - hook: finish
    document: |
      text

max_fuel: 5
`
	const after = `# A case.
steps:
  - hook: request   # first
    expect:
      carry: "same"

  - hook: chunk
    expect:
      fields:
        a: 1
    frame: {n: 2}

  # a comment between
  - expect: {}
    hook: shape
  - hook: finish
    document: |
      text
    expect:
      records:
        - kind: 1
          data: {"cost": 1}

max_fuel: 5
`
	c := read(t, "a.yaml", before)
	got, err := c.Update([]Result{
		{Called: true, Carry: "same"},
		{Called: true, Fields: []byte(`{"a":1}`)},
		{Called: true},
		{Called: true, Records: []plugin.Record{{Kind: 1, Data: []byte(`{"cost":1}`)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != after {
		t.Errorf("got and want:\n%s", diff(strings.Split(after, "\n"), strings.Split(string(got), "\n")))
	}
}

// TestUpdateSameIndent: a list may stand as far left as its key.
func TestUpdateSameIndent(t *testing.T) {
	c := read(t, "a.yaml", "steps:\n- hook: finish\n  expect:\n    logs:\n    - {level: info, text: a}\n- hook: shape\n")
	got, err := c.Update([]Result{{Called: true}, {Called: true, Carry: "b"}})
	const want = "steps:\n- hook: finish\n  expect: {}\n- hook: shape\n  expect:\n    carry: \"b\"\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestUpdateRefuses(t *testing.T) {
	c := read(t, "a.yaml", "steps:\n  - {hook: shape, expect: {}}\n")
	if got, err := c.Update([]Result{{Called: true}}); err != nil || string(got) != string(c.text) {
		t.Errorf("nothing differs: got %q, %v", got, err)
	}
	_, err := c.Update([]Result{{Called: true, Carry: "a"}})
	if err == nil || !strings.Contains(err.Error(), "a.yaml:2: a step in braces is not updated") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestDiff(t *testing.T) {
	for _, test := range []struct{ want, got, diff string }{
		{"", "", ""},
		{"a b c", "a b c", "  a   b   c "},
		{"a b c", "a c", "  a - b   c "},
		{"a c", "a b c", "  a + b   c "},
		{"a", "b", "- a + b "},
		{"a b", "b a", "- a   b + a "},
	} {
		if got := strings.ReplaceAll(diff(strings.Fields(test.want), strings.Fields(test.got)), "\n", " "); got != test.diff {
			t.Errorf("%q, %q: got %q, want %q", test.want, test.got, got, test.diff)
		}
	}
	long := strings.Fields(strings.Repeat("a ", 2001))
	if got := diff(long, []string{"b"}); strings.Count(got, "\n") != 2002 {
		t.Errorf("2,001 lines and one: got %d lines", strings.Count(got, "\n"))
	}
}
