// Command billing is a plugin that puts a price on each answer and writes a
// record of it when the request ends.
package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

// book is what the configuration says tokens cost.
var book prices

// charge is the kind of this plugin's records.
const charge = 1

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{Init: book.read, Shape: shape, Finish: finish})
}

func shape(r wasmeter.Request, out *wasmeter.Answer) {
	write(out.Fields.Object("billing"), r).End()
}

// finish is called for each request, also for those that got no answer with a
// price: a client that left pays for what was made until then.
func finish(r wasmeter.Request) error {
	record := wasmeter.Record()
	write(record.Str("tenant", r.Tenant()).Str("model", r.Model()), r)
	return wasmeter.Emit(charge, record)
}

// write says what the request costs.
func write(w *wasmeter.JSON, r wasmeter.Request) *wasmeter.JSON {
	cost := book.cost(r.PromptTokens(), r.CompletionTokens())
	return w.Uint("cost_micro_usd", cost).Str("currency", "USD")
}
