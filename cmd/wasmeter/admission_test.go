package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestAdmission: plugins rank requests and give them deadlines. With one place to
// run in, an urgent request takes that of one that has begun, which goes on
// afterwards; a late one ends with an error that says so, before its first token
// or after.
func TestAdmission(t *testing.T) {
	request := func(name, text string) hostile {
		h := says(name, "", text)
		h.hook, h.config = "request", "grants: {fields: [x_test], admission: true}"
		return h
	}
	v := newVillains(t, []hostile{
		request("urgent", `{"priority":-5}`),
		request("late", `{"deadline_ms":200}`),
		request("at-once", `{"deadline_ms":1,"priority":9}`),
		{name: "slow", crime: wasmGood},
	})
	v.configure(t, "closed", "")
	p := start(t, "--config="+v.file(), "--max-num-seqs=1", "--scheduling-policy=priority", "--sim-step-base=10ms")

	slow := p.follow(t, "slow", 300)
	if line := slow.next(t); !strings.Contains(line, `"role"`) {
		t.Fatalf("the slow stream begins with %s", line)
	}
	slow.next(t) // a token: it runs
	if status, body := p.askVillain(t, "urgent", "urgent-1", false); status != 200 || !strings.Contains(body, `"completion_tokens":4`) {
		t.Errorf("urgent: got %d %s", status, body)
	}
	if status, body := p.askVillain(t, "at-once", "at-once-1", false); status != 504 || !strings.Contains(body, `"code":"deadline_exceeded"`) || !strings.Contains(body, "within 1 ms, and had 0 tokens") {
		t.Errorf("at-once: got %d %s, want 504 deadline_exceeded", status, body)
	}
	tokens := 1
	for line := slow.next(t); line != ""; line = slow.next(t) {
		tokens += strings.Count(line, `"content":"`)
	}
	if tokens != 300 {
		t.Errorf("the slow stream has %d chunks of text, want 300", tokens)
	}

	late, told := p.follow(t, "late", 2000), ""
	for line := late.next(t); line != ""; line = late.next(t) {
		told = line
	}
	if !strings.Contains(told, `"code":"deadline_exceeded"`) || strings.Contains(told, "had 0 tokens") {
		t.Errorf("the late stream ends with %q, want deadline_exceeded after some tokens", told)
	}
	outcomes := v.outcomes(t)
	if got, want := fmt.Sprint(outcomes), "map[at-once:deadline late:deadline slow:length urgent:length]"; got != want {
		t.Errorf("the ledger has %s, want %s", got, want)
	}
}

// TestPriorityNeedsItsPolicy: where requests are taken in their order, a client
// that asks for a rank is told how to get one.
func TestPriorityNeedsItsPolicy(t *testing.T) {
	for policy, want := range map[string]int{"fcfs": 400, "priority": 200} {
		p := start(t, "--scheduling-policy="+policy)
		a, err := client.Post(p.url+"/v1/completions", "application/json", strings.NewReader(`{"model":"sim","prompt":"a","max_tokens":1,"priority":-1}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(a.Body) // what is there is shown
		a.Body.Close()
		if a.StatusCode != want || want == 400 && !strings.Contains(string(body), "--scheduling-policy priority") {
			t.Errorf("%s: got %d %s, want %d", policy, a.StatusCode, body, want)
		}
	}
}

// events is a stream under way.
type events struct{ lines *bufio.Scanner }

// follow asks for a stream of tokens by the plugin's model.
func (p *process) follow(t *testing.T, model string, tokens int) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(
		`{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":%d,"ignore_eos":true,"stream":true}`, model, tokens)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return &events{bufio.NewScanner(a.Body)}
}

// next is the data of the next event, empty at the end.
func (e *events) next(t *testing.T) string {
	t.Helper()
	for e.lines.Scan() {
		if data, ok := strings.CutPrefix(e.lines.Text(), "data: "); ok && data != "[DONE]" {
			return data
		}
	}
	if err := e.lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ""
}

// outcomes are those of the ledger's records by model; each has one.
func (v *villains) outcomes(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(v.ledger())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var r struct{ Model, Outcome string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if other, ok := all[r.Model]; ok {
			t.Errorf("%s has the outcomes %s and %s", r.Model, other, r.Outcome)
		}
		all[r.Model] = r.Outcome
	}
	return all
}
