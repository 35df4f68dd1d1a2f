package plugins

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/sdk/cases"
)

// testCases runs the cases of the billing example, as wasmeter plugin test does.
func testCases(t *testing.T, spec plugin.Spec) {
	t.Helper()
	ctx := t.Context()
	runner, err := cases.NewRunner(ctx, spec, plugin.Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := runner.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	files, err := filepath.Glob("billing/tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := cases.Read(file, text)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := runner.Run(ctx, c)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, fault := range verdict.Faults {
			t.Errorf("%s: %s", file, fault)
		}
	}
}
