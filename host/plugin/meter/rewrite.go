package meter

import (
	"fmt"
	"slices"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// FuelGlobal is the export under which a metered module has its counter: a
// mutable i64 global, 0 at first. The host sets it before each call and
// finds it below 0 when the call ran out of fuel, whether it trapped or, with
// its last instructions, returned.
const FuelGlobal = "wasmeter_fuel"

// Limits of a module. They bound what the engine spends on compiling it.
const (
	maxModuleBytes   = 32 << 20
	maxFunctions     = 20_000
	maxFunctionBytes = 64 << 10
	maxTypes         = 20_000
	maxArity         = 1000 // parameters, and results, of a type
	maxGlobals       = 20_000
	maxTableEntries  = 64 << 10
	maxTables        = 16
)

// Rewrite gives the metered form of a module. It takes time and memory in
// proportion to the module's size. It checks what metering depends on and
// leaves the rest of the validation to the engine. Custom sections are left
// out: debug information would no longer fit the code.
func Rewrite(module []byte) ([]byte, error) {
	if len(module) > maxModuleBytes {
		return nil, fmt.Errorf("module of %d bytes; at most %d are allowed", len(module), maxModuleBytes)
	}
	w := &rewriter{out: make([]byte, 0, len(module)+len(module)/4+64)}
	w.out = append(w.out, wasm.Header...)
	if err := wasm.Sections(module, w.section); err != nil {
		return nil, err
	}
	w.addBefore(endOfModule)
	if w.numBodies != len(w.functions) {
		return nil, fmt.Errorf("%d functions are declared and %d have a body", len(w.functions), w.numBodies)
	}
	return w.out, nil
}

// endOfModule is an id that stands behind every section.
const endOfModule = 0xff

// rewriter copies a module section by section. The module's own numbers are
// known by the time they are needed, since the sections have an order.
type rewriter struct {
	out []byte

	types       []arity
	numImported uint32  // functions
	functions   []arity // those with a body
	numBodies   int
	numMemories int
	// numGlobals counts the module's own globals, imported ones included;
	// it is also the index of the fuel. Every index in the module is held
	// against it, so none reaches the fuel.
	numGlobals uint32

	hasGlobals, hasExports bool // the sections were written

	body scan // room for one function after the other
}

// arity counts the values of a function type.
type arity struct{ params, results int }

// addBefore writes the sections that the module lacks and the fuel needs, if
// section id is the first behind their place.
func (w *rewriter) addBefore(id byte) {
	behind := func(section byte) bool { return id == endOfModule || wasm.Before(section, id) }
	if !w.hasGlobals && behind(wasm.SectionGlobal) {
		w.writeSection(wasm.SectionGlobal, w.appendFuelGlobal([]byte{1}))
		w.hasGlobals = true
	}
	if !w.hasExports && behind(wasm.SectionExport) {
		w.writeSection(wasm.SectionExport, w.appendFuelExport([]byte{1}))
		w.hasExports = true
	}
}

// appendFuelGlobal appends the fuel's entry of the global section: mutable,
// i64, 0.
func (w *rewriter) appendFuelGlobal(dst []byte) []byte {
	return append(dst, typeI64, 1, opI64Const, 0, opEnd)
}

func (w *rewriter) appendFuelExport(dst []byte) []byte {
	const kindGlobal = 3
	dst = append(dst, byte(len(FuelGlobal)))
	dst = append(dst, FuelGlobal...)
	return appendUnsigned(append(dst, kindGlobal), uint64(w.numGlobals))
}

func (w *rewriter) writeSection(id byte, content []byte) {
	w.out = appendUnsigned(append(w.out, id), uint64(len(content)))
	w.out = append(w.out, content...)
}

// section copies one section with the changes that metering makes.
func (w *rewriter) section(id byte, r *wasm.Reader) {
	if id == wasm.SectionCustom {
		return
	}
	w.addBefore(id)
	content := r.Rest()
	switch id {
	case wasm.SectionType:
		w.readTypes(r)
	case wasm.SectionImport:
		r.Each(4, func() { w.readImport(r) })
	case wasm.SectionFunction:
		r.Each(1, func() { w.functions = append(w.functions, w.functionType(r, r.U32())) })
		if n := int(w.numImported) + len(w.functions); n > maxFunctions {
			r.Fail("%d functions; at most %d are allowed", n, maxFunctions)
		}
	case wasm.SectionTable:
		content = w.tables(r)
	case wasm.SectionMemory:
		r.Each(2, func() { w.readMemory(r) })
	case wasm.SectionGlobal:
		content = w.globals(r)
	case wasm.SectionExport:
		content = w.exports(r)
	case wasm.SectionStart:
		r.Fail("a start function runs before the host has set its fuel; export it as _initialize instead")
	case wasm.SectionElement:
		r.Each(2, func() { w.readElements(r) })
	case wasm.SectionDataCount:
		r.U32()
	case wasm.SectionCode:
		content = w.code(r)
	case wasm.SectionData:
		r.Each(2, func() { w.readData(r) })
	}
	if r.Err() == nil && r.More() {
		r.Fail("%d bytes too many", len(r.Rest()))
	}
	w.writeSection(id, content)
}

func (w *rewriter) readTypes(r *wasm.Reader) {
	r.Each(3, func() {
		params, results := r.FunctionType()
		w.types = append(w.types, arity{len(params), len(results)})
		if len(params) > maxArity || len(results) > maxArity {
			r.Fail("a type of %d parameters and %d results; at most %d are allowed", len(params), len(results), maxArity)
		}
		if len(w.types) > maxTypes {
			r.Fail("more than %d types", maxTypes)
		}
	})
}

func (w *rewriter) functionType(r *wasm.Reader, index uint32) arity {
	if int64(index) >= int64(len(w.types)) {
		r.Fail("type %d of %d", index, len(w.types))
		return arity{}
	}
	return w.types[index]
}

func (w *rewriter) readImport(r *wasm.Reader) {
	module, name := r.Name(), r.Name()
	switch kind := r.Byte(); kind {
	case 0:
		w.functionType(r, r.U32())
		w.numImported++
	case 2:
		w.readMemory(r)
	case 3:
		r.ValueType()
		r.Byte()
		w.numGlobals++
	default:
		r.Fail("import %q.%q is of kind %d; functions, a memory and globals may be imported", module, name, kind)
	}
}

func (w *rewriter) readMemory(r *wasm.Reader) {
	l := r.Limits()
	if w.numMemories++; w.numMemories > 1 {
		r.Fail("a second memory; build without multi-memory")
	}
	if l.Shared {
		r.Fail("shared memory; build without threads")
	}
	if l.Wide {
		r.Fail("64-bit memory; build for wasm32, without memory64")
	}
}

// tables caps each table, so that table.grow can't use up the host's memory.
func (w *rewriter) tables(r *wasm.Reader) []byte {
	var entries []byte
	n := 0
	r.Each(3, func() {
		entry, l := r.Table()
		if l.Shared || l.Wide {
			r.Fail("a shared or 64-bit table; build for wasm32, without threads")
		}
		if l.Min > maxTableEntries {
			r.Fail("a table of %d entries; at most %d are allowed", l.Min, maxTableEntries)
		}
		if !l.Capped || l.Max > maxTableEntries {
			l.Max = maxTableEntries
		}
		if n++; n > maxTables {
			r.Fail("more than %d tables", maxTables)
		}
		entries = appendUnsigned(append(entries, entry, 1), l.Min)
		entries = appendUnsigned(entries, l.Max)
	})
	return append(appendUnsigned(nil, uint64(n)), entries...)
}

func (w *rewriter) globals(r *wasm.Reader) []byte {
	w.hasGlobals = true
	first := *r
	n := first.U32()
	// All of them count from here on: the engine sees to it that an
	// initializer reads only what it may.
	w.numGlobals += n
	if w.numGlobals < n || w.numGlobals > maxGlobals {
		r.Fail("%d globals; at most %d are allowed", n, maxGlobals)
	}
	entries := first.Rest()
	r.Each(3, func() {
		r.ValueType()
		r.Byte()
		w.readConstant(r)
	})
	content := slices.Concat(appendUnsigned(nil, uint64(n)+1), entries)
	return w.appendFuelGlobal(content)
}

func (w *rewriter) exports(r *wasm.Reader) []byte {
	w.hasExports = true
	first := *r
	n := first.U32()
	entries := first.Rest()
	r.Each(3, func() {
		name := r.Name()
		kind, index := r.Byte(), r.U32()
		if name == FuelGlobal {
			r.Fail("exports %q, a name that the host uses", FuelGlobal)
		}
		if kind == 3 {
			w.checkGlobal(r, index)
		}
	})
	content := slices.Concat(appendUnsigned(nil, uint64(n)+1), entries)
	return w.appendFuelExport(content)
}

// checkGlobal refuses what is no global of the module, since in the
// rewritten module it would be the fuel.
func (w *rewriter) checkGlobal(r *wasm.Reader, index uint32) {
	if index >= w.numGlobals {
		r.Fail("global %d of %d", index, w.numGlobals)
	}
}

// readElements reads one element segment: specification chapter 5.5.12.
func (w *rewriter) readElements(r *wasm.Reader) {
	flags := r.U32()
	if flags > 7 {
		r.Fail("element segment of kind %d", flags)
	}
	passive, explicit, expressions := flags&1 != 0, flags&2 != 0, flags&4 != 0
	if !passive {
		if explicit {
			r.U32() // table
		}
		w.readConstant(r)
	}
	if passive || explicit {
		r.Byte() // kind or type of the elements
	}
	if expressions {
		r.Each(2, func() { w.readConstant(r) })
	} else {
		r.Each(1, func() { r.U32() })
	}
}

// readData reads one data segment: specification chapter 5.5.14.
func (w *rewriter) readData(r *wasm.Reader) {
	flags := r.U32()
	if flags > 2 {
		r.Fail("data segment of kind %d", flags)
	}
	if flags == 2 {
		r.U32() // memory
	}
	if flags != 1 {
		w.readConstant(r)
	}
	r.Skip(r.U32())
}

// readConstant reads a constant expression. It is not metered: it is as long
// as its result is large.
func (w *rewriter) readConstant(r *wasm.Reader) {
	for r.Err() == nil {
		op := w.readOpcode(r)
		if op.flow == flowEnd {
			return
		}
		w.readOperands(r, op)
	}
}
