package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// villains are hostile plugins in files, and the configuration that loads them.
// Each is for the model of its name, so that a request meets one of them.
type villains struct {
	dir  string
	list []hostile
}

func newVillains(t *testing.T, list []hostile) *villains {
	t.Helper()
	v := &villains{t.TempDir(), list}
	for _, h := range list {
		write(t, v.module(h), h.module())
	}
	return v
}

func (v *villains) module(h hostile) string { return filepath.Join(v.dir, h.name+".wasm") }

func (v *villains) file() string { return filepath.Join(v.dir, "wasmeter.yaml") }

func (v *villains) ledger() string { return filepath.Join(v.dir, "usage.jsonl") }

// configure writes the configuration, with more plugins at its end.
func (v *villains) configure(t *testing.T, policy, more string) {
	t.Helper()
	var names, plugins strings.Builder
	for _, h := range v.list {
		fmt.Fprintf(&names, "%s, ", h.name)
		fmt.Fprintf(&plugins, "- {name: %s, path: %s, on_error: %s, match: {models: [%s]}", h.name, v.module(h), policy, h.name)
		if !strings.Contains(h.config, "grants:") {
			plugins.WriteString(", grants: {fields: [x_test]}")
		}
		if h.config != "" {
			fmt.Fprintf(&plugins, ", %s", h.config)
		}
		plugins.WriteString("}\n")
	}
	write(t, v.file(), fmt.Appendf(nil, "server: {admin: 127.0.0.1:0}\nmodel: {served_names: [%s]}\nledger: {path: %s}\nsim: {step_base: 1ms}\nplugins:\n%s%s",
		strings.TrimSuffix(names.String(), ", "), v.ledger(), &plugins, more))
}

// askVillain asks for four tokens by the plugin's model and gives status and answer.
func (p *process) askVillain(t *testing.T, name, requestID string, stream bool) (int, string) {
	t.Helper()
	more := ""
	if stream {
		more = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	q, err := http.NewRequest("POST", p.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(
		`{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":4,"ignore_eos":true%s}`, name, more)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Request-Id", requestID)
	a, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// TestHostilePlugins meets every hostile plugin under every policy: the client
// gets what the policy says, the failure is counted by its kind and told with
// the request's id, and the next request is served like the first.
func TestHostilePlugins(t *testing.T) {
	v := newVillains(t, hostiles())
	v.configure(t, "open", "")
	p := start(t, "--config="+v.file())
	ops := p.operators(t)

	// By policy: what becomes of an answer that a plugin's shape has failed.
	calls := make(map[string]int)
	for _, policy := range []string{"open", "null", "closed"} {
		if policy != "open" {
			v.configure(t, policy, "")
			if code, body := ops.ask(t, "POST", "/admin/plugins/reload"); code != 200 {
				t.Fatalf("reload for %s: %d %s", policy, code, body)
			}
		}
		for _, h := range v.list {
			for _, stream := range []bool{false, true} {
				if h.hook == "chunk" && (!stream || policy == "closed") {
					continue // chunks are of streams, and one failure ends a stream that is closed
				}
				id := fmt.Sprintf("%s-%s-%v", h.name, policy, stream)
				status, body := p.askVillain(t, h.name, id, stream)
				calls[h.name]++
				h.check(t, policy, stream, status, body)
				if h.kind != "" {
					told := fmt.Sprintf("kind=%s on_error=%s request_id=%s attempt_id=", h.kind, policy, id)
					eventually(t, "the log has "+told, func() bool { return strings.Contains(p.logged(), told) })
				}
			}
		}
	}
	v.checkCounters(t, ops, calls)
	v.checkLedger(t)
	v.checkLog(t, p.logged())

	// An operator stops one: clients are served, and its records stay unpriced.
	if code, body := ops.ask(t, "POST", "/admin/plugins/trap-in-finish/disable"); code != 200 {
		t.Fatalf("disable: %d %s", code, body)
	}
	if status, body := p.askVillain(t, "trap-in-finish", "disabled", false); status != 200 || !strings.Contains(body, `"completion_tokens":4`) {
		t.Errorf("disabled: got %d %s", status, body)
	}
	v.checkLedger(t, "disabled")
	if _, text := ops.ask(t, "GET", "/metrics"); !strings.Contains(text, "\n"+`wasmeter_plugin_failures_total{hook="finish",kind="disabled",plugin="trap-in-finish"} 1`+"\n") {
		t.Error("the finish that was left out is not counted")
	}
}

// check compares an answer with what the policy makes of the failure.
func (h *hostile) check(t *testing.T, policy string, stream bool, status int, body string) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s, stream %v: "+format, append(append([]any{h.name, policy, stream}, args...), status, body)...)
	}
	whole := strings.Contains(body, `"completion_tokens":4`)
	member := regexp.MustCompile(`"x_test":(\w+)`).FindString(body)
	shapes := h.hook == ""
	switch {
	case h.kind != "" && policy == "closed" && (shapes || h.hook == "request"):
		// A stream has begun with 200 when its shape fails: it ends with an error.
		if begun := stream && shapes; begun != (status == 200) || !begun && status != 500 || whole || !strings.Contains(body, `"code":"plugin_error"`) {
			fault("want a plugin_error, got %d %s")
		}
	case status != 200 || !whole:
		fault("want the whole answer, got %d %s")
	case stream && !strings.Contains(body, "data: [DONE]"):
		fault("want the stream's end, got %d %s")
	case h.kind == "" && member != `"x_test":1`:
		fault("want its field, got %d %s")
	case h.kind != "" && policy == "null" && shapes && member != `"x_test":null`:
		fault("want its field as null, got %d %s")
	case h.kind != "" && !(policy == "null" && shapes) && member != "":
		fault("want no field, got %d %s")
	}
}

// checkCounters: each call and each failure has been counted, under names of the
// configuration alone.
func (v *villains) checkCounters(t *testing.T, ops *office, calls map[string]int) {
	t.Helper()
	_, text := ops.ask(t, "GET", "/metrics")
	value := func(series string) int {
		_, rest, found := strings.Cut(text, "\n"+series+" ")
		if !found {
			return 0
		}
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Errorf("%s is %q", series, line)
		}
		return int(n)
	}
	for _, h := range v.list {
		hook, want := h.hook, calls[h.name]
		if hook == "" {
			hook = "shape"
		}
		if hook == "chunk" {
			// Each stream of four tokens has six chunks or more; after five failures
			// the breaker is open.
			if n := value(fmt.Sprintf(`wasmeter_plugin_failures_total{hook="chunk",kind="out_of_fuel",plugin="%s"}`, h.name)); n != 5*want {
				t.Errorf("%s: %d failures of %d streams, want five each", h.name, n, want)
			}
			if n := value(fmt.Sprintf(`wasmeter_plugin_failures_total{hook="chunk",kind="breaker_open",plugin="%s"}`, h.name)); n == 0 {
				t.Errorf("%s: no call was left out by the breaker", h.name)
			}
			continue
		}
		failures, recycles := 0, 0
		if h.kind != "" {
			failures = want
		}
		if recycled(h.kind) {
			recycles = want
		}
		for series, want := range map[string]int{
			fmt.Sprintf(`wasmeter_plugin_calls_total{hook="%s",plugin="%s"}`, hook, h.name):                        want,
			fmt.Sprintf(`wasmeter_plugin_failures_total{hook="%s",kind="%s",plugin="%s"}`, hook, h.kind, h.name):   failures,
			fmt.Sprintf(`wasmeter_plugin_recycles_total{plugin="%s"}`, h.name):                                     recycles,
			fmt.Sprintf(`wasmeter_plugin_fuel_count{hook="%s",plugin="%s"}`, hook, h.name):                         want,
			fmt.Sprintf(`wasmeter_plugin_duration_seconds_count{hook="%s",plugin="%s"}`, hook, h.name):             want,
			fmt.Sprintf(`wasmeter_plugin_failures_total{hook="%s",kind="breaker_open",plugin="%s"}`, hook, h.name): 0,
		} {
			if got := value(series); got != want {
				t.Errorf("%s is %d, want %d", series, got, want)
			}
		}
	}
	// Of series 10,000 down to 1 there is the last.
	if n := value(`wasmeter_plugin_metric_series_seen_total{l="b"}`); n != 6 || strings.Count(text, "\nwasmeter_plugin_metric_series_seen_total{") != 1 {
		t.Errorf("a plugin that counts in 10,000 series six times has counted %d, or in others than declared", n)
	}
	if strings.Contains(text, "wasmeter_plugin_imports_in_init_seen") {
		t.Error("what a plugin counted in init is counted")
	}
}

// checkLedger: each request has its record, those more too, and a finish that
// failed or was left out leaves it unpriced.
func (v *villains) checkLedger(t *testing.T, more ...string) {
	t.Helper()
	data, err := os.ReadFile(v.ledger())
	if err != nil {
		t.Fatal(err)
	}
	records, unpriced := 0, 0
	for line := range bytes.Lines(data) {
		var r struct {
			Model    string
			Unpriced []string
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		records++
		if len(r.Unpriced) > 0 {
			unpriced++
		}
		if r.Model == "trap-in-finish" && fmt.Sprint(r.Unpriced) != "[trap-in-finish]" {
			t.Errorf("unpriced by %v: %s", r.Unpriced, line)
		}
	}
	// Every plugin is asked twice under three policies, that for chunks twice.
	if want := 6*(len(v.list)-1) + 2 + len(more); records != want || unpriced != 6+len(more) {
		t.Errorf("%d records, %d of them unpriced; want %d and %d", records, unpriced, want, 6+len(more))
	}
}

// checkLog: what plugins wrote is bounded, and each line says about which request.
func (v *villains) checkLog(t *testing.T, log string) {
	t.Helper()
	lines := make(map[string]int)
	plugin := regexp.MustCompile(`msg="plugin log" plugin=(\S+) `)
	for line := range strings.Lines(log) {
		found := plugin.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		lines[found[1]]++
		if !strings.Contains(line, " hook=shape request_id="+found[1]+"-") && !strings.Contains(line, "request_id=chatcmpl-synthetic") {
			t.Errorf("a line without its request: %.300s", line)
		}
		if len(line) > 20<<10 { // 2 KiB, each byte of which may take several
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	for _, name := range []string{"log-flood", "log-endless-line", "stderr-flood"} {
		// 50 at once in each of three generations, and ten a second for all the time
		// that the test may take.
		if n := lines[name]; n < 50 || n > 3*50+10*60 {
			t.Errorf("%s has written %d lines", name, n)
		}
	}
	if len(log) > 10<<20 {
		t.Errorf("the log has %d bytes", len(log))
	}
}

// TestHostileLoads: what is hostile before it serves is not loaded; the server
// goes on with what it has, and counts it.
func TestHostileLoads(t *testing.T) {
	good := hostile{name: "good", crime: wasmGood}
	v := newVillains(t, []hostile{good})
	v.configure(t, "open", "")
	p := start(t, "--config="+v.file())
	ops := p.operators(t)
	item := func(h hostile, more string) string {
		write(t, v.module(h), h.module())
		return fmt.Sprintf("- {name: %s, path: %s, match: {models: [none]}%s}\n", h.name, v.module(h), more)
	}
	series := make([]string, 10_000)
	for i := range series {
		series[i] = fmt.Sprintf("v%d", i)
	}
	ten := strings.Join(series[:10], ", ")
	refused := []struct{ name, plugin, want string }{
		{"trap in init", item(hostile{name: "t", init: wasmUnreachable, crime: wasmGood}, ""), "unreachable"},
		{"loop in init", item(hostile{name: "l", init: wasmForever(), crime: wasmGood}, ""), "out of fuel"},
		{"exit in init", item(hostile{name: "e", init: wasm(wasmI32(0), wasmCall(0)), calls: []string{"wasi_snapshot_preview1.proc_exit i -"}, crime: wasmGood}, ""), "exit_code(0)"},
		{"init without its grant", item(hostile{name: "g", calls: []string{"wasmeter_v1.emit iii i"}, crime: wasmGood}, ""), "grants.emit"},
		{"an import that there is not", item(hostile{name: "i", calls: []string{"env.system ii i"}, crime: wasmGood}, ""), "env"},
		{"10,000 values of a label", item(hostile{name: "s", crime: wasmGood}, ", grants: {fields: [x_test], metrics: true}, metrics: [{name: m, type: counter, labels: {l: ["+strings.Join(series, ", ")+"]}}]"), "series"},
		{"10,000 combinations of labels", item(hostile{name: "s", crime: wasmGood}, fmt.Sprintf(", grants: {fields: [x_test], metrics: true}, metrics: [{name: m, type: counter, labels: {a: [%s], b: [%s], c: [%s], d: [%s]}}]", ten, ten, ten, ten)), "series"},
		{"10,000 metrics", item(hostile{name: "s", crime: wasmGood}, ", grants: {fields: [x_test], metrics: true}, metrics: ["+strings.Repeat("{name: m, type: counter}, ", 10_000)+"]"), "metrics"},
		{"no module", fmt.Sprintf("- {name: n, path: %s}\n", v.file()), "not"},
	}
	for i, c := range refused {
		v.configure(t, "open", c.plugin)
		code, body := ops.ask(t, "POST", "/admin/plugins/reload")
		if code != http.StatusConflict || !strings.Contains(body, c.want) || len(body) > 4<<10 {
			t.Errorf("%s: got %d %.1000s, want a refusal that names %q", c.name, code, body, c.want)
		}
		if status, answer := p.askVillain(t, "good", fmt.Sprint("after-", i), false); status != 200 || !strings.Contains(answer, `"x_test":1`) {
			t.Errorf("after %s: got %d %s", c.name, status, answer)
		}
	}
	if _, text := ops.ask(t, "GET", "/metrics"); !strings.Contains(text, fmt.Sprintf("\nwasmeter_plugin_reload_failures_total %d\n", len(refused))) {
		t.Errorf("reload failures are not %d", len(refused))
	}
}
