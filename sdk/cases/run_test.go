package cases

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// guest is the conformance guest in Zig: it does what a case's configuration says.
const guest = "../conformance/guests/zig/guest.wasm"

// newTestRunner makes a runner for the guest, granted nothing.
func newTestRunner(t *testing.T) *Runner {
	t.Helper()
	r, err := NewRunner(t.Context(), plugin.Spec{Name: "guest", Path: guest}, plugin.Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// read reads a case that must be good.
func read(t *testing.T, file, text string) *Case {
	t.Helper()
	c, err := Read(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCases: what testdata/*.yaml expect is what the guest does in the server's
// host. The expectations were worked out by hand from the ABI and from what the
// conformance kit says of its guest.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	runner := newTestRunner(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := read(t, file, string(text))
			verdict, err := runner.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			hideChain(verdict, c)
			for _, fault := range verdict.Faults {
				t.Error(fault)
			}
		})
	}
}

var chainID = regexp.MustCompile(`"[0-9a-f]{32}"`)

// hideChain compares the echo again without the chain's id, which is a hash.
func hideChain(v *Verdict, c *Case) {
	for i := range v.Results {
		if !chainID.Match(v.Results[i].Fields) {
			continue
		}
		v.Results[i].Fields = chainID.ReplaceAll(v.Results[i].Fields, []byte(`"CHAIN"`))
		if got, want := v.Results[i].lines(), c.Steps[i].Expect.lines(); slices.Equal(got, want) {
			v.Faults = slices.DeleteFunc(v.Faults, func(f string) bool { return strings.HasPrefix(f, c.where(i)+": expected") })
		}
	}
}

const answering = `
plugin:
  config: {do: answer}
  fuel: 200000000
  grants: {fields: [x_*], usage_extend: [x_model], headers: [x-tenant], emit: true, metrics: true, clock: true, kv: {read: true, write: true}, read: {request: true, response: true}, content_egress: true, rewrite: true, deny: true}
frame: {tenant: acme, model: m, n: 7}
`

// TestFaults: what is not as a case expects is told, and nothing else.
func TestFaults(t *testing.T) {
	runner := newTestRunner(t)
	for name, test := range map[string]struct{ text, want string }{
		"another value": {answering + `
steps:
  - hook: shape
    expect:
      fields: {x_n: 8, x_open: {}}
      usage: {x_model: m}
      headers: {x-tenant: acme}
      carry: acme
`, `step 1, shape: expected (-) and got (+):
  fields:
-   x_n: 8
+   x_n: 7
    x_open: {}
  usage:
    x_model: "m"
  headers:
    x-tenant: "acme"
  carry: "acme"
`},
		"another order": {answering + `
steps: [{hook: shape, expect: {fields: {x_open: {}, x_n: 7}, usage: {x_model: m}, headers: {x-tenant: acme}, carry: acme}}]
`, `step 1, shape: expected (-) and got (+):
  fields:
-   x_open: {}
    x_n: 7
+   x_open: {}
`},
		"other digits": {answering + `
steps: [{hook: shape, expect: {fields: {x_n: 7.0, x_open: {}}, usage: {x_model: m}, headers: {x-tenant: acme}, carry: acme}}]
`, "-   x_n: 7.0\n+   x_n: 7\n"},
		"not expected": {answering + `
steps: [{hook: shape}]
`, "+ fields:\n+   x_n: 7\n"},
		"fuel": {answering + `
max_fuel: 100
steps: [{hook: chunk, document: {}}]
`, "units of fuel; at most 100 are allowed"},
		"a failure's reason": {`
plugin:
  config: {do: trap}
  grants: {fields: [x_*], emit: true, metrics: true, clock: true, kv: {read: true, write: true}, read: {request: true, response: true}, content_egress: true, rewrite: true}
steps: [{hook: shape}]
`, "+ failure: trap\n+ logs:\n+   - {level: warn, text: \"a trap was asked for\"}\nthe call failed: wasm error: unreachable\n"},
		"refused":           {"steps: [{hook: shape}]", "compiled, it is not loaded: plugin \"guest\": module refused: imports wasmeter_v1.emit, which needs the configuration key grants.emit"},
		"refused otherwise": {"refused: another reason", `compiled, it is refused for another reason than "another reason": plugin "guest"`},
		"loaded":            {answering + "refused: some reason", `compiled, it is loaded; expected is that it is refused with "some reason"`},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := runner.Run(t.Context(), read(t, "a.yaml", test.text))
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(verdict.Faults, "\n"); !strings.Contains(all, test.want) {
				t.Errorf("got %s\nwant %s in it", all, test.want)
			}
		})
	}
}

// TestRunRefuses: what can't be run is an error.
func TestRunRefuses(t *testing.T) {
	runner, err := NewRunner(t.Context(), plugin.Spec{Name: "billing", Path: "../../examples/plugins/billing-zig/billing.wasm"}, plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close(t.Context())
	const billing = "plugin: {config: {input: 1, output: 1}, grants: {fields: [billing], emit: true}}\n"
	c := read(t, "a.yaml", billing+"steps: [{hook: shape, expect: {fields: {billing: {cost_micro_usd: 0, currency: USD}}}}, {hook: chunk}]")
	const want = "step 2: the plugin has no hook chunk with this configuration"
	if _, err := runner.Run(t.Context(), c); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestEnginesDiffer: a result that only one engine gives is a fault, and so is
// another amount of fuel.
func TestEnginesDiffer(t *testing.T) {
	c := read(t, "a.yaml", "steps: [{hook: shape, expect: {carry: a}}]")
	v := &Verdict{}
	v.judge(c, 0, &Result{Called: true, Carry: "a", Fuel: 10}, &Result{Called: true, Carry: "b", Fuel: 11})
	want := []string{
		"step 1, shape: compiled (-) and interpreted (+) it does not do the same:\n- carry: \"a\"\n+ carry: \"b\"\n",
		"step 1, shape: it uses 10 units of fuel compiled and 11 interpreted",
	}
	if !slices.Equal(v.Faults, want) {
		t.Errorf("got %q, want %q", v.Faults, want)
	}
}
