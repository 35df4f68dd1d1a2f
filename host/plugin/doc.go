// Package plugin runs WebAssembly plugins in a sandbox.
//
// A plugin is a core wasm module that speaks the ABI of ABI.md. The host
// hands it a binary Frame (the whole life of one request: counts, stamps,
// names) and gets back a small JSON document of what to add to the answer.
//
//	Host ── Current.Reload([]Spec) ──▶ Set ── Chain(model, tenant, endpoint) ──▶ Chain
//	Chain ── Request, Chunk, Shape, Finish (Frame, State) ──▶ what to refuse, add, change and record
//
// A Current has the Set of plugins that requests begin with; a request holds
// its Set to its end, and its State from hook to hook.
//
// A Host owns the compilation cache. A Plugin owns one wazero runtime and a
// bounded pool of instances of its module; an instance serves one call at a
// time and keeps nothing from one request to the next. A Chain is an ordered
// list of plugins whose granted fields do not collide.
//
// A module is read by package wasm, rewritten by package meter so that each
// call has a budget of fuel, and, if it comes from a file, compiled in a
// process of its own.
//
// The package knows wazero, the standard library and jsontext. It knows
// nothing of HTTP, of the engine or of the wire types; the names of the
// wire's own members come in as Options.Reserved.
package plugin
