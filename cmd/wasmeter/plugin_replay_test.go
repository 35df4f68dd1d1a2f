package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/ledger"
	"github.com/wasmeter/wasmeter/host/plugin"
)

const billingModule = "../../examples/plugins/billing-zig/billing.wasm"

// testLedger writes a ledger as the server does: five requests of two tenants, a
// minute apart.
func testLedger(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "usage.jsonl")
	file, _, err := ledger.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := file.Append(testRecord(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func testRecord(i int) *ledger.Record {
	at := time.Date(2026, 11, 28, 6, i, 0, 0, time.UTC)
	f := plugin.Frame{
		ArrivalUnixNS: uint64(at.UnixNano()), Outcome: plugin.OutcomeStop, Endpoint: plugin.EndpointChat,
		Model: "sim", Tenant: [...]string{"acme", "beta"}[i%2], AttemptID: fmt.Sprint("attempt-", i), Metadata: `{"note":"my secret"}`,
		PromptTokens: 10, CompletionTokens: uint32(i),
	}
	r := &ledger.Record{AttemptID: f.AttemptID, Time: at, RequestID: "my secret", Tenant: f.Tenant, Model: f.Model, Frame: f.Append(nil, plugin.HookFinish)}
	if f.Tenant == "acme" {
		r.Emitted = []ledger.Emitted{{Plugin: "billing", Data: fmt.Appendf(nil, `{"cost_micro_usd":%d,"currency":"USD"}`, 2*i)}}
	}
	return r
}

func TestPluginRecord(t *testing.T) {
	usage := testLedger(t)
	for _, name := range []string{"some.frames", "some.frames.gz"} {
		out := filepath.Join(t.TempDir(), name)
		code, stdout, stderr := command(t, nil, "plugin", "record", usage, "-o", out, "--since", "2026-11-28T06:01:00Z", "--tenant", "acme,none")
		if want := "recorded 2 requests, left out 3; they arrived from 2026-11-28T06:02:00Z to 2026-11-28T06:04:00Z\n"; code != 0 || stdout != "" || stderr != want {
			t.Errorf("exit %d: %s%s\nwant %s", code, stdout, stderr, want)
		}
		file, err := os.ReadFile(out)
		if err != nil || len(file) == 0 || strings.Contains(string(file), "secret") {
			t.Errorf("%v: got %q", err, file)
		}
		// 10 tokens each at 2 micro-dollars, and 2 + 4 at 3.
		code, stdout, stderr = command(t, nil, "plugin", "replay", billingModule, out, "--plugin-config", `{"input":2000000,"output":3000000}`)
		if code != 0 || !strings.Contains(stdout, "acme    sim    USD       2         2        0.000058\n") {
			t.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
	}

	code, stdout, stderr := command(t, nil, "plugin", "record", usage, "--json")
	if code != 0 || strings.Count(stdout, "\n") != 5 || !strings.Contains(stderr, `{"requests":5,"skipped":0,"torn_bytes":0,"first":"2026-11-28T06:00:00Z"`) {
		t.Errorf("to stdout: exit %d: %s%s", code, stdout, stderr)
	}
	before, err := os.ReadFile(usage)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, nil, "plugin", "record", usage, "-o", usage); code != exitNotStart || !strings.Contains(stderr, "is the ledger itself") {
		t.Errorf("onto itself: exit %d: %s", code, stderr)
	}
	if after, err := os.ReadFile(usage); err != nil || string(after) != string(before) {
		t.Errorf("the ledger has changed: %v", err)
	}
}

// TestPluginRecordFollows: what a server adds is there at once, and the file is
// whole when the command is interrupted.
func TestPluginRecordFollows(t *testing.T) {
	usage := testLedger(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, written := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(ctx, terminal{args: []string{"plugin", "record", usage, "--follow"}, out: written, err: io.Discard})
		written.Close()
	}()
	lines := json.NewDecoder(read)
	next := func() {
		t.Helper()
		var line struct{ Frame []byte }
		if err := lines.Decode(&line); err != nil || len(line.Frame) < 256 {
			t.Fatalf("got %+v, %v", line, err)
		}
	}
	for range 5 {
		next()
	}
	file, _, err := ledger.OpenFile(usage)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Append(testRecord(5)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	next()
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestPluginReplay(t *testing.T) {
	dir, usage := t.TempDir(), testLedger(t)
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := func(output int) string {
		return fmt.Sprintf("plugins:\n- {name: other, builtin: metrics, grants: {fields: [metrics]}}\n"+
			"- {name: prices, path: anywhere/billing.wasm, config: {input: 0, output: %d}, grants: {fields: [billing], emit: true}, match: {tenants: [acme]}}\n", output)
	}
	today, tomorrow := file("today.yaml", server(1_000_000)), file("tomorrow.yaml", server(2_000_000))

	code, out, stderr := command(t, nil, "plugin", "replay", billingModule, usage, "--plugin-config", tomorrow, "--diff-config", today)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{
		"5 requests that arrived from 2026-11-28T06:00:00Z to 2026-11-28T06:04:00Z\n",
		"before: ", "3 requests, 0.000006 USD\n2 requests are not covered by the plugin's match\n",
		"acme    USD       0.000006  0.000012  0.000006    +100.00 %\n",
		"total   USD       0.000006  0.000012  0.000006    +100.00 %\n",
		"\n2 of 5 requests change\n", // that without an output token costs nothing
		"attempt-4  acme    USD       0.000004  0.000008  0.000004\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}

	code, out, stderr = command(t, nil, "plugin", "replay", billingModule, usage, "--json", "--plugin", "prices", "--plugin-config", today,
		"--diff", billingModule, "--diff-config", `{"input":0,"output":3000000}`, "--top", "1")
	var report struct {
		Requests   int
		Difference struct {
			Changed int
			Totals  []struct{ Currency, Before, After, Difference string }
			Largest []struct {
				Attempt string `json:"attempt_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	// All tenants before: 3 · (0 + 1 + 2 + 3 + 4) = 30, of acme alone now: 6.
	d := report.Difference
	if report.Requests != 5 || d.Changed != 4 || len(d.Largest) != 1 || d.Largest[0].Attempt != "attempt-3" || len(d.Totals) != 1 ||
		d.Totals[0].Before != "0.00003" || d.Totals[0].After != "0.000006" || d.Totals[0].Difference != "-0.000024" {
		t.Errorf("got %s", out)
	}

	code, out, stderr = command(t, nil, "plugin", "replay", billingModule, usage, "--plugin-config", today, "--diff-billed", "billing")
	// Billed was what acme paid, 2 micro-dollars for each token and none of beta.
	for _, want := range []string{"before: as the ledger has it, 5 requests, 0.000012 USD\n2 requests have no record\n", "total   USD       0.000012  0.000006  -0.000006   -50.00 %\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d: got\n%s%s\nwant %q in it", code, out, stderr, want)
		}
	}

	code, out, stderr = command(t, nil, "plugin", "replay", "builtin:metrics", usage)
	if code != 0 || !strings.Contains(out, "the plugin has no hook finish") || strings.Contains(out, "have no record") {
		t.Errorf("a plugin that does not bill: exit %d: %s%s", code, out, stderr)
	}
}

func TestPluginReplayRefuses(t *testing.T) {
	usage, dir := testLedger(t), t.TempDir()
	bad, none, two := filepath.Join(dir, "bad"), filepath.Join(dir, "none.yaml"), filepath.Join(dir, "two.yaml")
	for path, text := range map[string]string{
		bad: "{}\n", none: "server: {port: 1}\n",
		two: "plugins: [{name: a, path: a.wasm}, {name: b, path: b.wasm}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const prices = `--plugin-config={"input":1,"output":1}`
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"none.wasm", usage, prices}, "none.wasm: no such file"},
		{[]string{billingModule, "none.jsonl", prices}, "none.jsonl: no such file"},
		{[]string{billingModule, bad, prices}, `bad: line 1: no member "frame"`},
		{[]string{billingModule, usage}, "input: missing"},
		{[]string{billingModule, usage, "--plugin-config", none}, "none.yaml: the file has no plugins"},
		{[]string{billingModule, usage, "--plugin-config", two}, "could be any of a, b; say which with --plugin"},
		{[]string{billingModule, usage, "--plugin-config", two, "--plugin", "c"}, `no plugin is named "c"; there are: a, b`},
		{[]string{billingModule, usage, prices, "--diff-config", "{}"}, "before: "},
		{[]string{billingModule, usage, prices, "--diff-billed", "b", "--diff", billingModule}, "none of the others can be"},
		{[]string{"builtin:nothing", usage}, "no such plugin in this program"},
		{[]string{billingModule, usage, prices, "--since", "noon"}, `--since: "noon" is no time`},
		{[]string{billingModule, usage, prices, "--since", "2026-11-28", "--until", "2026-11-27"}, "is not after --since"},
		{[]string{billingModule, usage, prices, "--top", "-1"}, "--top: -1"},
	} {
		if code, out, stderr := command(t, nil, append([]string{"plugin", "replay"}, c.args...)...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d: %s%s\nwant %q", c.args, code, out, stderr, c.want)
		}
	}
	if code, _, stderr := command(t, nil, "plugin", "record", bad); code != exitNotStart || !strings.Contains(stderr, "line 1") {
		t.Errorf("record: exit %d: %s", code, stderr)
	}
	if got, err := parseMoment("36h", time.Unix(1_000_000, 0)); err != nil || got.Unix() != 1_000_000-36*3600 {
		t.Errorf("36h ago: got %v, %v", got, err)
	}
}
