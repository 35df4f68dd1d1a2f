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
