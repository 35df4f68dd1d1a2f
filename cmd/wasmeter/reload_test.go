package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/plugins"
)

// write replaces a file at once, as editors and Kubernetes do.
func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// metricsIn asks and tells whether the answer has metrics.
func (p *process) metricsIn(t *testing.T) bool {
	t.Helper()
	response, err := client.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	_, there := answer["metrics"]
	return there
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}

// TestReload: plugins come and go by SIGHUP, by a change of their file and by an
// operator's call; what is broken changes nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file, module := filepath.Join(dir, "wasmeter.yaml"), filepath.Join(dir, "m.wasm")
	write(t, module, plugins.Module("metrics"))
	const base = "server: {admin: 127.0.0.1:0}\nmetrics: {per_request: true}\nsim: {step_base: 1ms}\nplugins:\n"
	with := base + fmt.Sprintf("- {name: metrics, path: %s, grants: {fields: [metrics]}}\n", module)
	without := base + fmt.Sprintf("- {name: metrics, path: %s, grants: {fields: [metrics]}, match: {tenants: [nobody]}}\n", module)
	write(t, file, []byte(with))
	p := start(t, "--config="+file)
	if !p.metricsIn(t) {
		t.Fatal("no metrics at the start")
	}
	hangup := func() {
		t.Helper()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}

	write(t, file, []byte(without))
	hangup()
	eventually(t, "the plugin is for others only", func() bool { return !p.metricsIn(t) })
	write(t, file, []byte(with))
	hangup()
	eventually(t, "metrics are back", func() bool { return p.metricsIn(t) })

	write(t, file, []byte("plugins: 3"))
	hangup()
	eventually(t, "the broken file is told", func() bool { return strings.Contains(p.logged(), "not reloaded") })
	if !p.metricsIn(t) {
		t.Error("a broken file has changed the plugins")
	}
	write(t, file, []byte(with))
	told := strings.Count(p.logged(), "not reloaded")
	write(t, module, []byte("not wasm"))
	eventually(t, "the broken module is told", func() bool { return strings.Count(p.logged(), "not reloaded") > told })
	if !p.metricsIn(t) {
		t.Error("a broken module has changed the plugins")
	}

	admin := regexp.MustCompile(`serving operators" address=([0-9.:]+)`).FindStringSubmatch(p.logged())
	if admin == nil {
		t.Fatalf("no operators' address in the log: %s", p.logged())
	}
	ask := func(method, path string) (int, string) {
		t.Helper()
		q, err := http.NewRequest(method, "http://"+admin[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
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
	if code, body := ask("POST", "/plugins/reload"); code != http.StatusConflict || !strings.Contains(body, "reload_failed") {
		t.Errorf("reload of a broken module: %d %s", code, body)
	}
	write(t, module, plugins.Module("metrics"))
	if code, body := ask("POST", "/plugins/reload"); code != http.StatusOK || !strings.Contains(body, `"name":"metrics"`) {
		t.Errorf("reload: %d %s", code, body)
	}
	if code, body := ask("GET", "/metrics"); code != http.StatusOK || !strings.Contains(body, "wasmeter_plugin_calls_total") {
		t.Errorf("metrics for operators: %d", code)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained {
		t.Errorf("exit code %d: %s", code, p.logged())
	}
}
