package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// testAnotherPrice runs the script, which changes a price under load.
func testAnotherPrice(t *testing.T, program, module string) {
	for _, needed := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("reprice.sh needs %s: %v; apt-get install %s", needed, err, needed)
		}
	}
	out, err := exec.CommandContext(t.Context(), "./reprice.sh", program, module).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// 23 tokens at 2.5 micro-dollars, and 8 at 10, then at 20, rounded half up:
	// 137.5 and 217.5. The stream's 1000 at 10 are 10057.5.
	for _, want := range []string{
		`"billing":\{"cost_micro_usd":138,"currency":"USD"\}.* 200\n== output: 20000000`,
		`"billing":\{"cost_micro_usd":218,"currency":"USD"\}.* 200\n== the stream`,
		`\n"billing":\{"cost_micro_usd":10058,"currency":"USD"\}\n`,
		`\n\d{2,} paid 138, \d{2,} paid 218, 0 failed, 0 paid the old price after the new one\n`,
		`\n(\d+) of (\d+) requests change\n`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("got\n%s\nwant %s in it", out, want)
		}
	}
}

// testReplayed: what the ledger of the server has is billed again to the same
// amounts, without the server.
func testReplayed(t *testing.T, program, dir string) {
	config, err := filepath.Abs("wasmeter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	replay := exec.CommandContext(t.Context(), program, "plugin", "replay", "billing.wasm", "usage.jsonl", "--plugin-config", config, "--diff-billed", "billing", "--json")
	replay.Dir = dir
	out, err := replay.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var report struct {
		Requests   int
		Difference struct {
			Changed int
			Totals  []struct{ Before, After string }
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	// The eight answers of testAnswers: 138 + 138 + 218 + 65 + 53 + 53 + 138 + 138.
	if d := report.Difference; report.Requests != 8 || d.Changed != 0 || len(d.Totals) != 1 || d.Totals[0].Before != "0.000941" || d.Totals[0].After != "0.000941" {
		t.Errorf("got %s", out)
	}
}
