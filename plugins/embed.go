// Package plugins holds the modules that are built into the server.
package plugins

import (
	_ "embed"
	"slices"
)

//go:embed metrics/metrics.wasm
var metrics []byte

// Builtin is a plugin that is part of the program.
type Builtin struct {
	// Name is its folder here and the configuration's builtin.
	Name string
	// Module is its WebAssembly. Nobody changes it.
	Module []byte
	// Grants are all that it asks for with its usual configuration, as YAML. It
	// is told to who has left some out; granting stays the operator's to write.
	Grants string
}

// Builtins lists the plugins that are part of the program, by name. One that is
// to join them has its module built by build.sh, embedded above and listed here.
func Builtins() []Builtin {
	return []Builtin{
		{"metrics", metrics, "grants: {fields: [metrics]}"},
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
