// Package toolchaintest compares committed modules with their sources, for tests.
package toolchaintest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/sdk/toolchain"
)

// debianRust is the compiler with which modules in Rust are committed. A later one
// builds plugins as well, and gives other bytes.
const debianRust = "rustc 1.63.0"

// Build builds the plugin of a folder into a file of the test's own. Without the
// compiler the test skips, and says what would supply it.
func Build(t *testing.T, folder string) *toolchain.Built {
	t.Helper()
	project, err := toolchain.Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	built, err := project.Build(t.Context(), filepath.Join(t.TempDir(), "plugin.wasm"))
	if missing := (*toolchain.Missing)(nil); errors.As(err, &missing) {
		t.Skipf("%v; or run sdk/toolchains.sh", missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// Compare builds the plugin of a folder and compares it with the committed module.
func Compare(t *testing.T, folder, committed string) {
	t.Helper()
	built := Build(t, folder)
	if strings.HasPrefix(built.Compiler, "rustc") && built.Compiler != debianRust {
		t.Skipf("%s gives other bytes than %s, by which the modules are committed", built.Compiler, debianRust)
	}
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, built.Wasm) {
		t.Errorf("%s has %d bytes and is not what its sources give by %s, %d bytes; run wasmeter plugin build %s -o %s",
			committed, len(want), built.Compiler, len(built.Wasm), folder, committed)
	}
}
