package cpu_test

import (
	"fmt"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// open makes a backend for the suite.
func open(t *testing.T, threads int, level kernels.Level) *cpu.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: threads, Level: level.String(), MaxRows: backendtest.MaxRows})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openKV makes a backend with a type of cache.
func openKV(t *testing.T, threads int, level kernels.Level, kvType string) *cpu.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: threads, Level: level.String(), MaxRows: backendtest.MaxRows, KVType: kvType})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Activations are quantised to 8 bits, a step of 1/127 of the largest of 32: for
// normal values about 0.5 % of error in a product, and five times that in the
// worst of some thousands. The cache's float16 has 11 bits. Through the layers of
// a model the errors of 8 bits add up.
var tolerance = backendtest.Tolerance{Float: 2e-5, Cache: 8e-3, Quantized: 0.04, Model: 0.25}

func TestSuite(t *testing.T) {
	// Keys and values of 8 bits err by up to 1/254 of the largest of 32. What queries do is
	// TestQuantizedAttention's.
	rough := tolerance
	rough.Cache, rough.QuantizedCache = 0.08, true
	for _, c := range []struct {
		threads   int
		kvType    string
		tolerance backendtest.Tolerance
	}{{1, cpu.KVF16, tolerance}, {3, cpu.KVQ8, rough}} {
		t.Run(fmt.Sprintf("%d threads, cache %s", c.threads, c.kvType), func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backend.Backend { return openKV(t, c.threads, kernels.Best(), c.kvType) }, c.tolerance)
		})
	}
}

func TestQuantizedCacheIsIdentical(t *testing.T) {
	backendtest.Identical(t,
		func() backend.Backend { return openKV(t, 1, kernels.Best(), cpu.KVQ8) },
		func() backend.Backend { return openKV(t, 3, kernels.Best(), cpu.KVQ8) })
	backendtest.Identical(t,
		func() backend.Backend { return openKV(t, 1, kernels.Generic, cpu.KVQ8) },
		func() backend.Backend { return openKV(t, 1, kernels.Best(), cpu.KVQ8) })
}

func TestThreadsDoNotChangeResults(t *testing.T) {
	for _, threads := range []int{2, 3, 5} {
		backendtest.Identical(t,
			func() backend.Backend { return open(t, 1, kernels.Best()) },
			func() backend.Backend { return open(t, threads, kernels.Best()) })
	}
}

// A level is a matter of speed: kernels/cpu defines results bit for bit.
func TestLevelsDoNotChangeResults(t *testing.T) {
	for _, level := range kernels.Levels()[1:] {
		backendtest.Identical(t,
			func() backend.Backend { return open(t, 1, kernels.Generic) },
			func() backend.Backend { return open(t, 1, level) })
	}
}
