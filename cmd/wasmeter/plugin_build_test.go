package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginNewBuildTest: the three commands one after the other, in Go, which is
// there; sdk/scaffold tests the other languages.
func TestPluginNewBuildTest(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest, some seconds; run without -short")
	}
	t.Chdir(t.TempDir())
	code, out, stderr := command(t, nil, "plugin", "new", "--lang", "go", "Tariff")
	if want := "Tariff/main.go: a plugin in Go; see its README.md\nnext:\n  wasmeter plugin build Tariff\n"; code != 0 || !strings.HasPrefix(out, want) {
		t.Fatalf("new: exit %d: %s%s\nwant %s", code, out, stderr, want)
	}
	code, out, stderr = command(t, nil, "plugin", "build", "Tariff", "--json")
	var built struct {
		File, Language, Compiler, SHA256 string
		Bytes                            int
		Hooks, Grants                    []string
	}
	if err := json.Unmarshal([]byte(out), &built); code != 0 || err != nil {
		t.Fatalf("build: exit %d, %v: %s%s", code, err, out, stderr)
	}
	info, err := os.Stat("Tariff/tariff.wasm")
	if err != nil {
		t.Fatal(err)
	}
	if built.File != filepath.FromSlash("Tariff/tariff.wasm") || built.Language != "go" || !strings.HasPrefix(built.Compiler, "go1.") || int64(built.Bytes) != info.Size() ||
		len(built.SHA256) != 64 || strings.Join(built.Hooks, " ") != "shape finish" || strings.Join(built.Grants, " ") != "emit" {
		t.Errorf("got %+v", built)
	}
	if code, out, stderr = command(t, nil, "plugin", "test", "Tariff"); code != 0 || strings.Count(out, "ok ") != 2 {
		t.Errorf("test: exit %d: %s%s", code, out, stderr)
	}
	if code, out, stderr = command(t, nil, "config", "check", "Tariff/wasmeter.yaml"); code != 0 {
		t.Errorf("config check: exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr = command(t, nil, "plugin", "new", "--lang", "zig", "Tariff"); code != exitNotStart || !strings.Contains(stderr, "Tariff is not empty") {
		t.Errorf("new in its place: exit %d: %s", code, stderr)
	}
	// A file that plugins may not have is found before a server is.
	main := "package main\n\nimport \"os\"\n\nfunc main() {}\n\nfunc init() { os.ReadFile(\"/etc/passwd\") }\n"
	if err := os.WriteFile("Tariff/main.go", []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = command(t, nil, "plugin", "build", "Tariff", "-o", "other.wasm"); code != exitNotStart || !strings.Contains(stderr, "other.wasm") {
		t.Errorf("no plugin: exit %d: %s", code, stderr)
	}
}

func TestPluginNewRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"new billing", exitUsage, "--lang is missing; it is one of go, as, zig, rust, c"},
		{"new --lang go", exitUsage, "accepts 1 arg(s), received 0"},
		{"new --lang perl billing", exitUsage, `--lang: language "perl" is unknown; use one of go, as, zig, rust, c`},
		{"new --lang go my.plugin", exitNotStart, `"my.plugin" is no plugin's name; use 1 to 64 of a-z, 0-9, - and _, a letter or digit first, or give one with --name`},
		{"new --lang go plug --name a/b", exitNotStart, `"a/b" is no plugin's name`},
		{"build none", exitNotStart, "none: no such file"},
		{"build", exitNotStart, ".: no plugin's sources: it has no .go, .ts, .zig"},
		{"build a b", exitUsage, "accepts at most 1 arg(s), received 2"},
		{"test none", exitNotStart, "none: no such file"},
		{"test", exitNotStart, "tests/*.yaml has no such case"},
	} {
		code, out, stderr := command(t, nil, append([]string{"plugin"}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || out != "" {
			t.Errorf("plugin %s: exit %d: %s%s\nwant %d, %s", test.args, code, out, stderr, test.code, test.want)
		}
	}
}

// TestPluginBuildMissing: without a compiler the command says what to install.
func TestPluginBuildMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("ZIG", filepath.Join(t.TempDir(), "none"))
	if code, out, stderr := command(t, nil, "plugin", "new", "--lang", "zig", "billing"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	code, _, stderr := command(t, nil, "plugin", "build", "billing")
	const want = "Zig 0.17.1 is needed, it is not there; install it with: python3 -m pip install ziglang==0.17.1; or let ZIG name the command\n"
	if code != exitNotStart || !strings.HasSuffix(stderr, want) {
		t.Errorf("exit %d: %s\nwant …%s", code, stderr, want)
	}
}
