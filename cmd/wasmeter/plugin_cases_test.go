package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// billingFolder makes the folder of a plugin that has been built, with one case.
// Its prices are 2.5 and 10 micro-dollars a token.
func billingFolder(t *testing.T, expectation string) string {
	t.Helper()
	dir := t.TempDir()
	module, err := os.ReadFile("../../examples/plugins/billing-zig/billing.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"billing.wasm": string(module),
		"billing.zig":  "",
		"wasmeter.yaml": "plugins:\n  - name: billing\n    path: billing.wasm\n    config: {input: 2500000, output: 10000000}\n" +
			"    grants: {fields: [billing], emit: true}\n",
		"tests/price.yaml": "about: a price\nmax_fuel: 100_000\nframe: {prompt_tokens: 23, completion_tokens: 8}\n" +
			"steps:\n  - hook: shape\n    expect: # by hand\n" + expectation,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(1_600_000_000, 0)
		if name == "billing.zig" {
			old = old.Add(-time.Hour)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPluginTest(t *testing.T) {
	dir := billingFolder(t, "      fields: {billing: {cost_micro_usd: 138, currency: USD}}\n")
	code, out, stderr := command(t, nil, "plugin", "test", dir)
	if want := "ok      " + dir + "/tests/price.yaml  1 steps, "; code != 0 || !strings.HasPrefix(out, want) || stderr != "" {
		t.Errorf("exit %d: %s%s\nwant %s…", code, out, stderr, want)
	}

	code, out, stderr = command(t, nil, "plugin", "test", dir, "--json")
	var report struct {
		Case, About, Verdict string
		Steps                int
		Fuel                 int64
		MaxFuel              int64 `json:"max_fuel"`
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	if report.Verdict != "ok" || report.About != "a price" || report.Steps != 1 || report.Fuel <= 0 || report.MaxFuel != 100_000 {
		t.Errorf("got %+v", report)
	}

	if code, _, stderr := command(t, nil, "plugin", "test", dir, "--run", "none"); code != exitNotStart || !strings.Contains(stderr, "has no such case") {
		t.Errorf("--run none: exit %d: %s", code, stderr)
	}

	// A source that is newer than the module is said: it tests what was built.
	later := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(filepath.Join(dir, "billing.zig"), later, later); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, nil, "plugin", "test", dir); code != 0 || !strings.Contains(stderr, "billing.wasm is older than its sources; wasmeter plugin build") {
		t.Errorf("a newer source: exit %d: %s", code, stderr)
	}
	if err := os.Remove(filepath.Join(dir, "billing.wasm")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, nil, "plugin", "test", dir); code != exitNotStart || !strings.Contains(stderr, "billing.wasm is not there; build it: wasmeter plugin build") {
		t.Errorf("no module: exit %d: %s", code, stderr)
	}
	module := "../../examples/plugins/billing-rust/billing.wasm"
	if code, out, stderr := command(t, nil, "plugin", "test", dir, "--wasm", module); code != 0 {
		t.Errorf("--wasm: exit %d: %s%s", code, out, stderr)
	}
}

// TestPluginTestUpdate: a case that is not met fails with the difference, and is
// met once it is updated.
func TestPluginTestUpdate(t *testing.T) {
	dir := billingFolder(t, "      fields: {billing: {cost_micro_usd: 137, currency: USD}}\n")
	code, out, stderr := command(t, nil, "plugin", "test", dir)
	const want = `/tests/price.yaml  1 steps, `
	const difference = `
        step 1, shape: expected (-) and got (+):
          fields:
        -   billing: {"cost_micro_usd": 137, "currency": "USD"}
        +   billing: {"cost_micro_usd": 138, "currency": "USD"}
`
	if code != exitNotStart || !strings.HasPrefix(out, "failed  ") || !strings.Contains(out, want) || !strings.HasSuffix(out, difference) ||
		!strings.Contains(stderr, "1 of 1 cases failed") {
		t.Errorf("exit %d: %s%s\nwant …%s", code, out, stderr, difference)
	}
	if code, out, stderr := command(t, nil, "plugin", "test", dir, "--update"); code != 0 || !strings.HasPrefix(out, "updated ") {
		t.Errorf("--update: exit %d: %s%s", code, out, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tests/price.yaml"))
	if updated := "    expect:\n      fields:\n        billing: {\"cost_micro_usd\": 138, \"currency\": \"USD\"}\n"; err != nil || !strings.HasSuffix(string(text), updated) {
		t.Errorf("%v, got %s, want it to end in %s", err, text, updated)
	}
	if code, out, _ := command(t, nil, "plugin", "test", dir); code != 0 || !strings.HasPrefix(out, "ok ") {
		t.Errorf("after --update: exit %d: %s", code, out)
	}
}

// TestPluginTestFaults: a case that can't be read is told with its line, and the
// others run.
func TestPluginTestFaults(t *testing.T) {
	dir := billingFolder(t, "      fields: {billing: {cost_micro_usd: 138, currency: USD}}\n")
	if err := os.WriteFile(filepath.Join(dir, "tests", "a.yaml"), []byte("steps:\n  - hok: shape\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := command(t, nil, "plugin", "test", dir)
	if code != exitNotStart || !strings.Contains(out, "tests/a.yaml:2: steps[0].hok: unknown key; did you mean hook?") ||
		!strings.Contains(out, "\nok ") || !strings.Contains(stderr, "1 of 2 cases failed") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
}

// TestFolderSpec: the entry is that of the module that the sources are built into,
// wherever the module lies.
func TestFolderSpec(t *testing.T) {
	dir := billingFolder(t, "      {}\n")
	spec, err := folderSpec(dir, "/elsewhere/other.wasm")
	if err != nil || spec.Name != "billing" || spec.Path != "/elsewhere/other.wasm" || !spec.Grants.Emit {
		t.Errorf("got %+v, %v; want the plugin billing with its grants", spec, err)
	}
	file := filepath.Join(dir, "wasmeter.yaml")
	if err := os.WriteFile(file, []byte("plugins:\n  - {name: a, path: a.wasm}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := folderSpec(dir, "billing.wasm"); err == nil || !strings.Contains(err.Error(), "no plugin has the path billing.wasm") {
		t.Errorf("another plugin's configuration: got %v, want a fault", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if spec, err := folderSpec(dir, "billing.wasm"); err != nil || spec.Name != "billing" || spec.Grants.Emit {
		t.Errorf("no configuration: got %+v, %v; want a plugin without grants", spec, err)
	}
}
