package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPluginAdmin: the commands do at a running server what they say.
func TestPluginAdmin(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	file := filepath.Join(dir, "wasmeter.yaml")
	const config = "server: {admin: 127.0.0.1:0}\nplugins:\n- {name: metrics, builtin: metrics, grants: {fields: [metrics]}}\n"
	write(t, file, []byte(config))
	p := start(t, "--config="+file, "--enable-per-request-metrics", "--sim-step-base=1ms")
	address := strings.TrimPrefix(p.operators(t).url, "http://")
	ask := func(want int, args ...string) string {
		t.Helper()
		code, out, stderr := command(t, nil, append(append([]string{"plugin"}, args...), "--admin", address)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s%s", args, code, want, out, stderr)
		}
		return out + stderr
	}
	row := func(text, state string, calls int) bool {
		return regexp.MustCompile(fmt.Sprintf(`(?m)^metrics +%s +shape +%d +0 +1 +[0-9.]+ KiB +[0-9a-f]{12} +builtin$`, state, calls)).MatchString(text)
	}

	if !p.metricsIn(t) {
		t.Fatal("no metrics at the start")
	}
	if out := ask(0, "list"); !strings.HasPrefix(out, "generation 1\nNAME ") || !row(out, "on", 1) {
		t.Errorf("list:\n%s", out)
	}
	if out := ask(0, "disable", "metrics"); !row(out, "disabled", 1) {
		t.Errorf("disable:\n%s", out)
	}
	if p.metricsIn(t) {
		t.Error("a disabled plugin adds its field")
	}
	if out := ask(0, "reload"); !strings.HasPrefix(out, "generation 2\n") || !row(out, "disabled", 1) {
		t.Errorf("reload:\n%s", out)
	}
	if out := ask(0, "enable", "metrics"); !row(out, "on", 1) {
		t.Errorf("enable:\n%s", out)
	}
	if !p.metricsIn(t) {
		t.Error("an enabled plugin adds no field")
	}
	if out := ask(0, "selftest", "metrics"); strings.Count(out, "\n") != 3 || !regexp.MustCompile(`(?m)^shape +[0-9]+ units +[0-9.]+ ms +a chat request +ok$`).MatchString(out) {
		t.Errorf("selftest:\n%s", out)
	}
	var list struct {
		Generation int
		Plugins    []struct{ Calls int }
	}
	if out := ask(0, "list", "--json"); json.Unmarshal([]byte(out), &list) != nil || list.Generation != 2 || list.Plugins[0].Calls != 2 {
		t.Errorf("list --json: %s", out)
	}

	// What goes wrong is said.
	if out := ask(1, "disable", "metric"); !strings.Contains(out, `no plugin is named "metric"; there are metrics`) {
		t.Errorf("a wrong name: %s", out)
	}
	if out := ask(2, "disable"); !strings.Contains(out, "accepts 1 arg(s)") {
		t.Errorf("no name: %s", out)
	}
	write(t, file, []byte(config+"- {name: billing, path: none.wasm}\n"))
	if out := ask(1, "reload"); !strings.Contains(out, `plugin "billing"`) || !strings.Contains(out, "none.wasm") {
		t.Errorf("a reload that fails: %s", out)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("another-token-of-somebody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ask(1, "list", "--token-file", token); !strings.Contains(out, "another token than this server's") {
		t.Errorf("a wrong token: %s", out)
	}
	if out := ask(1, "list", "--token-file", filepath.Join(dir, "none")); !strings.Contains(out, "no such file") {
		t.Errorf("no token file: %s", out)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if out := ask(1, "list"); !strings.Contains(out, "name the server's file with --token-file") {
		t.Errorf("no token: %s", out)
	}
	// The API's own address is no operators' one.
	address = strings.TrimPrefix(p.url, "http://")
	if out := ask(1, "list", "--token-file", token); !strings.Contains(out, "no such route: GET /admin/plugins") {
		t.Errorf("the API's address: %s", out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	if out := ask(1, "list", "--token-file", token); !strings.Contains(out, "nobody listens on "+address) {
		t.Errorf("nobody there: %s", out)
	}
	address = "8001"
	if out := ask(1, "list"); !strings.Contains(out, `"8001" is not host:port`) {
		t.Errorf("half an address: %s", out)
	}
}
