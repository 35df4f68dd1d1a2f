package plugins_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/plugins"
)

// TestBuiltins: the table has each module that is committed here, once and in
// order, and each has a description.
func TestBuiltins(t *testing.T) {
	names := plugins.Names()
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
	modules, err := filepath.Glob("*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, path := range modules {
		folder := filepath.Dir(path)
		if folder+".wasm" != filepath.Base(path) {
			t.Errorf("%s is not named after its folder", path)
		}
		folders = append(folders, folder)
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(plugins.Module(folder), committed) {
			t.Errorf("the table does not give %s for %q", path, folder)
		}
		if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
			t.Errorf("%s has no description: %v", folder, err)
		}
	}
	if !slices.Equal(names, folders) {
		t.Errorf("the table has %v, the folder %v", names, folders)
	}
	if _, found := plugins.Find("nobody"); found || plugins.Module("nobody") != nil {
		t.Error("there is a plugin called nobody")
	}
}

// TestBuiltinConfiguration: what the table says of grants can be pasted into a
// configuration, and its fuel is that of a plugin without a word of it.
func TestBuiltinConfiguration(t *testing.T) {
	const usual, less = 5_000_000, 7
	for _, b := range plugins.Builtins() {
		file := filepath.Join(t.TempDir(), "wasmeter.yaml")
		text := "plugins:\n  - name: " + b.Name + "\n    builtin: " + b.Name + "\n    " + b.Grants + "\n" +
			"  - {name: less, builtin: " + b.Name + ", fuel: 7}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Sources{File: file})
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		if len(c.Plugins) != 2 || c.Plugins[0].Builtin != b.Name || !strings.HasPrefix(b.Grants, "grants: {") {
			t.Errorf("got %+v of\n%s", c.Plugins, text)
			continue
		}
		if got, want := c.Plugins[0].Fuel, max(b.Fuel, usual); got != want {
			t.Errorf("%s has %d units of fuel, want %d", b.Name, got, want)
		}
		if got := c.Plugins[1].Fuel; got != less {
			t.Errorf("%s has %d units of fuel where the configuration gives it %d", b.Name, got, less)
		}
	}
}
