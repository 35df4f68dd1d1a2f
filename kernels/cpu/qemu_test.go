package cpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestARM64 runs this package's tests for arm64 on an emulated processor, so that
// the NEON kernels are compared with their twins on a machine of another kind.
func TestARM64(t *testing.T) {
	switch {
	case runtime.GOARCH == "arm64":
		t.Skip("the tests run on arm64 already")
	case testing.Short():
		t.Skip("builds and emulates for a minute; run without -short")
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		if qemu, err = exec.LookPath("qemu-aarch64"); err != nil {
			t.Skip("no qemu-aarch64 in PATH; install qemu-user-static (Debian, Ubuntu) or qemu-user")
		}
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in PATH")
	}
	binary := filepath.Join(t.TempDir(), "cpu.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for arm64: %v\n%s", err, out)
	}
	// NEON needs asimddp; "max" is qemu's processor that has all there is.
	run := exec.Command(qemu, "-cpu", "max", binary, "-test.short", "-test.failfast", "-test.skip", "^TestGenerated$")
	run.Env = append(os.Environ(), EnvLevel+"=neon")
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("the tests for arm64 under %s: %v\n%s", qemu, err, out)
	}
}
