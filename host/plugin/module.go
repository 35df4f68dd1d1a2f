package plugin

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// module is what the load checks need to know of a wasm binary: its
// interface and its sizes, not its code. Source of the format: WebAssembly
// Core Specification 2.0, chapter 5.
type module struct {
	types     []signature
	functions []uint32 // type index of each function, imported ones first
	imports   []moduleImport
	exports   []moduleExport
	memories  []limits // imported ones are in imports only
	tables    []limits
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

// limits of a memory in pages, or of a table in entries.
type limits struct {
	min    uint64
	shared bool
	wide   bool // 64-bit addresses
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
func parseModule(wasm []byte) (*module, error) {
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return nil, errNotWasm
	}
	switch string(wasm[4:8]) {
	case "\x01\x00\x00\x00":
	case "\x0d\x00\x01\x00":
		return nil, errComponent
	default:
		return nil, fmt.Errorf("wasm version bytes % x; version 1 (01 00 00 00) is supported", wasm[4:8])
	}
	m := &module{}
	r := &wasmReader{bytes: wasm[8:], base: 8}
	for rank := 0; r.err == nil && len(r.bytes) > 0; {
		id := r.byte()
		section := r.sub(r.u32())
		if r.err != nil {
			break
		}
		if id != 0 {
			if int(id) >= len(sectionRank) || sectionRank[id] == 0 {
				return nil, fmt.Errorf("section %d at byte %d is not of core wasm 2.0; build without threads, exceptions or garbage collection", id, section.base)
			}
			if sectionRank[id] <= rank {
				return nil, fmt.Errorf("section %d at byte %d is repeated or out of order", id, section.base)
			}
			rank = sectionRank[id]
		}
		m.readSection(id, section)
		if section.err != nil {
			return nil, fmt.Errorf("section %d: %w", id, section.err)
		}
	}
	if r.err != nil {
		return nil, r.err
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
func (m *module) readSection(id byte, r *wasmReader) {
	switch id {
	case 1:
		r.each(3, func() { m.types = append(m.types, r.functionType()) })
	case 2:
		r.each(4, func() { m.readImport(r) })
	case 3:
		r.each(1, func() { m.addFunction(r, r.u32()) })
	case 4:
		r.each(3, func() { m.tables = append(m.tables, r.table()) })
	case 5:
		r.each(2, func() { m.memories = append(m.memories, r.limits()) })
	case 7:
		r.each(3, func() {
			m.exports = append(m.exports, moduleExport{r.name(), externKind(r.byte()), r.u32()})
		})
	case 8:
		r.u32()
		m.started = true
	case 10:
		r.each(1, func() {
			body := r.sub(r.u32())
			m.bodies++
			m.longest = max(m.longest, len(body.bytes))
		})
	default:
		return
	}
	if r.err == nil && len(r.bytes) > 0 {
		r.fail("%d bytes too many", len(r.bytes))
	}
}

func (m *module) readImport(r *wasmReader) {
	i := moduleImport{module: r.name(), name: r.name(), kind: externKind(r.byte())}
	switch i.kind {
	case externFunction:
		index := r.u32()
		m.addFunction(r, index)
		if r.err == nil {
			i.signature = m.types[index]
		}
	case externTable:
		r.table()
	case externMemory:
		r.limits()
	case externGlobal:
		r.valueType()
		r.byte()
	default:
		r.fail("import %q.%q has unknown kind %d", i.module, i.name, i.kind)
	}
	if r.err == nil {
		m.imports = append(m.imports, i)
	}
}

func (m *module) addFunction(r *wasmReader, typeIndex uint32) {
	if r.err == nil && int64(typeIndex) >= int64(len(m.types)) {
		r.fail("function type %d of %d", typeIndex, len(m.types))
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

// wasmReader reads a wasm binary front to back. After its first error every
// read gives zero.
type wasmReader struct {
	bytes []byte // what is left
	base  int    // offset of bytes[0] in the file, for messages
	err   error
}

func (r *wasmReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s", r.base, fmt.Sprintf(format, args...))
		r.bytes = nil
	}
}

func (r *wasmReader) byte() byte {
	if len(r.bytes) == 0 {
		r.fail("the file is cut off")
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	r.base++
	return b
}

// uint reads an unsigned LEB128 number of at most bits bits.
func (r *wasmReader) uint(bits int) uint64 {
	var v uint64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		if left := bits - shift; left < 7 && b&0x7f>>left != 0 {
			break
		}
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
	r.fail("number of more than %d bits", bits)
	return 0
}

func (r *wasmReader) u32() uint32 { return uint32(r.uint(32)) }

// sub splits off the next n bytes as a reader of their own.
func (r *wasmReader) sub(n uint32) *wasmReader {
	if int64(n) > int64(len(r.bytes)) {
		r.fail("%d bytes are announced, %d are left; the file is cut off", n, len(r.bytes))
		return &wasmReader{base: r.base, err: r.err}
	}
	s := &wasmReader{bytes: r.bytes[:n:n], base: r.base}
	r.bytes = r.bytes[n:]
	r.base += int(n)
	return s
}

// each calls read once for each entry of a vector. An entry takes at least
// size bytes, so a count that the section can't hold is refused before
// anything is allocated for it.
func (r *wasmReader) each(size int, read func()) {
	n := r.u32()
	if int64(n)*int64(size) > int64(len(r.bytes)) {
		r.fail("%d entries are announced, %d bytes are left", n, len(r.bytes))
	}
	for range n {
		if r.err != nil {
			return
		}
		read()
	}
}

func (r *wasmReader) name() string {
	s := r.sub(r.u32())
	if s.err == nil && !utf8.Valid(s.bytes) {
		r.fail("a name is not UTF-8: %q", s.bytes)
	}
	return string(s.bytes)
}

func (r *wasmReader) functionType() signature {
	if form := r.byte(); r.err == nil && form != 0x60 {
		r.fail("type form %#x; function types (0x60) are supported", form)
	}
	return signature{r.valueTypes(), r.valueTypes()}
}

func (r *wasmReader) valueTypes() string {
	var letters []byte
	r.each(1, func() { letters = append(letters, r.valueType()) })
	return string(letters)
}

func (r *wasmReader) valueType() byte {
	switch t := r.byte(); t {
	case 0x7f:
		return 'i'
	case 0x7e:
		return 'I'
	case 0x7d:
		return 'f'
	case 0x7c:
		return 'F'
	case 0x7b:
		return 'v'
	case 0x70, 0x6f:
		return 'r'
	default:
		r.fail("value type %#x", t)
		return 0
	}
}

func (r *wasmReader) table() limits {
	if t := r.byte(); r.err == nil && t != 0x70 && t != 0x6f {
		r.fail("table of type %#x", t)
	}
	return r.limits()
}

func (r *wasmReader) limits() limits {
	flags := r.byte()
	if flags > 7 {
		r.fail("limits with flags %#x", flags)
	}
	l := limits{shared: flags&2 != 0, wide: flags&4 != 0}
	bits := 32
	if l.wide {
		bits = 64
	}
	l.min = r.uint(bits)
	if flags&1 != 0 {
		r.uint(bits)
	}
	return l
}
