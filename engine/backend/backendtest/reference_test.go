package backendtest_test

import (
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
)

// The reference passes its own suite with equality: this checks the suite, and
// that the reference is deterministic. Its truth is package model's golden test.
func TestReference(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backend.Backend {
		return backendtest.NewReference(backendtest.MaxRows)
	}, backendtest.Tolerance{})
}
