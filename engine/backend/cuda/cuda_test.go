//go:build cuda && cgo && linux

package cuda_test

import (
	"os"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// driverPath is the driver of the tests: what WASMETER_CUDA_DRIVER names. A process
// has one.
func driverPath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("WASMETER_CUDA_DRIVER")
	if path == "" {
		t.Skip("WASMETER_CUDA_DRIVER names no CUDA driver; `make cuda-test` runs this on the emulated one")
	}
	return path
}

// usual are the emulator's settings where a test says nothing else.
const usual = "quiet=1,devices=1,version=13000,capability=8.0,alloc=0,launch=0,memory=2G"

// emulator is the emulated driver, set to settings and to the usual ones again when
// the test ends. On another driver the test is skipped.
func emulator(t testing.TB, settings string) *emu.Library {
	t.Helper()
	lib, err := emu.Load(driverPath(t))
	if err != nil {
		t.Skipf("this test needs the emulated driver: %v", err)
	}
	configure := func(settings string) {
		if err := lib.Configure(settings); err != nil {
			t.Fatal(err)
		}
	}
	lib.Reset()
	configure(usual)
	if settings != "" {
		configure(settings)
	}
	t.Cleanup(func() { lib.Reset(); configure(usual) })
	return lib
}

// open makes a backend for the suite.
func open(t *testing.T) backend.Backend { return openWith(t, cuda.Options{}) }

func openWith(t *testing.T, o cuda.Options) backend.Backend {
	t.Helper()
	o.Driver = driverPath(t)
	if o.MaxRows == 0 {
		o.MaxRows = backendtest.MaxRows
	}
	b, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Weights and activations of products of more than four rows are rounded to bfloat16,
// 2⁻⁹ of each: errors that have nothing to do with each other, so of a sum about 2⁻⁹
// of its size, and some times that in the worst of thousands. The cache is float16, and
// attention of runs of rows rounds queries and weights to float16, 2⁻¹². Through the
// layers of a model the errors of bfloat16 add up.
var tolerance = backendtest.Tolerance{Float: 2e-5, Cache: 8e-3, Quantized: 0.02, Model: 0.1, Batch: 0.1}

func TestSuite(t *testing.T) {
	backendtest.Run(t, open, tolerance)
}
