package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestPluginBench(t *testing.T) {
	usage := testLedger(t)
	code, out, stderr := command(t, nil, "plugin", "bench", billingModule, "--calls", "50", "--plugin-config", `{"input":1,"output":1}`)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"4 different requests\n", "\nshape   50 ", "\nfinish  50 ", "FUEL P50", "none\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
	code, out, stderr = command(t, nil, "plugin", "bench", "builtin:metrics", "--calls", "10", "--frames", usage, "--json")
	var report struct {
		Frames int
		Hooks  []struct {
			Hook  string
			Calls int
			Fuel  struct{ P50 int64 }
			Time  map[string]int64
		}
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	if report.Frames != 5 || len(report.Hooks) != 1 || report.Hooks[0].Hook != "shape" || report.Hooks[0].Calls != 10 ||
		report.Hooks[0].Fuel.P50 == 0 || report.Hooks[0].Time["p99_9_ns"] == 0 {
		t.Errorf("got %s", out)
	}
	for want, args := range map[string][]string{
		"0 calls; 1 to":      {"--calls", "0"},
		"no such file":       {"--frames", filepath.Join(t.TempDir(), "none")},
		"no requests in it":  {"--frames", "/dev/null"},
		"has no Go files":    {"--calls", "1", "--native", t.TempDir()},
		"no plugin is named": {"--plugin-config", "../../examples/config/own-plugin.yaml", "--plugin", "none"},
	} {
		if code, _, stderr := command(t, nil, append([]string{"plugin", "bench", "builtin:metrics"}, args...)...); code != exitNotStart || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d: %s; want %q", args, code, stderr, want)
		}
	}
}

// TestPluginBenchOfBook: generated requests ask for the configuration's model, and what a
// plugin says of another is shown.
func TestPluginBenchOfBook(t *testing.T) {
	book := []string{"plugin", "bench", "builtin:billing", "--calls", "8", "--plugin-config", "../../examples/config/billing.yaml"}
	code, out, stderr := command(t, nil, book...)
	if code != 0 || strings.Count(out, "none\n") != 3 || strings.Contains(out, "refused") || strings.Contains(out, "failed, ") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	code, out, stderr = command(t, nil, append(book, "--model", "no \"such\" one")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{`request refused 8 of 8 requests`, `the model "no \"such\" one" has no price`, `shape failed, the last time with: plugin "billing": shape: trap`} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
}
