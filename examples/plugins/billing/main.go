// Command billing is a plugin that puts a price on each answer.
package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

// book is what the configuration says tokens cost.
var book prices

func main() {}

func init() { wasmeter.Register(wasmeter.Plugin{Init: book.read, Shape: shape}) }

func shape(r wasmeter.Request, fields *wasmeter.JSON) {
	cost := book.cost(r.PromptTokens(), r.CompletionTokens())
	fields.Object("billing").Uint("cost_micro_usd", cost).Str("currency", "USD").End()
}
