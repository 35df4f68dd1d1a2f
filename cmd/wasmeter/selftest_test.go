package main

import (
	"strings"
	"testing"
)

// TestSelftestCompares: a size that both our kernel and cuBLASLt have shows how they
// stand, and no other does.
func TestSelftestCompares(t *testing.T) {
	r := selftestReport{
		CuBLASLt: "libcublasLt.so.13, version 13.0.2",
		Kernels:  []selftestKernel{{Kernel: "cublaslt", Passed: 3}},
		Speeds: []selftestSpeed{
			{Kernel: "matmul_tile", Size: "x 512", Microseconds: 30},
			{Kernel: "cublaslt", Size: "x 512", Microseconds: 20},
			{Kernel: "cublaslt", Size: "x 64", Microseconds: 10},
			{Kernel: "cublaslt", Size: "x 128", Failure: "no kernel"},
			{Kernel: "add", Size: "values"},
		},
	}
	var out strings.Builder
	if err := r.print(&out, false); err == nil || !strings.Contains(err.Error(), "1 cases failed, 3 passed") {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(out.String(), "times the speed of our kernel"); n != 1 || !strings.Contains(out.String(), "x 512: 1.50 times the speed of our kernel") || !strings.Contains(out.String(), "cuBLASLt: libcublasLt.so.13, version 13.0.2") {
		t.Errorf("printed %s", out.String())
	}
}
