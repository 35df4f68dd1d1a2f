// Package wasmeter is the SDK for plugins in Go.
//
// A plugin is a main package that registers its hooks in init:
//
//	package main
//
//	import wasmeter "github.com/wasmeter/wasmeter/sdk/go"
//
//	func main() {}
//
//	func init() { wasmeter.Register(wasmeter.Plugin{Shape: shape}) }
//
//	func shape(r wasmeter.Request, out *wasmeter.Answer) {
//		cost := 3*int64(r.PromptTokens()) + 12*int64(r.CompletionTokens())
//		out.Fields.Object("billing").Int("cost_micro_usd", cost).End()
//	}
//
// It is built with the ordinary Go toolchain:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags="-s -w" -o billing.wasm .
//
// Calls are independent of each other: the server keeps several instances of
// a plugin and any of them may get the next call, so nothing that a hook
// keeps in a variable is seen by the next one. An instance serves one call
// at a time, so a hook needs no locks.
//
// The hooks are ordinary functions of a Request and an Answer, and both work
// on any platform, so a plugin is tested with go test; see the example.
// The package avoids encoding/json and fmt, which make a plugin twice as
// large and its calls three times as slow; a plugin should too.
package wasmeter
