package plugin

import (
	"errors"
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

// sectionRank is the place of each section id in a module; the data count
// section (12) stands before code. Rank 0 is no section of core wasm 2.0.
var sectionRank = [...]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9, 12: 10, 10: 11, 11: 12}

var (
	errNotWasm   = errors.New("not a WebAssembly module: it must begin with the bytes 00 61 73 6d 01 00 00 00; build the plugin with -target wasm32 or GOARCH=wasm")
	errComponent = errors.New("a WebAssembly component; plugins are core modules: build without the component model (for Go, GOOS=wasip1 GOARCH=wasm; for Rust, the target wasm32-unknown-unknown)")
)

// parseModule reads the interface of a wasm binary. It checks structure only
// as far as it reads; wazero validates the whole.
func parseModule(binary []byte) (*module, error) {
	if len(binary) < 8 || string(binary[:4]) != "\x00asm" {
		return nil, errNotWasm
	}
	switch string(binary[4:8]) {
	case "\x01\x00\x00\x00":
	case "\x0d\x00\x01\x00":
		return nil, errComponent
	default:
		return nil, fmt.Errorf("wasm version bytes % x; version 1 (01 00 00 00) is supported", binary[4:8])
	}
	m := &module{}
	r := wasm.NewReader(binary[8:], 8)
	for rank := 0; r.Err() == nil && r.More(); {
		id := r.Byte()
		section := r.Sub(r.U32())
		if r.Err() != nil {
			break
		}
		if id != 0 {
			if int(id) >= len(sectionRank) || sectionRank[id] == 0 {
				return nil, fmt.Errorf("section %d at byte %d is not of core wasm 2.0; build without threads, exceptions or garbage collection", id, section.Offset())
			}
			if sectionRank[id] <= rank {
				return nil, fmt.Errorf("section %d at byte %d is repeated or out of order", id, section.Offset())
			}
			rank = sectionRank[id]
		}
		m.readSection(id, section)
		if section.Err() != nil {
			return nil, fmt.Errorf("section %d: %w", id, section.Err())
		}
	}
	if r.Err() != nil {
		return nil, r.Err()
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
	case 1:
		r.Each(3, func() {
			params, results := r.FunctionType()
			m.types = append(m.types, signature{params, results})
		})
	case 2:
		r.Each(4, func() { m.readImport(r) })
	case 3:
		r.Each(1, func() { m.addFunction(r, r.U32()) })
	case 4:
		r.Each(3, func() {
			_, l := r.Table()
			m.tables = append(m.tables, l)
		})
	case 5:
		r.Each(2, func() { m.memories = append(m.memories, r.Limits()) })
	case 7:
		r.Each(3, func() {
			m.exports = append(m.exports, moduleExport{r.Name(), externKind(r.Byte()), r.U32()})
		})
	case 8:
		r.U32()
		m.started = true
	case 10:
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
