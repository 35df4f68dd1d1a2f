package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// priced is what an answer, or the usage chunk of a stream, says of its price.
type priced struct {
	Usage *struct {
		Prompt     int         `json:"prompt_tokens"`
		Completion int         `json:"completion_tokens"`
		Cost       json.Number `json:"cost"`
	}
	Billing *struct{ Cost, Currency string }
}

// TestBilling serves with the configuration of plugins/billing/README.md: answers
// and streams have their price, each end has its record, prices change by SIGHUP,
// and the README's correction gives back what was charged too much.
func TestBilling(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest, some seconds; run without -short")
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readDocument(t, "plugins/billing/README.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d configurations, want that of a server and that of a correction", len(blocks))
	}
	dir := t.TempDir()
	file, ledger := filepath.Join(dir, "wasmeter.yaml"), filepath.Join(dir, "usage.jsonl")
	prices := strings.Replace(blocks[0][1], "path: usage.jsonl", "path: "+ledger, 1)
	write(t, file, []byte(prices))
	p := start(t, "--config="+file, "--served-model-name=smollm2", "--sim-step-base=1ms", "--sim-jitter=0")

	// "user: hello\nassistant: " has 23 bytes, which are the tokens of the simulated
	// device: 23 · 0.15 + 200 · 0.6 = 123.45 micro-dollars, and 16 · 0.075 less when
	// the first block of the prompt is cached.
	const body = `{"model":"smollm2","messages":[{"role":"user","content":"hello"}],"max_tokens":200,"ignore_eos":true`
	for _, stream := range []string{`}`, `,"stream":true}`} {
		if got, quote := p.price(t, body+stream); got != "0.000123" && got != "0.000122" || quote != "0.000123 USD" {
			t.Errorf("%s: got a cost of %q and a quote of %q, want 0.000123", stream, got, quote)
		}
	}
	p.responses(t)
	p.leave(t, strings.Replace(body, "200", "4000", 1)+`,"stream":true}`)
	eventually(t, "the client that left has its record", func() bool { return len(charges(t, ledger)) == 4 })

	write(t, file, []byte(strings.Replace(prices, "output: 600000", "output: 6000000", 1)))
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new price is in force", func() bool {
		got, _ := p.price(t, body+`}`)
		return got == "0.001203" || got == "0.001202" // 23 · 0.15 + 200 · 6 = 1203.45
	})

	// A book that can't be read changes nothing.
	write(t, file, []byte(strings.Replace(prices, "output: 600000", "output: 0.6", 1)))
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broken book is told", func() bool {
		return strings.Contains(p.logged(), "models[0].output: 0.6 is not a whole number in 0 … 1000000000000, in millionths of the currency")
	})
	if got, _ := p.price(t, body+`}`); got != "0.001203" && got != "0.001202" {
		t.Errorf("after a broken book: got %q", got)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained {
		t.Errorf("exit code %d: %s", code, p.logged())
	}

	for i, c := range charges(t, ledger) {
		if c.Kind != 1 || c.Data.Kind != "charge" || c.Data.Model != "smollm2" || i == 3 && (c.Data.Outcome != "client_abort" || c.Data.Cost == "0.000000") {
			t.Errorf("record %d is %+v", i, c)
		}
	}
	testCorrection(t, dir, ledger, blocks[1][1])
}

// TestBillingCases runs the invoices in plugins/billing/tests, whose costs are
// worked out in their first lines.
func TestBillingCases(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest, some seconds; run without -short")
	}
	code, out, err := command(t, nil, "plugin", "test", filepath.Join(moduleRoot, "plugins/billing"))
	if code != 0 || strings.Count(out, "ok  ") != 6 {
		t.Errorf("exit %d: %s\n%s", code, out, err)
	}
}

// testCorrection replays the ledger: what the correction's records add is the
// difference between its two books, as the README has it.
func testCorrection(t *testing.T, dir, ledger, config string) {
	t.Helper()
	file := filepath.Join(dir, "correction.yaml")
	write(t, file, []byte(config))
	sum := func(args ...string) string {
		t.Helper()
		code, out, err := command(t, nil, append([]string{"plugin", "replay", "builtin:billing", ledger, "--json"}, args...)...)
		if code != 0 {
			t.Fatalf("replay %v: %s", args, err)
		}
		var report struct {
			After struct {
				Totals   []struct{ Amount string }
				Failures []json.RawMessage
			}
			Difference *struct{ Totals []struct{ Difference string } }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.After.Failures) > 0 {
			t.Fatalf("replay %v: %v in %s", args, err, out)
		}
		if report.Difference != nil {
			return report.Difference.Totals[0].Difference
		}
		if len(report.After.Totals) == 0 {
			return "0"
		}
		return report.After.Totals[0].Amount
	}
	book := func(output string) string {
		return `{"currency":"USD","models":[{"model":"smollm2","input":150000,"cached_input":75000,"output":` + output + `}]}`
	}
	records := filepath.Join(dir, "corrections.jsonl")
	got := sum("--plugin-config", file, "--records", records)
	if want := sum("--plugin-config", book("540000"), "--diff-config", book("600000")); got != want || !strings.HasPrefix(got, "-0.0000") {
		t.Errorf("the corrections are %s, the books differ by %s", got, want)
	}
	text, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(text) {
		var r struct {
			Attempt string `json:"attempt_id"`
			Plugin  string
			chargeRecord
		}
		if err := json.Unmarshal(line, &r); err != nil || len(r.Attempt) != 36 || r.Plugin != "billing-2026-11-misprint" || r.Kind != 3 || r.Data.Kind != "correction" || !strings.HasPrefix(r.Data.Cost, "-0.00") {
			t.Errorf("the correction %s: %v", line, err)
		}
		lines++
	}
	if lines == 0 || lines > len(charges(t, ledger)) {
		t.Errorf("%d corrections of %d charges", lines, len(charges(t, ledger)))
	}
	if code, _, err := command(t, nil, "plugin", "replay", "builtin:billing", ledger, "--plugin-config", file, "--records", records); code != 1 || !strings.Contains(err, "--records") {
		t.Errorf("over records that there are: exit %d, %s", code, err)
	}
}

// price asks, and gives the cost of the answer and the quote in its header.
func (p *process) price(t *testing.T, body string) (cost, quote string) {
	t.Helper()
	response, err := client.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", body, response.StatusCode, err, all)
	}
	for line := range bytes.Lines(all) {
		data := bytes.TrimPrefix(line, []byte("data: "))
		var answer priced
		if !bytes.HasPrefix(data, []byte("{")) {
			continue // between chunks, [DONE]
		}
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if answer.Billing == nil {
			continue
		}
		if cost != "" || answer.Usage == nil || answer.Usage.Cost.String() != answer.Billing.Cost || answer.Billing.Currency != "USD" || answer.Usage.Completion != 200 {
			t.Errorf("%s: got %s", body, data)
		}
		cost = answer.Billing.Cost
	}
	return cost, response.Header.Get("X-Cost-Quote")
}

// responses asks for a Response, which says its price as well.
func (p *process) responses(t *testing.T) {
	t.Helper()
	response, err := client.Post(p.url+"/v1/responses", "application/json", strings.NewReader(`{"model":"smollm2","input":"hello","max_output_tokens":8}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer priced
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Usage == nil || answer.Billing == nil {
		t.Fatalf("a Response: %v, %+v", err, answer)
	}
	if cost := answer.Billing.Cost; answer.Usage.Cost.String() != cost || cost < "0.000004" || cost > "0.000009" { // up to 23 · 0.15 + 8 · 0.6 = 8.25
		t.Errorf("a Response costs %s and %s", answer.Usage.Cost, cost)
	}
}

// leave begins to read a stream and hangs up.
func (p *process) leave(t *testing.T, body string) {
	t.Helper()
	response, err := client.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	for n := 0; n < 10; n++ {
		if !lines.Scan() || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, and the stream ends: %q, %v", body, response.StatusCode, lines.Text(), lines.Err())
		}
	}
	response.Body.Close()
}

type chargeRecord struct {
	Kind int
	Data struct{ Kind, Model, Outcome, Cost string }
}

// charges reads the records of a ledger, of which each request has one.
func charges(t *testing.T, path string) (all []chargeRecord) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var record struct{ Emitted []chargeRecord }
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &record); err != nil || len(record.Emitted) != 1 {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, record.Emitted...)
	}
	return all
}
