package meter

import (
	"slices"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// More instructions that the tests write.
const (
	opLoop         = 0x03
	opBlock        = 0x02
	opElse         = 0x05
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opLocalTee     = 0x22
	opI32Load      = 0x28
	opI32Const     = 0x41
	opI32Sub       = 0x6b
)

// assembler puts small modules together. Indexes of functions are given out
// in the order in which they are added, imports first.
type assembler struct {
	memory      bool     // one page, 16 at most, exported as memory
	memoryEntry []byte   // instead of that
	table       []byte   // entry of the table section
	tableOf     []uint32 // functions that it begins with
	globals     [][]byte // entries, exported as g0, g1, …
	numImported int

	types, imports, functions, bodies, exports, datas [][]byte
	start                                             int // function + 1
	extra                                             []byte
}

// typeOf gives the index of a function type.
func (a *assembler) typeOf(params, results string) uint32 {
	entry := code([]byte{0x60}, valueTypes(params), valueTypes(results))
	if at := slices.IndexFunc(a.types, func(t []byte) bool { return string(t) == string(entry) }); at >= 0 {
		return uint32(at)
	}
	a.types = append(a.types, entry)
	return uint32(len(a.types) - 1)
}

func valueTypes(letters string) []byte {
	dst := appendUnsigned(nil, uint64(len(letters)))
	for _, letter := range letters {
		dst = append(dst, valueType(letter))
	}
	return dst
}

func valueType(letter rune) byte {
	return map[rune]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c, 'v': 0x7b, 'r': 0x70}[letter]
}

// function adds a function; body lacks its last end.
func (a *assembler) function(params, results, export, locals string, body []byte) uint32 {
	index := uint32(a.numImported + len(a.functions))
	a.functions = append(a.functions, unsigned(a.typeOf(params, results)))
	groups := appendUnsigned(nil, uint64(len(locals)))
	for _, letter := range locals {
		groups = append(groups, 1, valueType(letter))
	}
	a.bodies = append(a.bodies, sized(code(groups, body, []byte{opEnd})))
	if export != "" {
		a.exports = append(a.exports, code(text(export), []byte{0}, unsigned(index)))
	}
	return index
}

func (a *assembler) bytes() []byte {
	module := []byte(wasm.Header)
	section := func(id byte, entries [][]byte) {
		if len(entries) == 0 {
			return
		}
		content := appendUnsigned(nil, uint64(len(entries)))
		for _, e := range entries {
			content = append(content, e...)
		}
		module = append(append(module, id), sized(content)...)
	}
	exports := slices.Clone(a.exports)
	for i := range a.globals {
		exports = append(exports, code(text("g"+string(rune('0'+i))), []byte{3}, unsigned(uint32(i))))
	}
	memory := a.memoryEntry
	if a.memory {
		memory = []byte{1, 1, 16}
		exports = append(exports, code(text("memory"), []byte{2, 0}))
	}
	section(wasm.SectionType, a.types)
	section(wasm.SectionImport, a.imports)
	section(wasm.SectionFunction, a.functions)
	if a.table != nil {
		section(wasm.SectionTable, [][]byte{a.table})
	}
	if memory != nil {
		section(wasm.SectionMemory, [][]byte{memory})
	}
	section(wasm.SectionGlobal, a.globals)
	section(wasm.SectionExport, exports)
	if a.start > 0 {
		module = append(append(module, wasm.SectionStart), sized(unsigned(uint32(a.start-1)))...)
	}
	if a.tableOf != nil {
		elements := appendUnsigned([]byte{0, opI32Const, 0, opEnd}, uint64(len(a.tableOf)))
		for _, f := range a.tableOf {
			elements = appendUnsigned(elements, uint64(f))
		}
		section(wasm.SectionElement, [][]byte{elements})
	}
	if a.datas != nil {
		module = append(append(module, wasm.SectionDataCount), sized(unsigned(uint32(len(a.datas))))...)
	}
	section(wasm.SectionCode, a.bodies)
	section(wasm.SectionData, a.datas)
	return append(module, a.extra...)
}

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }
func unsigned(v uint32) []byte    { return appendUnsigned(nil, uint64(v)) }
func text(s string) []byte        { return sized([]byte(s)) }
func sized(content []byte) []byte {
	return append(appendUnsigned(nil, uint64(len(content))), content...)
}
func i32(v int32) []byte             { return appendSigned([]byte{opI32Const}, int64(v)) }
func i64(v int64) []byte             { return appendSigned([]byte{opI64Const}, v) }
func op(b byte, index uint32) []byte { return appendUnsigned([]byte{b}, uint64(index)) }

// zeros pushes a zero of each type.
func zeros(letters string) []byte {
	var dst []byte
	for _, letter := range letters {
		switch letter {
		case 'i':
			dst = append(dst, i32(0)...)
		case 'I':
			dst = append(dst, i64(0)...)
		case 'f':
			dst = append(dst, 0x43, 0, 0, 0, 0)
		case 'F':
			dst = append(dst, 0x44, 0, 0, 0, 0, 0, 0, 0, 0)
		case 'v':
			dst = append(append(dst, prefixVector, 0x0c), make([]byte, 16)...)
		}
	}
	return dst
}
