// Package plugins holds the modules that are built into the server.
package plugins

import _ "embed"

//go:embed metrics/metrics.wasm
var metricsModule []byte

// Metrics is the module of the default plugin; metrics/README.md describes
// it. The caller must not change it.
func Metrics() []byte { return metricsModule }
