package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasmeter/wasmeter/sdk/toolchain/toolchaintest"
)

// guests are those of the SDKs whose compiler may be missing. The one in Go is
// built by the test.
var guests = []struct{ language, wasm string }{
	{"zig", "guests/zig/guest.wasm"},
	{"c", "guests/c/guest.wasm"},
	{"rust", "guests/rust/guest.wasm"},
	{"assemblyscript", "guests/assemblyscript/guest.wasm"},
}

func TestGuests(t *testing.T) {
	for _, g := range guests {
		t.Run(g.language, func(t *testing.T) {
			wasm, err := os.ReadFile(g.wasm)
			if err != nil {
				t.Fatal(err)
			}
			testGuest(t, wasm)
		})
	}
	t.Run("go", func(t *testing.T) {
		if testing.Short() {
			t.Skip("builds and compiles a Go guest, some seconds; run without -short")
		}
		testGuest(t, buildGo(t))
	})
}

// buildGo builds the guest in Go, as sdk/go/README.md says.
func buildGo(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./guests/go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOEXPERIMENT=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// testGuest runs all checks; wasmeter plugin conformance runs them with a
// million calls.
func testGuest(t *testing.T, wasm []byte) {
	t.Helper()
	results, err := Run(t.Context(), wasm, Options{Calls: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(checks) {
		t.Errorf("%d results of %d checks", len(results), len(checks))
	}
	for _, r := range results {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	}
}

// TestGuestsAreBuiltFromTheirSources: the committed modules are what their
// sources give.
func TestGuestsAreBuiltFromTheirSources(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers, some seconds each; run without -short")
	}
	for _, g := range guests {
		t.Run(g.language, func(t *testing.T) {
			t.Parallel()
			toolchaintest.Compare(t, "guests/"+g.language, g.wasm)
		})
	}
}

// TestFaultsAreFound: a guest that differs in one place fails the check that is
// for it. The modules are patched where their texts are.
func TestFaultsAreFound(t *testing.T) {
	wasm, err := os.ReadFile("guests/rust/guest.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, check string }{
		{"reasoning_tokens", "reasoning_tokenz", "fields"},
		{"\xef\xbf\xbd", "\xef\xbf\xbc", "text"},
		{"0123456789abcdef", "0123456789ABCDEF", "text"},
		{"x_config", "x_confih", "config"},
		{"retry_after", "retry_aftes", "request"},
		{`"usage":{`, `"usagf":{`, "answer"},
		{"deadline_ms", "deadline_mt", "request"},
		{"metric_observe", "metric_observf", "imports"},
	} {
		if !bytes.Contains(wasm, []byte(c.old)) {
			t.Errorf("the guest has no %q", c.old)
			continue
		}
		var patched []byte
		if c.old == "metric_observe" { // the first is the import's name
			at := bytes.LastIndex(wasm, []byte(c.old))
			patched = append(append(append(patched, wasm[:at]...), c.new...), wasm[at+len(c.old):]...)
		} else {
			patched = bytes.ReplaceAll(wasm, []byte(c.old), []byte(c.new))
		}
		k, err := newKit(t.Context(), patched, 1)
		if err != nil {
			t.Errorf("%q for %q: %v", c.new, c.old, err)
			continue
		}
		found := false
		for _, check := range checks {
			found = found || check.name == c.check && check.run(k, t.Context()) != nil
		}
		if err := k.close(t.Context()); err != nil {
			t.Error(err)
		}
		if !found {
			t.Errorf("%q for %q: the check %q finds nothing", c.new, c.old, c.check)
		}
	}
}
