// Package plugins holds the modules that are built into the server.
package plugins

import (
	_ "embed"
	"slices"
)

var (
	//go:embed billing/billing.wasm
	billing []byte
	//go:embed choices/choices.wasm
	choices []byte
	//go:embed metrics/metrics.wasm
	metrics []byte
	//go:embed quota/quota.wasm
	quota []byte
	//go:embed sla/sla.wasm
	sla []byte
)

// Builtin is a plugin that is part of the program.
type Builtin struct {
	// Name is its folder here and the configuration's builtin.
	Name string
	// Module is its WebAssembly. Nobody changes it.
	Module []byte
	// Grants are all that it asks for with its usual configuration, as YAML. It
	// is told to who has left some out; granting stays the operator's to write.
	Grants string
	// Fuel is what a call may use unless the configuration says otherwise; 0 is as
	// for any plugin.
	Fuel int64
}

// collecting is enough for a call in which Go's garbage is collected. That took
// billing up to 24 million units in 300,000 calls of each hook (wasmeter plugin
// bench), and comes once in thousands of calls.
const collecting = 100_000_000

// allChoices is enough for as many choices as fit into a result, some 70, which
// take 0.3 million units each.
const allChoices = 40_000_000

// Builtins lists the plugins that are part of the program, by name. One that is
// to join them has its module built by build.sh, embedded above and listed here.
func Builtins() []Builtin {
	return []Builtin{
		{Name: "billing", Module: billing, Fuel: collecting,
			Grants: "grants: {fields: [billing], usage_extend: [cost], headers: [x-cost-quote], emit: true, deny: true}"},
		{Name: "choices", Module: choices, Fuel: allChoices, Grants: "grants: {fields: [x_choice_metrics]}"},
		{Name: "metrics", Module: metrics, Grants: "grants: {fields: [metrics]}"},
		{Name: "quota", Module: quota, Fuel: collecting,
			Grants: "grants: {deny: true, kv: {write: true}, headers: [x-quota-limit, x-quota-remaining, x-quota-reset]}"},
		{Name: "sla", Module: sla, Fuel: collecting, Grants: "grants: {fields: [sla], emit: true, metrics: true}"},
	}
}

// Find gives the plugin of that name.
func Find(name string) (Builtin, bool) {
	all := Builtins()
	i := slices.IndexFunc(all, func(b Builtin) bool { return b.Name == name })
	if i < 0 {
		return Builtin{}, false
	}
	return all[i], true
}

// Module gives the module of the plugin of that name, nil if there is none.
func Module(name string) []byte {
	b, _ := Find(name)
	return b.Module
}

// Names lists the names of all.
func Names() []string {
	var names []string
	for _, b := range Builtins() {
		names = append(names, b.Name)
	}
	return names
}
