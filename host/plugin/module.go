package plugin

import (
	"fmt"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// module is what the load checks need to know of a wasm binary: its
// interface and its sizes, not its code. Source of the format: WebAssembly
// Core Specification 2.0, chapter 5.
type module struct {
	types     []signature
	functions []uint32 // type index of each function, imported ones first
	imports   []moduleImport
	exports   []moduleExport
	memories  []wasm.Limits // imported ones are in imports only
	tables    []wasm.Limits
	started   bool // has a start section
	bodies    int  // entries of the code section
	longest   int  // bytes of the longest function body
}

type externKind byte

const (
	externFunction externKind = 0
	externTable    externKind = 1
	externMemory   externKind = 2
	externGlobal   externKind = 3
)

func (k externKind) String() string {
	switch k {
	case externFunction:
		return "function"
	case externTable:
		return "table"
	case externMemory:
		return "memory"
	case externGlobal:
		return "global"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

type moduleImport struct {
	module, name string
	kind         externKind
	signature    signature // of a function
}

type moduleExport struct {
	name  string
	kind  externKind
	index uint32
}

// parseModule reads the interface of a wasm binary. It checks structure only
// as far as it reads; wazero validates the whole.
func parseModule(binary []byte) (*module, error) {
	m := &module{}
	if err := wasm.Sections(binary, m.readSection); err != nil {
		return nil, err
	}
	if m.bodies != len(m.functions)-m.numImportedFunctions() {
		return nil, fmt.Errorf("%d functions are declared and %d have a body", len(m.functions)-m.numImportedFunctions(), m.bodies)
	}
	return m, nil
}

func (m *module) numImportedFunctions() int {
	n := 0
	for _, i := range m.imports {
		if i.kind == externFunction {
			n++
		}
	}
	return n
}

// readSection reads the sections that describe the interface and leaves the
// others alone.
func (m *module) readSection(id byte, r *wasm.Reader) {
	switch id {
	case wasm.SectionType:
		r.Each(3, func() {
			params, results := r.FunctionType()
			m.types = append(m.types, signature{params, results})
		})
	case wasm.SectionImport:
		r.Each(4, func() { m.readImport(r) })
	case wasm.SectionFunction:
		r.Each(1, func() { m.addFunction(r, r.U32()) })
	case wasm.SectionTable:
		r.Each(3, func() {
			_, l := r.Table()
			m.tables = append(m.tables, l)
		})
	case wasm.SectionMemory:
		r.Each(2, func() { m.memories = append(m.memories, r.Limits()) })
	case wasm.SectionExport:
		r.Each(3, func() {
			m.exports = append(m.exports, moduleExport{r.Name(), externKind(r.Byte()), r.U32()})
		})
	case wasm.SectionStart:
		r.U32()
		m.started = true
	case wasm.SectionCode:
		r.Each(1, func() {
			body := r.Sub(r.U32())
			m.bodies++
			m.longest = max(m.longest, len(body.Rest()))
		})
	default:
		return
	}
	if r.Err() == nil && r.More() {
		r.Fail("%d bytes too many", len(r.Rest()))
	}
}

func (m *module) readImport(r *wasm.Reader) {
	i := moduleImport{module: r.Name(), name: r.Name(), kind: externKind(r.Byte())}
	switch i.kind {
	case externFunction:
		index := r.U32()
		m.addFunction(r, index)
		if r.Err() == nil {
			i.signature = m.types[index]
		}
	case externTable:
		r.Table()
	case externMemory:
		r.Limits()
	case externGlobal:
		r.ValueType()
		r.Byte()
	default:
		r.Fail("import %q.%q has unknown kind %d", i.module, i.name, i.kind)
	}
	if r.Err() == nil {
		m.imports = append(m.imports, i)
	}
}

func (m *module) addFunction(r *wasm.Reader, typeIndex uint32) {
	if r.Err() == nil && int64(typeIndex) >= int64(len(m.types)) {
		r.Fail("function type %d of %d", typeIndex, len(m.types))
		return
	}
	m.functions = append(m.functions, typeIndex)
}

// export finds what a module exports under name.
func (m *module) export(name string) (moduleExport, bool) {
	for _, e := range m.exports {
		if e.name == name {
			return e, true
		}
	}
	return moduleExport{}, false
}

// exportedSignature gives the signature of an exported function.
func (m *module) exportedSignature(e moduleExport) (signature, bool) {
	if e.kind != externFunction || int64(e.index) >= int64(len(m.functions)) {
		return signature{}, false
	}
	return m.types[m.functions[e.index]], true
}
