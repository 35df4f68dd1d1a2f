//go:build !(cuda && cgo && linux)

package main

import (
	"context"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// selftest says that this build has no kernels to check.
func selftest(context.Context, selftestOptions, int) (*selftestReport, error) {
	return nil, driver.ErrNotBuilt
}
