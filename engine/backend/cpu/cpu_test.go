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

// Activations are quantised to 8 bits, a step of 1/127 of the largest of 32: for
// normal values about 0.5 % of error in a product, and five times that in the
// worst of some thousands. The cache's float16 has 11 bits. Through the layers of
// a model the errors of 8 bits add up.
var tolerance = backendtest.Tolerance{Float: 2e-5, Cache: 8e-3, Quantized: 0.04, Model: 0.25}

func TestSuite(t *testing.T) {
	for _, threads := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, threads, kernels.Best()) }, tolerance)
		})
	}
}

func TestThreadsDoNotChangeResults(t *testing.T) {
	for _, threads := range []int{2, 3, 5} {
		backendtest.Identical(t, open(t, 1, kernels.Best()), open(t, threads, kernels.Best()))
	}
}

// A level is a matter of speed: kernels/cpu defines results bit for bit.
func TestLevelsDoNotChangeResults(t *testing.T) {
	for _, level := range kernels.Levels()[1:] {
		backendtest.Identical(t, open(t, 1, kernels.Generic), open(t, 1, level))
	}
}
