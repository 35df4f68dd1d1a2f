//go:build cuda && cgo && linux

package suite

import (
	"errors"
	"os"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// openBench opens the driver that WASMETER_CUDA_DRIVER names.
func openBench(t *testing.T) *Bench {
	path := os.Getenv("WASMETER_CUDA_DRIVER")
	if path == "" {
		t.Skip("WASMETER_CUDA_DRIVER names no CUDA driver; `make cuda-test` runs this on the emulated one")
	}
	d, err := driver.Open(driver.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Enter(); err != nil {
		t.Fatal(err)
	}
	b, err := NewBench(d)
	if err != nil {
		t.Fatal(errors.Join(err, d.Close()))
	}
	t.Cleanup(func() {
		err := b.Close()
		d.Leave()
		if err := errors.Join(err, d.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestCases runs every case on one device. Subtests share the thread that has the
// device's context, and so call the bench in the test's own goroutine.
func TestCases(t *testing.T) {
	b := openBench(t)
	for _, c := range Cases() {
		err := b.Check(c)
		t.Run(c.Kernel+"/"+c.Name, func(t *testing.T) {
			if err != nil {
				t.Error(err)
			}
		})
		if errors.Is(err, driver.ErrLost) {
			t.Fatal("the device is lost: cases after this one did not run")
		}
	}
}

// TestSpeeds runs what is timed, small; the times of an emulated device say nothing.
func TestSpeeds(t *testing.T) {
	b := openBench(t)
	for _, s := range Speeds() {
		m, err := b.Measure(s, 256)
		t.Run(s.Kernel+"/"+s.Name, func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			if m.Bytes <= 0 {
				t.Errorf("work of %v bytes", m.Bytes)
			}
		})
		if errors.Is(err, driver.ErrLost) {
			t.Fatal("the device is lost: what comes after this one did not run")
		}
	}
}
