package cpu

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:generate go run ./_gen

// TestGenerated runs the generator and expects the committed files.
func TestGenerated(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in PATH; run go generate ./kernels/cpu and look for differences")
	}
	if _, err := os.Stat("_gen"); err != nil {
		t.Skip("not in the package's directory; run go generate ./kernels/cpu and look for differences")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./_gen", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("run the generator: %v\n%s", err, out)
	}
	made, err := os.ReadDir(dir)
	if err != nil || len(made) == 0 {
		t.Fatalf("the generator wrote %d files: %v", len(made), err)
	}
	for _, e := range made {
		want, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(e.Name())
		if err != nil {
			t.Errorf("%v; run go generate ./kernels/cpu", err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what _gen writes; run go generate ./kernels/cpu", e.Name())
		}
	}
}
