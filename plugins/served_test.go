package plugins_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/examples/wasmetertest"
	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

// TestServed runs built-in plugins in a server on the simulated device, with the
// configurations that the documents show.
func TestServed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the server; go test ./plugins runs it")
	}
	program := wasmetertest.Build(t)
	t.Run("choices", func(t *testing.T) { testChoices(t, program) })
	t.Run("sla", func(t *testing.T) { testSLA(t, program) })
	t.Run("quota", func(t *testing.T) { testQuota(t, program) })
}

// server is a running one, and the keys of its tenants.
type server struct {
	t    *testing.T
	url  string
	dir  string
	keys map[string]string
}

// serve runs the server with a configuration and a key for each tenant.
func serve(t *testing.T, program, config string, tenants []string, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), keys: map[string]string{}}
	if err := os.WriteFile(filepath.Join(s.dir, "wasmeter.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"sim", "--config=wasmeter.yaml"}, args...)
	for _, tenant := range tenants {
		key, err := keys.Make(filepath.Join(s.dir, "keys.yaml"), keys.Owner{Name: tenant, Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		s.keys[tenant] = key
	}
	if len(tenants) > 0 {
		args = append(args, "--api-keys-file=keys.yaml")
	}
	s.url = wasmetertest.Serve(t, program, s.dir, args...)
	return s
}

// reply is an answer; last is its last document, the only one if it is no stream.
type reply struct {
	status int
	header http.Header
	text   string
	last   map[string]json.RawMessage
}

func (s *server) ask(tenant, path, body string, header ...string) reply {
	s.t.Helper()
	request, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if tenant != "" {
		request.Header.Set("Authorization", "Bearer "+s.keys[tenant])
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	r := reply{status: response.StatusCode, header: response.Header, text: string(text)}
	for line := range strings.Lines(r.text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if !strings.HasPrefix(line, "{") {
			continue // between events, their names, [DONE]
		}
		r.last = nil
		if err := json.Unmarshal([]byte(line), &r.last); err != nil {
			s.t.Fatalf("%v in %s", err, line)
		}
	}
	return r
}

// member decodes a member of the last document, which must be there.
func member[T any](t *testing.T, r reply, name string) (v T) {
	t.Helper()
	if r.status != http.StatusOK || r.last[name] == nil {
		t.Fatalf("no %s in %d %s", name, r.status, r.text)
	}
	if err := json.Unmarshal(r.last[name], &v); err != nil {
		t.Fatalf("%s: %v in %s", name, err, r.last[name])
	}
	return v
}

const chat = `{"model":"sim","messages":[{"role":"user","content":"hello"}],"ignore_eos":true` // 23 prompt tokens

func testChoices(t *testing.T, program string) {
	t.Chdir("choices")
	config, err := os.ReadFile(plugintest.README(t))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, program, string(config), nil, "--sim-step-base=1ms", "--enable-per-request-metrics", "--enable-force-include-usage")
	type entry struct {
		Index        int
		PromptIndex  *int   `json:"prompt_index"`
		FinishReason string `json:"finish_reason"`
		Tokens       int    `json:"completion_tokens"`
	}
	check := func(r reply, prompts []int) {
		t.Helper()
		entries := member[[]entry](t, r, "x_choice_metrics")
		numbers := member[[]map[string]*json.RawMessage](t, r, "x_choice_metrics")
		usage := member[struct {
			Tokens int `json:"completion_tokens"`
		}](t, r, "usage")
		sum := 0
		if len(entries) != len(prompts) {
			t.Fatalf("%d entries, want %d: %s", len(entries), len(prompts), r.last["x_choice_metrics"])
		}
		for i, e := range entries {
			sum += e.Tokens
			if e.Index != i || e.FinishReason != "length" || (e.PromptIndex != nil) != (prompts[i] >= 0) || e.PromptIndex != nil && *e.PromptIndex != prompts[i] {
				t.Errorf("entry %d is %+v", i, e)
			}
			for _, name := range []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"} {
				if numbers[i][name] == nil {
					t.Errorf("entry %d has no %s: %s", i, name, r.last["x_choice_metrics"])
				}
			}
		}
		if sum != usage.Tokens {
			t.Errorf("the entries have %d tokens, usage %d", sum, usage.Tokens)
		}
	}
	one := -1 // a single prompt has no index
	r := s.ask("", "/v1/chat/completions", chat+`,"n":3,"max_tokens":4}`)
	check(r, []int{one, one, one})
	if got := string(r.last["metrics"]); got != "null" {
		t.Errorf("metrics of three choices are %s, want null", got)
	}
	check(s.ask("", "/v1/chat/completions", chat+`,"n":3,"max_tokens":4,"stream":true}`), []int{one, one, one})
	check(s.ask("", "/v1/completions", `{"model":"sim","prompt":["a","b"],"n":2,"max_tokens":3,"ignore_eos":true}`), []int{0, 0, 1, 1})
	if r := s.ask("", "/v1/chat/completions", chat+`,"max_tokens":4}`); r.last["x_choice_metrics"] != nil || r.last["metrics"] == nil {
		t.Errorf("one choice: got %s", r.text)
	}
}

func testSLA(t *testing.T, program string) {
	const promised, never = "targets: {ttft_ms: 2000}", "targets: {ttft_ms: 86400000}"
	config := example(t, "sla.yaml")
	if !strings.Contains(config, promised) {
		t.Fatalf("no %q in sla.yaml", promised)
	}
	// A step of 250 ms misses 200 ms a token, on any machine; nothing misses a day.
	config = strings.Replace(config, promised, never, 1) + "engine: {max_queued_requests: 2}\n"
	s := serve(t, program, config, []string{"acme", "other"}, "--sim-step-base=250ms")
	type verdict struct {
		Class, Verdict, Currency string
		Missed                   []string
		Micro                    *int `json:"credit_micro"`
		Percent                  *int `json:"credit_percent"`
	}
	for _, c := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", chat + `,"max_tokens":2}`},
		{"chat, streamed", "/v1/chat/completions", chat + `,"max_tokens":2,"stream":true}`},
		{"completion, two choices", "/v1/completions", `{"model":"sim","prompt":"hello","n":2,"max_tokens":2,"ignore_eos":true}`},
		{"response", "/v1/responses", `{"model":"sim","input":"hello","max_output_tokens":2}`},
	} {
		v := member[verdict](t, s.ask("acme", c.path, c.body), "sla")
		if v.Class != "gold" || v.Verdict != "missed" || !slices.Contains(v.Missed, "tpot") || v.Micro == nil || *v.Micro != 1500 || v.Currency != "EUR" {
			t.Errorf("%s: got %+v, want missed tpot and its credit", c.name, v)
		}
	}
	v := member[verdict](t, s.ask("other", "/v1/chat/completions", chat+`,"max_tokens":2}`), "sla")
	if v.Class != "default" || v.Verdict != "met" || len(v.Missed) != 0 || v.Percent == nil || *v.Percent != 0 {
		t.Errorf("another tenant: got %+v, want met", v)
	}
	v = member[verdict](t, s.ask("other", "/v1/chat/completions", chat+`,"max_tokens":2}`, "x-slo-tpot-ms", "100"), "sla")
	if v.Verdict != "missed" || !slices.Equal(v.Missed, []string{"tpot"}) || v.Percent == nil || *v.Percent != 0 {
		t.Errorf("a target of the request: got %+v, want missed tpot without a credit", v)
	}

	if r := s.ask("acme", "/v1/chat/completions", chat+`,"n":3,"max_tokens":2}`); r.status != http.StatusTooManyRequests {
		t.Errorf("three sequences where two may wait: got %d %s", r.status, r.text)
	}
	want := []string{"missed length", "missed length", "missed length", "missed length", "met length", "missed length", "excluded rejected"}
	if got := s.credits(); !slices.Equal(got, want) {
		t.Errorf("the records say %q, want %q", got, want)
	}
	request, err := http.NewRequest("GET", s.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.keys["acme"])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`wasmeter_plugin_sla_requests_total{class="gold",verdict="missed"} 4`,
		`wasmeter_plugin_sla_requests_total{class="default",verdict="met"} 1`,
		`wasmeter_plugin_sla_missed_total{class="gold",dimension="tpot"} 4`,
		`wasmeter_plugin_sla_requests_total{class="gold",verdict="excluded"} 1`,
		`wasmeter_plugin_sla_credit_micro_total{class="gold"} 6000`,
		`wasmeter_plugin_sla_time_to_first_token_seconds_count{class="default"} 2`,
	} {
		if !strings.Contains(string(metrics), want+"\n") {
			t.Errorf("no %s in\n%s", want, lines(string(metrics), "plugin_sla"))
		}
	}

	// A client that leaves after its first token is judged by what it saw: the
	// first token came within a day.
	request, err = http.NewRequest("POST", s.url+"/v1/chat/completions", strings.NewReader(chat+`,"max_tokens":1000,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.keys["other"])
	request.Header.Set("Content-Type", "application/json")
	left, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // each takes a step of the engine, in which it sees that a client has left
		s.ask("other", "/v1/chat/completions", chat+`,"max_tokens":1}`)
		if slices.Contains(s.credits(), "met client_abort") {
			return
		}
	}
	t.Errorf("a client that left has no record: %q", s.credits())
}

// credits are the verdicts and ends that the ledger has, one for each record.
func (s *server) credits() (all []string) {
	s.t.Helper()
	records, err := os.ReadFile(filepath.Join(s.dir, "usage.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(records)) {
		var record struct {
			Emitted []struct {
				Plugin string
				Kind   int
				Data   struct{ Verdict, Outcome string }
			}
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || len(record.Emitted) != 1 || record.Emitted[0].Kind != 2 {
			s.t.Fatalf("%v: want one credit in %s", err, line)
		}
		all = append(all, record.Emitted[0].Data.Verdict+" "+record.Emitted[0].Data.Outcome)
	}
	return all
}

func testQuota(t *testing.T, program string) {
	const before, after = "{window: minute, tokens: 10000}", "{window: month, tokens: 60}"
	config := example(t, "quota.yaml")
	if !strings.Contains(config, before) {
		t.Fatalf("no %q in quota.yaml", before)
	}
	s := serve(t, program, strings.Replace(config, before, after, 1), []string{"trial-1", "trial-2", "acme"}, "--sim-step-base=1ms")
	const path, eight = "/v1/chat/completions", chat + `,"max_tokens":8}`
	r := s.ask("trial-1", path, eight)
	if left := r.header.Get("x-quota-remaining"); r.status != http.StatusOK || r.header.Get("x-quota-limit") != "60" || left != "29" {
		t.Fatalf("23 + 8 of 60 tokens: got %d with %s left, want 29: %s", r.status, left, r.text)
	}
	for _, stream := range []string{"", `,"stream":true`} {
		asked := time.Now().UTC()
		r = s.ask("trial-1", path, chat+`,"max_tokens":8`+stream+"}")
		wait, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != http.StatusTooManyRequests || err != nil || !strings.Contains(r.text, `"code":"quota_exceeded"`) || !strings.Contains(r.text, "60 tokens per month for tenant trial-1; 31 are used") {
			t.Fatalf("31 more tokens: got %d, Retry-After %v: %s", r.status, r.header["Retry-After"], r.text)
		}
		end := time.Date(asked.Year(), asked.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		longest, shortest := int(end.Sub(asked)/time.Second)+1, int(time.Until(end)/time.Second)
		if reset, err := strconv.Atoi(r.header.Get("x-quota-reset")); err != nil || reset > longest || reset < shortest || wait != min(reset, 86_400) {
			t.Errorf("Retry-After %d, reset %d; the month ends in %d … %d s", wait, reset, shortest, longest)
		}
	}
	if r := s.ask("trial-1", path, chat+`,"max_tokens":6}`); r.status != http.StatusOK || r.header.Get("x-quota-remaining") != "0" {
		t.Errorf("what fits exactly: got %d %v", r.status, r.header)
	}
	if r := s.ask("trial-1", path, chat+`,"max_tokens":38}`); r.status != http.StatusBadRequest || r.header.Get("Retry-After") != "" || !strings.Contains(r.text, "quota_request_too_large") {
		t.Errorf("what never fits: got %d %v %s", r.status, r.header, r.text)
	}
	for _, tenant := range []string{"trial-2", "acme"} {
		if r := s.ask(tenant, path, eight); r.status != http.StatusOK {
			t.Errorf("tenant %s: got %d %s", tenant, r.status, r.text)
		}
	}
}

// example reads a configuration of examples/config.
func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../examples/config", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines are those of a text that hold a word.
func lines(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
