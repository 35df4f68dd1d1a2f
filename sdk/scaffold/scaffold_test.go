package scaffold

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/sdk/cases"
	"github.com/wasmeter/wasmeter/sdk/toolchain"
	"github.com/wasmeter/wasmeter/sdk/toolchain/toolchaintest"
)

// TestNewBuildTest: in each language, what is written builds without a network,
// gives the same bytes in another folder, and passes its tests.
func TestNewBuildTest(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers, some seconds each; run without -short")
	}
	// No network: neither Go nor Node may fetch anything.
	t.Setenv("GOPROXY", "off")
	t.Setenv("npm_config_offline", "true")
	for _, l := range toolchain.Languages() {
		t.Run(string(l), func(t *testing.T) {
			var built []*toolchain.Built
			var dir string
			for _, folder := range []string{"here", "a folder elsewhere"} {
				if slow := l == toolchain.AssemblyScript || l == toolchain.Rust; slow && len(built) > 0 {
					continue // the examples in these languages are compared with modules built elsewhere
				}
				dir = filepath.Join(t.TempDir(), folder)
				if err := Write(dir, l, "mine"); err != nil {
					t.Fatal(err)
				}
				built = append(built, toolchaintest.Build(t, dir))
			}
			if last := built[len(built)-1]; !bytes.Equal(built[0].Wasm, last.Wasm) {
				t.Errorf("the same sources give %d bytes in one folder and others, %d, in another", len(built[0].Wasm), len(last.Wasm))
			}
			runCases(t, dir, built[0].Wasm)
		})
	}
}

// runCases runs the cases of a folder as its wasmeter.yaml configures the plugin.
func runCases(t *testing.T, dir string, wasm []byte) {
	t.Helper()
	ctx := t.Context()
	c, err := config.Load(config.Sources{File: filepath.Join(dir, "wasmeter.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	spec := c.Plugins[0].Spec
	if spec.Name != "mine" || spec.Path != "mine.wasm" {
		t.Errorf("wasmeter.yaml has the plugin %q in %q; want mine and mine.wasm", spec.Name, spec.Path)
	}
	spec.Path, spec.Wasm = "", wasm
	runner, err := cases.NewRunner(ctx, spec, plugin.Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := runner.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	files, err := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the cases are %v, %v; want two", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read, err := cases.Read(filepath.Base(file), text)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := runner.Run(ctx, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range verdict.Faults {
			t.Errorf("%s: %s", file, fault)
		}
		t.Logf("%s: %d units of fuel at most", filepath.Base(file), verdict.Fuel)
	}
}

// TestWrite: a plugin's folder is found to be what it was made as, and nothing of
// the templates is left in it.
func TestWrite(t *testing.T) {
	for _, l := range toolchain.Languages() {
		dir := filepath.Join(t.TempDir(), "new", "folder")
		if err := Write(dir, l, "my-plugin"); err != nil {
			t.Fatal(err)
		}
		p, err := toolchain.Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		if p.Language != l || p.Name != "my-plugin" {
			t.Errorf("%s: found to be %s, %s", l, p.Language, p.Name)
		}
		err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.HasSuffix(path, ".tmpl") || strings.HasSuffix(path, "_test.go") || bytes.Contains(text, []byte("{{.")) {
				t.Errorf("%s: %s is not what a plugin's folder has", l, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, toolchain.Zig, "plug"); err == nil || !strings.Contains(err.Error(), "is not empty (it has mine.txt)") {
		t.Errorf("got %v, want a folder that is not empty", err)
	}
	entries, err := os.ReadDir(taken)
	if names := slices.Collect(func(yield func(string) bool) {
		for _, e := range entries {
			yield(e.Name())
		}
	}); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v; want mine.txt alone", names, err)
	}
	if err := Write(filepath.Join(taken, "mine.txt"), toolchain.Zig, "plug"); err == nil {
		t.Error("a file in the folder's place: got no error")
	}
	for _, name := range []string{"", "Upper", "a b", "-a", "ü", "a/b", strings.Repeat("a", 65)} {
		if err := Write(filepath.Join(t.TempDir(), "new"), toolchain.Zig, name); err == nil || !strings.Contains(err.Error(), "no plugin's name") {
			t.Errorf("name %q: got %v, want a refusal", name, err)
		}
	}
}
