package main

import (
	"encoding/binary"
	"slices"
	"strings"
)

// hostile is a plugin that behaves on the made-up requests that it is tried with,
// so that it is loaded, and does its worst on real ones.
type hostile struct {
	name string
	hook string // shape, unless it says otherwise
	// crime is the body of a function () -> i64 with two locals, i32, whose
	// result the hook returns. It may call what module lists.
	crime []byte
	// kind is how the call fails; empty: it succeeds, with the field x_test: 1 in
	// its answer.
	kind string
	// calls are imported functions, by their place 0, 1, …: "log iii".
	calls []string
	// init runs before the module's init returns.
	init []byte
	// functions of the type of crime stand in a table from place 0 on.
	functions [][]byte
	// text lies at textAt.
	text   string
	config string // more of its configuration, YAML
}

// Addresses in a hostile plugin's memory.
const (
	frameAt  = 4096
	answerAt = 2 << 16
	textAt   = answerAt + 4096
)

const goodAnswer = `{"fields":{"x_test":1}}`

// Instructions, by the WebAssembly specification, chapter 5.4.
var (
	wasmUnreachable = []byte{0x00}
	wasmReturn      = []byte{0x0f}
	wasmDrop        = []byte{0x1a}
	wasmGrow        = []byte{0x40, 0}
	wasmFill        = []byte{0xfc, 11, 0}
)

func wasmI32(v int32) []byte { return appendLEB([]byte{0x41}, int64(v)) }
func wasmI64(v int64) []byte { return appendLEB([]byte{0x42}, v) }

// wasmCall calls an imported function, or crime, which follows the module's own
// four and the imports.
func wasmCall(i int) []byte      { return binary.AppendUvarint([]byte{0x10}, uint64(i)) }
func wasmGet(local byte) []byte  { return []byte{0x20, local} }
func wasmSet(local byte) []byte  { return []byte{0x21, local} }
func wasmLoad(at uint64) []byte  { return binary.AppendUvarint([]byte{0x28, 2}, at) }
func wasmStore(at uint64) []byte { return binary.AppendUvarint([]byte{0x36, 2}, at) }
func wasm(parts ...[]byte) []byte {
	return slices.Concat(parts...)
}

// wasmForever repeats instructions, wasmTimes does so n times with local 0 as the
// counter from n down to 1.
func wasmForever(body ...[]byte) []byte {
	return wasm([]byte{0x03, 0x40}, wasm(body...), []byte{0x0c, 0, 0x0b, 0x00})
}
func wasmTimes(n int32, body ...[]byte) []byte {
	return wasm(wasmI32(n), wasmSet(0), []byte{0x03, 0x40}, wasm(body...),
		wasmGet(0), wasmI32(1), []byte{0x6b, 0x22, 0, 0x0d, 0, 0x0b})
}

// wasmAnswer returns length bytes at an address as the hook's result.
func wasmAnswer(at, length uint32) []byte {
	return wasmI64(int64(uint64(at)<<32 | uint64(length)))
}

var wasmGood = wasmAnswer(answerAt, uint32(len(goodAnswer)))

// module assembles it: sections in the order of the specification, chapter 5.5.
func (h hostile) module() []byte {
	hook := h.hook
	if hook == "" {
		hook = "shape"
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, entries ...[]byte) {
		if len(entries) == 0 {
			return
		}
		content := wasm(binary.AppendUvarint(nil, uint64(len(entries))), slices.Concat(entries...))
		out = append(out, id)
		out = append(binary.AppendUvarint(out, uint64(len(content))), content...)
	}
	name := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	valueTypes := func(letters string) []byte {
		list := binary.AppendUvarint(nil, uint64(len(letters)))
		for _, l := range letters {
			list = append(list, map[rune]byte{'i': 0x7f, 'I': 0x7e, 'F': 0x7c}[l])
		}
		return list
	}
	function := func(params, results string) []byte {
		return wasm([]byte{0x60}, valueTypes(params), valueTypes(results))
	}

	// Types 0 … 3 are those of the exports, the others of the imports.
	result := "I" // address and length of the answer
	if hook == "finish" {
		result = "i"
	}
	types := [][]byte{function("", "i"), function("i", "i"), function("i", result), function("", "I")}
	var imports [][]byte
	for i, c := range h.calls {
		f := strings.Fields(c + " ") // module.name, params, results; - for none
		from, imported, _ := strings.Cut(f[0], ".")
		types = append(types, function(strings.Trim(f[1], "-"), strings.Trim(f[2], "-")))
		imports = append(imports, wasm(name(from), name(imported), []byte{0}, binary.AppendUvarint(nil, uint64(4+i))))
	}
	n := len(h.calls)
	mask := map[string]int32{"shape": 1, "finish": 2, "request": 4, "chunk": 8}[hook]
	nothing, crime := wasmI64(0), wasmCall(n+4)
	if hook == "finish" {
		nothing, crime = wasmI32(0), wasm(crime, []byte{0xa7}) // i32.wrap_i64
	}
	bodies := [][]byte{
		wasmI32(0),
		wasmI32(frameAt),
		wasm(h.init, wasmI32(mask)),
		// Flag 256 of the frame says that the request was never made.
		wasm(wasmI32(frameAt), wasmLoad(8), wasmI32(256), []byte{0x71, 0x04, 0x40}, nothing, wasmReturn, []byte{0x0b}, crime),
		h.crime,
	}
	functions := [][]byte{{0}, {1}, {1}, {2}, {3}}
	for _, f := range h.functions {
		functions, bodies = append(functions, []byte{3}), append(bodies, f)
	}
	var codes [][]byte
	for _, b := range bodies {
		b = wasm([]byte{1, 2, 0x7f}, b, []byte{0x0b}) // two locals, i32
		codes = append(codes, append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	}
	export := func(s string, kind byte, i int) []byte { return wasm(name(s), []byte{kind, byte(i)}) }
	section(1, types...)
	section(2, imports...)
	section(3, functions...)
	if len(h.functions) > 0 {
		section(4, []byte{0x70, 0, byte(len(h.functions))})
	}
	section(5, []byte{0, 4}) // pages of 64 KiB
	section(7, export("memory", 2, 0), export("wasmeter_abi_v1", 0, n), export("wasmeter_buffer", 0, n+1),
		export("wasmeter_init", 0, n+2), export("wasmeter_"+hook, 0, n+3))
	if len(h.functions) > 0 {
		elements := wasm([]byte{0}, wasmI32(0), []byte{0x0b, byte(len(h.functions))})
		for i := range h.functions {
			elements = append(elements, byte(n+5+i))
		}
		section(9, elements)
	}
	section(10, codes...)
	section(11, wasm([]byte{0}, wasmI32(answerAt), []byte{0x0b}, name(goodAnswer)), wasm([]byte{0}, wasmI32(textAt), []byte{0x0b}, name(h.text)))
	return out
}

// appendLEB appends signed LEB128, chapter 5.2.2.
func appendLEB(dst []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}
