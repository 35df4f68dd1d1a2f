package wasmeter_test

import (
	"fmt"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// A plugin's hook is an ordinary function, so it is tested like one: with a
// frame that the host's own encoder makes.
func Example() {
	// The hook, as a plugin registers it.
	shape := func(r wasmeter.Request, out *wasmeter.Answer) {
		cost := 3*int64(r.PromptTokens()) + 12*int64(r.CompletionTokens())
		out.Fields.Object("billing").Str("tenant", r.Tenant()).Int("cost_micro_usd", cost).End()
	}

	frame := plugin.Frame{Tenant: `the "acme" people`, PromptTokens: 100, CompletionTokens: 20}
	var out wasmeter.Answer
	shape(wasmeter.NewRequest(frame.Append(nil, plugin.HookShape)), &out)
	fmt.Printf("%s\n", out.AppendTo(nil))
	// Output: {"fields":{"billing":{"tenant":"the \"acme\" people","cost_micro_usd":540}}}
}
