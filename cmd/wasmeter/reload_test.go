package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// office is where operators ask.
type office struct{ url, tokenFile string }

// operators finds it in the log.
func (p *process) operators(t *testing.T) *office {
	t.Helper()
	line := regexp.MustCompile(`serving operators" address=([0-9.:]+) token_file=(\S+)\n`)
	eventually(t, "the operators' address is in the log", func() bool { return line.MatchString(p.logged()) })
	found := line.FindStringSubmatch(p.logged())
	return &office{"http://" + found[1], found[2]}
}

// ask asks with the token.
func (o *office) ask(t *testing.T, method, path string) (int, string) {
	t.Helper()
	token, err := os.ReadFile(o.tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return o.read(t, method, path, "Bearer "+strings.TrimSpace(string(token)))
}

// read asks and reads the answer.
func (o *office) read(t *testing.T, method, path, authorization string) (int, string) {
	t.Helper()
	q, err := http.NewRequest(method, o.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", authorization)
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

	ops := p.operators(t)
	if code, body := ops.ask(t, "POST", "/admin/plugins/reload"); code != http.StatusConflict || !strings.Contains(body, "reload_failed") {
		t.Errorf("reload of a broken module: %d %s", code, body)
	}
	write(t, module, plugins.Module("metrics"))
	if code, body := ops.ask(t, "POST", "/admin/plugins/reload"); code != http.StatusOK || !strings.Contains(body, `"name":"metrics"`) {
		t.Errorf("reload: %d %s", code, body)
	}
	code, body := ops.ask(t, "GET", "/metrics")
	for _, want := range []string{"wasmeter_plugin_calls_total{", "wasmeter_plugin_fuel_count{", `wasmeter_plugin_breaker_state{plugin="metrics"} 0`} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics for operators: %d, no %s", code, want)
		}
	}
	failures := regexp.MustCompile(`\nwasmeter_plugin_reload_failures_total ([0-9]+)\n`).FindStringSubmatch(body)
	if failures == nil {
		t.Fatalf("no reload failures in\n%s", body)
	}
	eventually(t, "the log tells each of the failures counted, "+failures[1], func() bool {
		n := strings.Count(p.logged(), "not reloaded")
		return n >= 3 && strconv.Itoa(n) == failures[1]
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained {
		t.Errorf("exit code %d: %s", code, p.logged())
	}
}

// TestReloadKeysTokenAndLevel: what else can change does so together or not at
// all, and the log says what.
func TestReloadKeysTokenAndLevel(t *testing.T) {
	dir := t.TempDir()
	file, ring, token := filepath.Join(dir, "wasmeter.yaml"), filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "token")
	entry := func(name, key string) string {
		return fmt.Sprintf("  - {name: %s, sha256: %x}\n", name, sha256.Sum256([]byte(key)))
	}
	configure := func(level string, more string) {
		t.Helper()
		write(t, file, fmt.Appendf(nil, "server: {admin: 127.0.0.1:0, admin_token_file: %s, api_keys_file: %s}\nlog: {level: %s}\n%s", token, ring, level, more))
	}
	write(t, ring, []byte("keys:\n"+entry("alice", "alice-1")))
	write(t, token, []byte("operators-token-1\n"))
	configure("info", "")
	p := start(t, "--config="+file)
	ops := p.operators(t)
	status := func(key string) int {
		t.Helper()
		q, err := http.NewRequest("GET", p.url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+key)
		a, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	if a, b := status("alice-1"), status("bob-1"); a != 200 || b != 401 {
		t.Fatalf("at the start alice gets %d and bob %d", a, b)
	}

	// The keys' file is watched.
	write(t, ring, []byte("keys:\n"+entry("alice", "alice-2")+entry("bob", "bob-1")))
	eventually(t, "bob is let in", func() bool { return status("bob-1") == 200 })
	if a, b := status("alice-1"), status("alice-2"); a != 401 || b != 200 {
		t.Errorf("alice's old key gets %d, her next %d", a, b)
	}
	eventually(t, "the log says which keys", func() bool { return strings.Contains(p.logged(), `msg=reloaded api_keys="~alice +bob"`) })

	// One fault, and nothing changes: neither keys, nor level, nor token.
	configure("debug", "plugins: [{name: p, path: none.wasm}]\n") // first: the others are watched
	write(t, token, []byte("operators-token-2\n"))
	write(t, ring, []byte("keys:\n"+entry("carol", "carol-1")))
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing module is told", func() bool { return strings.Contains(p.logged(), "none.wasm") })
	if c, b := status("carol-1"), status("bob-1"); c != 401 || b != 200 {
		t.Errorf("after a reload that failed carol gets %d and bob %d", c, b)
	}
	if code, body := ops.ask(t, "GET", "/admin/plugins"); code != 401 {
		t.Errorf("after a reload that failed the next token gets %d %s", code, body)
	}

	// All of it, with a key that waits for a restart.
	configure("warn", "engine: {max_num_seqs: 3}\n")
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "carol is let in", func() bool { return status("carol-1") == 200 })
	if b := status("bob-1"); b != 401 {
		t.Errorf("bob, who is gone, gets %d", b)
	}
	if code, body := ops.ask(t, "GET", "/admin/plugins"); code != 200 {
		t.Errorf("the next token gets %d %s", code, body)
	}
	eventually(t, "the level has changed", func() bool {
		return strings.Contains(p.logged(), `these keys have changed and wait for a restart" keys=engine.max_num_seqs`)
	})
	if strings.Contains(p.logged(), "api_keys=\"+carol") { // a line of level info
		t.Errorf("the level is still info: %s", p.logged())
	}

	// A level that lets the line through.
	configure("info", "")
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says which level", func() bool { return strings.Contains(p.logged(), `msg=reloaded log_level="WARN to INFO"`) })
	if strings.Contains(p.logged(), "operators-token") || strings.Contains(p.logged(), "alice-2") {
		t.Error("a secret is in the log")
	}
}

// TestReloadOfItsFile: a change of the configuration's file does what a SIGHUP
// does, also to a file that was broken meanwhile.
func TestReloadOfItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wasmeter.yaml")
	write(t, file, []byte("log: {level: info}\n"))
	p := start(t, "--config="+file)
	logs := func(text string) {
		t.Helper()
		eventually(t, "the log has "+text, func() bool { return strings.Contains(p.logged(), text) })
	}
	write(t, file, []byte("log: {levle: info}\n"))
	logs("log.levle")
	logs(`reason="files have changed" files=` + file)
	write(t, file, []byte("log: {level: warn}\nengine: {max_num_seqs: 3}\n"))
	logs(`these keys have changed and wait for a restart" keys=engine.max_num_seqs`)
	write(t, file, []byte("log: {level: info}\n"))
	logs(`msg=reloaded log_level="WARN to INFO"`)
}

// TestTokenThatIsMade: without a token of their own operators find one in a file
// that goes with the server.
func TestTokenThatIsMade(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	p := start(t, "--admin=127.0.0.1:0")
	ops := p.operators(t)
	if !strings.HasPrefix(ops.tokenFile, dir) {
		t.Fatalf("the token is in %s, want it in %s", ops.tokenFile, dir)
	}
	if info, err := os.Stat(ops.tokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v; want mode 0600", info, err)
	}
	if code, body := ops.ask(t, "GET", "/admin/plugins"); code != 200 {
		t.Errorf("with the token: %d %s", code, body)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained {
		t.Errorf("exit code %d: %s", code, p.logged())
	}
	if exists(ops.tokenFile) {
		t.Error("the token is left behind")
	}
}

func TestNoPlaceForAToken(t *testing.T) {
	for _, name := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"} {
		t.Setenv(name, "")
	}
	code, _, text := command(t, nil, "serve", "sim", "--port=0", "--admin=127.0.0.1:0")
	if code != exitNotStart || !strings.Contains(text, "set server.admin_token_file") {
		t.Errorf("exit %d, %s\nwant 1 and what to set", code, text)
	}
	code, _, text = command(t, nil, "serve", "sim", "--port=0", "--admin=127.0.0.1:0", "--admin-token-file=none")
	if code != exitNotStart || !strings.Contains(text, "server.admin_token_file: open none") {
		t.Errorf("exit %d, %s\nwant 1 and the file", code, text)
	}
}
