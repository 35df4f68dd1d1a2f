package meter

import (
	"slices"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// readOpcode reads an opcode and finds it in the table. On a fault it gives
// the zero opcode.
func (w *rewriter) readOpcode(r *wasm.Reader) *opcode {
	at := r.Offset()
	table, number := plainOpcodes, uint32(r.Byte())
	prefix := number
	switch prefix {
	case prefixMisc:
		table, number = miscOpcodes, readSuffix(r)
	case prefixVector:
		table, number = vectorOpcodes, readSuffix(r)
	default:
		prefix = 0
	}
	if int64(number) < int64(len(table)) {
		op := &table[number]
		if op.cost > 0 {
			return op
		}
		if op.refused != "" {
			r.Fail("instruction %s is of the feature %s; build the plugin without it", spell(prefix, number), op.refused)
			return &unknownOpcode
		}
	}
	if r.Err() == nil {
		r.Fail("unknown instruction %s at byte %d; plugins are WebAssembly 2.0", spell(prefix, number), at)
	}
	return &unknownOpcode
}

// unknownOpcode stands for what could not be read.
var unknownOpcode opcode

// readSuffix reads the number behind a prefix. The specification allows
// longer forms of it than the shortest; engines that take the byte as it is
// read another instruction there, so only the shortest is accepted.
func readSuffix(r *wasm.Reader) uint32 {
	before := len(r.Rest())
	number := r.U32()
	taken := before - len(r.Rest())
	if r.Err() == nil && taken != len(appendUnsigned(nil, uint64(number))) {
		r.Fail("instruction number %d in %d bytes; write it in the shortest form", number, taken)
	}
	return number
}

func spell(prefix, number uint32) string {
	text := "0x" + hexByte(number>>8) + hexByte(number)
	if number < 0x100 {
		text = "0x" + hexByte(number)
	}
	if prefix != 0 {
		text = "0x" + hexByte(prefix) + " " + text
	}
	return text
}

func hexByte(v uint32) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[v>>4&15], digits[v&15]})
}

// readOperands steps over an instruction's immediates. What the rewriting
// could make valid, the index of a local or a global, is checked.
func (w *rewriter) readOperands(r *wasm.Reader, op *opcode) {
	for _, letter := range []byte(op.operands) {
		switch letter {
		case 'l':
			if index := r.U32(); int64(index) >= int64(w.body.numLocals) {
				r.Fail("local %d of %d", index, w.body.numLocals)
			}
		case 'L':
			if index := r.U32(); int64(index) >= int64(w.body.numLocals) {
				r.Fail("local %d of %d", index, w.body.numLocals)
			}
			w.body.numSets++
		case 'g':
			w.checkGlobal(r, r.U32())
		case 'x':
			w.body.label = r.U32()
		case 'm':
			r.U32()
			r.U32()
		case 'i':
			r.Int(32)
		case 'I':
			r.Int(64)
		case 'f':
			r.Skip(4)
		case 'F':
			r.Skip(8)
		case 'V':
			r.Skip(16)
		case 'n':
			r.Byte()
		case 'z':
			if index := r.Byte(); index != 0 {
				r.Fail("memory %d; build without multi-memory", index)
			}
		case 'B':
			outermost := uint32(0)
			r.Each(1, func() {
				outermost = max(outermost, r.U32())
				w.body.numEdges++
			})
			w.body.label = max(outermost, r.U32()) // the default
		case 't':
			if n := r.Byte(); n != 1 {
				r.Fail("select with %d types; it has one", n)
			}
			r.ValueType()
		case 'r':
			if t := r.Byte(); !slices.Contains([]byte{0x70, 0x6f}, t) {
				r.Fail("reference type %#x", t)
			}
		case 'b':
			w.body.blockType = w.readBlockType(r)
		default:
			panic("meter: no operand of kind " + string(letter))
		}
	}
}

// readBlockType reads the type of a block: none, one value, or that of a
// function.
func (w *rewriter) readBlockType(r *wasm.Reader) arity {
	if rest := r.Rest(); len(rest) > 0 && (rest[0] == 0x40 || wasm.ValueTypeLetter(rest[0]) != 0) {
		if r.Byte() == 0x40 {
			return arity{}
		}
		return arity{results: 1}
	}
	index := r.Int(33)
	if index < 0 {
		r.Fail("block type %d", index)
		return arity{}
	}
	return w.functionType(r, uint32(index))
}
