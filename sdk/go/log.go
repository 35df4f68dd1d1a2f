//go:build !wasip1

package wasmeter

import "os"

// Log writes a line to the server's log; outside a plugin, in a test, to
// stderr.
func Log(_ Level, text string) {
	// A test's stderr that can't be written has no better place to report to.
	_, _ = os.Stderr.WriteString(text + "\n")
}
