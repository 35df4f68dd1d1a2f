// Package plugins holds the modules that are built into the server.
package plugins

import (
	_ "embed"
	"slices"
)

var (
	//go:embed billing/billing.wasm
	billing []byte
	//go:embed metrics/metrics.wasm
	metrics []byte
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

// collecting is enough for a call in which Go's garbage is collected, which
// takes some 20 million units and comes once in thousands of calls.
const collecting = 100_000_000

// Builtins lists the plugins that are part of the program, by name. One that is
// to join them has its module built by build.sh, embedded above and listed here.
func Builtins() []Builtin {
	return []Builtin{
		{Name: "billing", Module: billing, Fuel: collecting,
			Grants: "grants: {fields: [billing], usage_extend: [cost], headers: [x-cost-quote], emit: true, deny: true}"},
		{Name: "metrics", Module: metrics, Grants: "grants: {fields: [metrics]}"},
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
