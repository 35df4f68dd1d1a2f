package shim

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated runs the generator and expects the committed files.
func TestGenerated(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in PATH; run go generate -tags cuda ./kernels/cuda/driver/shim and look for differences")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./_gen", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("run the generator: %v\n%s", err, out)
	}
	for _, name := range []string{"stubs_amd64.S", "stubs_arm64.S", "symbols.inc"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what _gen writes (%v); run go generate -tags cuda ./kernels/cuda/driver/shim", name, err)
		}
	}
}

// TestGeneratorRefuses: a list that would not link, or would hide the shim's own
// cuInit, is named with its line.
func TestGeneratorRefuses(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in PATH")
	}
	generator, err := filepath.Abs("_gen/main.go")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "gen")
	if out, err := exec.Command("go", "build", "-o", binary, generator).CombinedOutput(); err != nil {
		t.Fatalf("build the generator: %v\n%s", err, out)
	}
	for list, want := range map[string]string{
		"cuMemFree_v2\n\ncuMemFree_v2\n": "symbols.txt:3: cuMemFree_v2 is defined already",
		"# fine\ncuInit\n":               "symbols.txt:2: cuInit is defined already",
		"cuA; rm\n":                      `symbols.txt:1: "cuA; rm" is no name`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "symbols.txt"), []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("list %q: got %q, want %q", list, out, want)
		}
	}
}

// TestArm64Assembles: the stubs that this machine does not run are assembled, where
// there is an assembler for them.
func TestArm64Assembles(t *testing.T) {
	var command []string
	for _, c := range [][]string{{"aarch64-linux-gnu-gcc"}, {"clang-19", "--target=aarch64-linux-gnu"}, {"clang", "--target=aarch64-linux-gnu"}} {
		if _, err := exec.LookPath(c[0]); err == nil {
			command = c
			break
		}
	}
	if command == nil {
		t.Skip("no compiler for arm64 (aarch64-linux-gnu-gcc or clang) is in PATH")
	}
	object := filepath.Join(t.TempDir(), "stubs.o")
	if out, err := exec.Command(command[0], append(command[1:], "-c", "-o", object, "stubs_arm64.S")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
