//go:build cuda && cgo && linux

package driver_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// A process loads one driver, so each of these cases is a process of its own: the
// test's binary, which TestMain turns into one that opens a device and says how
// that went.
const openPath, openOrdinal = "DRIVER_TEST_OPEN", "DRIVER_TEST_ORDINAL"

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(openPath); ok {
		ordinal, _ := strconv.Atoi(os.Getenv(openOrdinal)) // 0 if not set
		fmt.Println(openAndUse(path, ordinal))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// openAndUse returns the first error of opening a device and asking for a stream,
// or what the driver lacks.
func openAndUse(path string, ordinal int) string {
	d, err := driver.Open(driver.Options{Path: path, Ordinal: ordinal})
	if err != nil {
		return err.Error()
	}
	if err := d.Enter(); err != nil {
		return err.Error()
	}
	defer d.Leave()
	s, err := d.NewStream()
	if err != nil {
		return fmt.Sprintf("lacks %d; %v", len(d.Lacking()), err)
	}
	if _, err := driver.Open(driver.Options{Path: path + "2"}); err != nil {
		return fmt.Sprintf("opened; then: %v", err)
	}
	return fmt.Sprint("opened; ", s.Close(), d.Close())
}

// opened runs openAndUse in a process of its own.
func opened(t *testing.T, path string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), openPath+"="+path)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("open %s: %v, it said %q", path, err, out)
	}
	return string(out)
}

// TestOpenFaults: what is missing is said, with what to do.
func TestOpenFaults(t *testing.T) {
	emulated := driverPath(t)
	broken := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(broken, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path string
		env  []string
		want []string
	}{
		"no driver":          {"libcuda-of-nobody.so.1", nil, []string{"there is no CUDA driver", "libcuda-of-nobody.so.1", "No such file", "install the NVIDIA driver 580", "--gpus all"}},
		"no library":         {broken, nil, []string{"there is no CUDA driver", broken, "file too short"}},
		"another library":    {"libm.so.6", nil, []string{"there is no CUDA driver", "libm.so.6", "cuInit"}},
		"no device":          {emulated, []string{"CUDA_EMU=devices=0"}, []string{"cuInit", "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"}},
		"an old driver":      {emulated, []string{"CUDA_EMU=version=12040"}, []string{"supports CUDA 12.4", "need 13.0", "driver 580"}},
		"an old device":      {emulated, []string{"CUDA_EMU=capability=7.5"}, []string{"device 0", "capability 7.5", "need 8.0", "Ampere"}},
		"another device":     {emulated, []string{openOrdinal + "=3"}, []string{"device 3 does not exist", "shows 1", "0 CUDA emulator"}},
		"a negative ordinal": {emulated, []string{openOrdinal + "=-1"}, []string{"device -1 does not exist"}},
		"two drivers":        {emulated, nil, []string{"opened; then:", "one driver only"}},
	} {
		got := opened(t, test.path, test.env...)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
	}
}

// oldDriver is a driver of which there is only so much that a device opens.
const oldDriver = `
#include <string.h>
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "half a device", n); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = 9; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)1; return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
`

// TestLackingFunctions: a driver without a function is opened, and the function's
// name is in the error of who calls it.
func TestLackingFunctions(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "old.c"), filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(source, []byte(oldDriver), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	// Of the listed functions the library has 7; cuInit is not listed.
	names, err := os.ReadFile("shim/symbols.inc")
	if err != nil {
		t.Fatal(err)
	}
	lacking := strings.Count(string(names), "SYMBOL(") - 7
	got := opened(t, library)
	for _, want := range []string{fmt.Sprintf("lacks %d;", lacking), "cuStreamCreate", "CUDA_ERROR_NOT_FOUND", "the driver has no cuStreamCreate", "driver 580"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

// TestNeedsNoDriver: this binary, which uses gorgonia.org/cu, does not ask the
// dynamic linker for the driver. That it runs at all says the rest.
func TestNeedsNoDriver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	needed, err := binary.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(needed, func(name string) bool { return strings.HasPrefix(name, "libcuda") }); i >= 0 {
		t.Errorf("the binary needs %q", needed[i])
	}
}
