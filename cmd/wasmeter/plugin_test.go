package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const guestModule = "../../sdk/conformance/guests/zig/guest.wasm"

func TestPluginInspect(t *testing.T) {
	code, out, stderr := command(t, nil, "plugin", "inspect", guestModule)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{
		"hooks      shape, finish, request, chunk\n",
		"wants      events, the response document, the request document, choices\n",
		"grants     clock, content_egress, emit, kv.read, kv.write, metrics, read.request, read.response\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}

	code, out, stderr = command(t, nil, "plugin", "inspect", guestModule, "--json", "--plugin-config", `{"do":"refuse","why":"no book"}`)
	var report struct {
		Bytes   int
		SHA256  string
		Hooks   []string
		Refused string
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	info, err := os.Stat(guestModule)
	if err != nil {
		t.Fatal(err)
	}
	if report.Bytes != int(info.Size()) || len(report.SHA256) != 64 || len(report.Hooks) != 0 || !strings.Contains(report.Refused, "no book") {
		t.Errorf("got %+v, want the file's size, a hash, and why init refused", report)
	}
}

func TestPluginConformance(t *testing.T) {
	code, out, stderr := command(t, nil, "plugin", "conformance", guestModule, "--calls", "10")
	if code != 0 || !strings.Contains(out, "ok      later version\n") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	code, out, stderr = command(t, nil, "plugin", "conformance", "../../examples/plugins/billing-zig/billing.wasm", "--calls", "10", "--json")
	if code != exitNotStart || !strings.Contains(stderr, "checks failed") || !strings.Contains(out, `{"check":"fields","verdict":"failed","why":"`) {
		t.Errorf("a plugin that is no guest: exit %d: %s%s", code, out, stderr)
	}
}

func TestPluginFiles(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.wasm")
	if err := os.WriteFile(text, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"inspect", "conformance"} {
		for file, want := range map[string]string{"none.wasm": "no such file", text: "text.wasm: "} {
			if code, _, stderr := command(t, nil, "plugin", sub, file); code != exitNotStart || !strings.Contains(stderr, want) {
				t.Errorf("plugin %s %s: exit %d: %s; want %q", sub, file, code, stderr, want)
			}
		}
		if code, _, _ := command(t, nil, "plugin", sub); code != exitUsage {
			t.Errorf("plugin %s without a file: exit %d, want %d", sub, code, exitUsage)
		}
	}
}

// What the server would refuse, inspect refuses with the same words.
func TestPluginInspectRefusesWhatLoadingDoes(t *testing.T) {
	for name, c := range map[string]struct{ module, want string }{
		"empty":          {"", `does not export "memory"`},
		"start function": {"\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x08\x01\x00" + "\x0a\x04\x01\x02\x00\x0b", "a start function runs code before the host is ready"},
		"a file":         {"\x01\x04\x01\x60\x00\x00" + "\x02\x22\x01\x16wasi_snapshot_preview1\x07fd_read\x00\x00", "plugins have no files"},
	} {
		path := filepath.Join(t.TempDir(), "module.wasm")
		if err := os.WriteFile(path, []byte("\x00asm\x01\x00\x00\x00"+c.module), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, stderr := command(t, nil, "plugin", "inspect", path); code != exitNotStart || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d: %s%s; want %q", name, code, out, stderr, c.want)
		}
	}
}
