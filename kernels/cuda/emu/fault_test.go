//go:build cuda && cgo && linux

package emu_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

func (d *device) configure(s string) {
	d.t.Helper()
	d.must(d.lib.Configure(s))
}

func TestOutOfMemory(t *testing.T) {
	d := open(t)
	d.configure("memory=1M")
	free, total, err := d.Memory()
	d.must(err)
	if free != 1<<20 || total != 1<<20 {
		t.Fatalf("got %d of %d free, want 1 MiB of 1 MiB", free, total)
	}
	p, err := d.Alloc(1<<19 + 1)
	d.must(err)
	if _, err := d.Alloc(1 << 19); result(err) != outOfMemory {
		t.Errorf("a second half: got %v, want CUDA_ERROR_OUT_OF_MEMORY", err)
	}
	if free, _, err = d.Memory(); err != nil || free >= 1<<19 || free < 1<<19-512 {
		t.Errorf("free: got %d, %v", free, err)
	}
	d.must(d.Free(p))
	p, err = d.Alloc(1 << 20)
	d.must(err)
	d.must(d.Free(p))

	d.configure("memory=4G,alloc=2")
	d.memory(16)
	if _, err := d.Alloc(16); result(err) != outOfMemory {
		t.Errorf("the second allocation: got %v, want CUDA_ERROR_OUT_OF_MEMORY", err)
	}
	d.memory(16)
}

func TestLostDevice(t *testing.T) {
	d := open(t)
	y, x := d.up(0), d.up(1)
	d.configure("launch=3")
	for range 4 {
		d.must(d.launch("probe_add", 1, 1, 0, uint64(y), uint64(x), 1))
	}
	err := d.stream.Sync()
	if result(err) != launchFailed || !errors.Is(err, driver.ErrLost) {
		t.Errorf("got %v, want CUDA_ERROR_LAUNCH_FAILED", err)
	}
	if _, err := d.NewEvent(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("a call after it: got %v, want that the device is lost", err)
	}
	if r := d.lib.Report(); !strings.Contains(r, "the device is lost at kernel probe_add") {
		t.Errorf("the report is %q", r)
	}
	d.lib.Reset()
	if got := d.down(y, 1)[0]; got != 2 {
		t.Errorf("got %d, want the 2 of the kernels before", got)
	}
}

func TestOldDriver(t *testing.T) {
	d := open(t)
	path := libraryPath(t)
	for settings, want := range map[string]string{
		"version=12040":  "supports CUDA 12.4",
		"devices=0":      "CUDA_ERROR_NO_DEVICE",
		"capability=7.5": "compute capability 7.5",
	} {
		d.configure(settings)
		_, err := driver.Open(driver.Options{Path: path})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", settings, err, want)
		}
		if settings != "devices=0" {
			_, err := d.Load([]byte(fatbinOfNothing))
			want := unsupportedPTX
			if strings.HasPrefix(settings, "capability") {
				want = noBinaryForGPU
			}
			if result(err) != want {
				t.Errorf("%s: load: got %v, want %v", settings, err, want)
			}
		}
		d.lib.Reset()
		d.configure(usual)
	}
}

func TestConfigure(t *testing.T) {
	path := libraryPath(t)
	lib, err := emu.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"":               "",
		"memory":         "use key=value",
		"memory=-1":      "use a number from 0",
		"memory=1T":      "use a number from 0",
		"memory=1MM":     "use a number from 0",
		"capability=8":   "use MAJOR.MINOR",
		"capability=8.x": "use MAJOR.MINOR",
		"lunch=3":        "unknown key lunch",
		"launch=3x":      "use a number from 0",
		"threads=0":      "use a number from 1 to 256",
		"devices=2":      "use a number from 0 to 1",
		"alloc=0,,":      "use key=value",
	} {
		err := lib.Configure(settings)
		if got := err != nil; got != (want != "") || got && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", settings, err, want)
		}
	}
}
