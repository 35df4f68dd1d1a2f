package cases

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// TestReadFaults: a case that can't be meant is refused, with the line.
func TestReadFaults(t *testing.T) {
	const good = "steps:\n  - hook: shape\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":                {"", "a.yaml: the file is empty"},
		"no steps":             {"about: x\n", "a.yaml:1: steps: missing; list the hooks"},
		"steps are empty":      {"steps: []", "a.yaml:1: steps: empty"},
		"steps are no list":    {"steps: {hook: shape}", "a.yaml:1: steps: a mapping is not a list"},
		"no YAML":              {"steps: [", "a.yaml:1: not YAML: did not find expected node content"},
		"two documents":        {good + "---\n" + good, "a.yaml: it has a second document"},
		"a list":               {"- hook: shape\n", "a.yaml:1: a list is not a mapping"},
		"unknown key":          {"steps:\n  - hook: shape\n    expekt: {}\n", "a.yaml:3: steps[0].expekt: unknown key; did you mean expect?"},
		"unknown, none near":   {good + "xyzzy: 1\n", "a.yaml:3: xyzzy: unknown key; known are about, frame, kv, max_fuel, plugin, refused, steps"},
		"unknown field":        {good + "frame:\n  promt_tokens: 1\n", "a.yaml:4: frame.promt_tokens: unknown key; did you mean prompt_tokens?"},
		"twice":                {good + "about: a\nabout: b\n", "a.yaml:4: about: the key stands there twice, first in line 3"},
		"no hook":              {"steps:\n  - document: {}\n", "a.yaml:2: steps[0].hook: missing"},
		"unknown hook":         {"steps:\n  - hook: shap\n", `a.yaml:2: steps[0].hook: "shap" is not one of request, shape, chunk, finish`},
		"no number":            {good + "frame: {prompt_tokens: 1.5}\n", `a.yaml:3: frame.prompt_tokens: "1.5" is not a whole number in 0 … 4294967295`},
		"too large":            {good + "frame: {n: 65536}\n", `a.yaml:3: frame.n: "65536" is not a whole number in 0 … 65535`},
		"below zero":           {good + "frame: {queued_ns: -1}\n", `"-1" is not a whole number in 0 … 18446744073709551615`},
		"priority":             {good + "frame: {priority: 2147483648}\n", `"2147483648" is not a whole number of 32 bits`},
		"outcome":              {good + "frame: {outcome: stopped}\n", `"stopped" is not one of running, stop, length`},
		"flags":                {good + "frame: {flags: [stream, streem]}\n", `frame.flags[1]: "streem" is not one of stream, partial`},
		"carry":                {good + "frame: {carry: a}\n", "frame.carry: unknown key"},
		"an event's field":     {good + "frame:\n  events:\n    - {t: 1}\n", "a.yaml:5: frame.events[0].t: unknown key"},
		"null":                 {good + "frame: {model: }\n", `frame.model: nothing is not text; write "" for none`},
		"an alias":             {"about: &a x\nframe: {model: *a}\n" + good, "a.yaml:2: aliases (*a) are not supported"},
		"no expectation":       {"steps:\n  - hook: shape\n    expect: nothing\n", `a.yaml:3: steps[0].expect: "nothing" is not a mapping`},
		"expected unknown":     {"steps:\n  - hook: shape\n    expect: {feilds: {}}\n", "expect.feilds: unknown key; did you mean fields?"},
		"fields no object":     {"steps:\n  - hook: shape\n    expect: {fields: [1]}\n", "a.yaml:3: steps[0].expect.fields: a list is not a mapping"},
		"no kind of failure":   {"steps:\n  - hook: shape\n    expect: {failure: crash}\n", `"crash" is not one of trap, out_of_fuel, memory`},
		"not JSON":             {"steps:\n  - hook: shape\n    expect: {fields: {a: .nan}}\n", "not a value that JSON has"},
		"a write of two":       {"steps:\n  - hook: shape\n    expect: {kv: [{set: a, add: b}]}\n", "write {set: key, value: …} or {add: key, delta: …}"},
		"a metric's value":     {"steps:\n  - hook: shape\n    expect: {metrics: [{name: a, value: .inf}]}\n", `".inf" is not a finite number`},
		"refused and steps":    {good + "refused: a\n", "a plugin that is refused is not called"},
		"the plugin's path":    {good + "plugin: {path: a.wasm}\n", "a.yaml:3: plugin: path, builtin and sha256 have no place in a case"},
		"the plugin's key":     {good + "plugin:\n  grants: {feelds: [a]}\n", "a.yaml:4: plugin.grants.feelds: unknown key; did you mean"},
		"a key's length":       {good + "kv: {" + strings.Repeat("k", 257) + ": 1}\n", "a key of 257 and a value of 8 bytes; at most 256 and 4096"},
		"a bool":               {"steps:\n  - hook: shape\n    next_request: yes\n", `"yes" is not true or false`},
		"a large file":         {strings.Repeat("#", maxFileBytes) + "\n" + good, "a case has at most 1048576"},
		"a mapping as the key": {good + "? {a: b}\n: c\n", "a mapping is not a key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read("a.yaml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%.200s\ngot %v\nwant %q", test.text, err, test.want)
			}
		})
	}
}

// TestSteps: the frame goes on from step to step and begins again with the next
// request; the document belongs to its step.
func TestSteps(t *testing.T) {
	c := read(t, "a.yaml", `
steps:
  - hook: request
    document: {"a": 1.0, b: [x]}
    frame: {max_tokens: 5}
  - hook: shape
    document: not JSON
    frame: {completion_tokens: 7, arrival_unix_ns: 1_700_000_000_000_000_000, choices: [{}, {}]}
  - hook: finish
    now_unix_ns: 12
    frame: {outcome: client_abort}
  - hook: finish
    next_request: true
frame: {tenant: acme, prompts: 2}
kv: {count: -1, text: "1"}
`)
	type seen struct {
		hook                   plugin.Hook
		begins                 bool
		now                    int64
		maxTokens, completions uint32
		outcome                plugin.Outcome
		choices                int
		document               string
	}
	for i, want := range []seen{
		{plugin.HookRequest, true, defaultNow, 5, 0, 0, 0, `{"a":1.0,"b":["x"]}`},
		{plugin.HookShape, false, 1_700_000_000_000_000_000, 5, 7, 0, 2, "not JSON"},
		{plugin.HookFinish, false, 12, 5, 7, plugin.OutcomeClientAbort, 2, ""},
		{plugin.HookFinish, true, 12, 0, 0, 0, 0, ""},
	} {
		s := &c.Steps[i]
		f := &s.Frame
		got := seen{s.Hook, s.Begins, s.NowUnixNS, f.MaxTokens, f.CompletionTokens, f.Outcome, len(f.Choices), string(f.Document)}
		if got != want || f.Tenant != "acme" || f.Prompts != 2 || f.N != 1 || f.Endpoint != plugin.EndpointChat {
			t.Errorf("step %d: got %+v of %+v, want %+v", i+1, got, f, want)
		}
	}
	if f := c.Steps[2].Frame; f.Choices[1].Index != 1 {
		t.Errorf("the second choice has the index %d", f.Choices[1].Index)
	}
	if kv := c.KV; len(kv) != 2 || string(kv[0].Value) != "\xff\xff\xff\xff\xff\xff\xff\xff" || string(kv[1].Value) != "1" {
		t.Errorf("the keys are %+v; want a counter of -1 and a text", kv)
	}
}

// TestReadme: the case that README.md shows is good.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md shows no case")
	}
	if c := read(t, "README.md", example); len(c.Steps) != 3 {
		t.Errorf("it has %d steps, want 3", len(c.Steps))
	}
}

// everything is a result with all that there can be, and awkward text.
func everything() Result {
	odd := "a \"b\" \\ \n\t\r\x00\x7f\u0085\u2028\ufeff\U0010ffff é: #{}"
	return Result{
		Called: true, Failure: "bad_result",
		Deny:     &plugin.Deny{Status: 429, Code: "slow", Message: odd, RetryAfter: 3},
		Fields:   []byte(`{"billing":{"cost":1.50,"n":18446744073709551616,"null":null,"true":[true,false,{}],"deep":{"a":[[]]}},"no":-0,"é":"` + strings.Repeat("x", 200) + `"}`),
		Usage:    []byte(`{"x":1e300}`),
		Headers:  []plugin.Header{{Name: "x-cost", Value: odd}},
		Carry:    odd,
		Document: []byte(`{}`),
		Records:  []plugin.Record{{Kind: -1, Data: []byte(`{"a":1}`)}, {Data: []byte(`{"long":["` + strings.Repeat("y", 90) + `","z"],"b":{"c":"` + strings.Repeat("w", 90) + `"}}`)}},
		KV:       []plugin.Write{{Key: []byte{0xff, 0}, Value: []byte(odd), TTL: time.Minute}, {Key: []byte("k"), Counter: true, Delta: -5}},
		Metrics:  []Sample{{"tokens", []plugin.Label{{Name: "tier", Values: []string{"null"}}, {Name: "y", Values: []string{""}}}, 1e21}, {"other", nil, 0.1}},
		Logs:     []Line{{"warn", odd}, {"debug", ""}},
	}
}

// TestLinesAreRead: what is written of a result reads as the same.
func TestLinesAreRead(t *testing.T) {
	for _, e := range []Result{everything(), {Called: true}, {}} {
		want := e.lines()
		text := "steps:\n  - hook: shape\n    expect:\n" + prefixed("      ", want)
		if len(want) == 0 {
			text = "steps: [{hook: shape, expect: {}}]"
		}
		c, err := Read("a.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := c.Steps[0].Expect.lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("it reads as something else:\n%s", diff(want, got))
		}
	}
}

// FuzzRead: any bytes are read or refused, and what is read can be updated to what
// another case expects.
func FuzzRead(f *testing.F) {
	e := everything()
	f.Add([]byte("steps:\n  - hook: shape\n    expect:\n" + prefixed("      ", e.lines())))
	f.Add([]byte("frame: {tenant: acme, flags: [stream], choices: [{}]}\nsteps:\n- expect:\n    fields: {a: 1}\n  hook: finish\n- {hook: chunk}\n"))
	f.Add([]byte("plugin: {config: {a: [1, .5]}, grants: {fields: [x_*]}}\nkv: {a: 1, b: !!binary /w==}\nrefused: x\n"))
	f.Add([]byte("a: &a [*a]\nsteps: [[[[{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Read("a.yaml", text)
		if err != nil {
			return
		}
		results := make([]Result, len(c.Steps))
		for i := range results {
			results[i] = everything()
		}
		updated, err := c.Update(results)
		if err != nil {
			return // the text is as it was
		}
		again, err := Read("a.yaml", updated)
		if err != nil {
			t.Fatalf("an updated case can't be read: %v\n%q\n%q", err, text, updated)
		}
		for i := range again.Steps {
			if got, want := again.Steps[i].Expect.lines(), results[i].lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("step %d expects something else:\n%s\n%q", i+1, diff(want, got), updated)
			}
		}
	})
}
