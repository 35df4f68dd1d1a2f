package meter

import (
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// instruction is an opcode with its stack effect, for tests that write code.
type instruction struct {
	prefix, number uint32
	params         string // letters as in wasm.Reader.ValueType
	results        string
	lanes          byte // of an immediate that picks one
}

// instructions lists what the specification's chapters 3.3 and 5.4 give for
// each instruction that computes, loads or stores: the rows are first, last,
// operands, result, lanes.
func instructions() []instruction {
	type row struct {
		first, last     uint32
		params, results string
		lanes           byte
	}
	var all []instruction
	add := func(prefix uint32, rows []row) {
		for _, r := range rows {
			for n := r.first; n <= r.last; n++ {
				all = append(all, instruction{prefix, n, r.params, r.results, r.lanes})
			}
		}
	}
	add(0, []row{
		{0x28, 0x28, "i", "i", 0}, {0x29, 0x29, "i", "I", 0}, {0x2a, 0x2a, "i", "f", 0}, {0x2b, 0x2b, "i", "F", 0},
		{0x2c, 0x2f, "i", "i", 0}, {0x30, 0x35, "i", "I", 0},
		{0x36, 0x36, "ii", "", 0}, {0x37, 0x37, "iI", "", 0}, {0x38, 0x38, "if", "", 0}, {0x39, 0x39, "iF", "", 0},
		{0x3a, 0x3b, "ii", "", 0}, {0x3c, 0x3e, "iI", "", 0},
		{0x45, 0x45, "i", "i", 0}, {0x46, 0x4f, "ii", "i", 0}, {0x50, 0x50, "I", "i", 0}, {0x51, 0x5a, "II", "i", 0},
		{0x5b, 0x60, "ff", "i", 0}, {0x61, 0x66, "FF", "i", 0}, {0x67, 0x69, "i", "i", 0}, {0x6a, 0x78, "ii", "i", 0},
		{0x79, 0x7b, "I", "I", 0}, {0x7c, 0x8a, "II", "I", 0}, {0x8b, 0x91, "f", "f", 0}, {0x92, 0x98, "ff", "f", 0},
		{0x99, 0x9f, "F", "F", 0}, {0xa0, 0xa6, "FF", "F", 0}, {0xa7, 0xa7, "I", "i", 0}, {0xa8, 0xa9, "f", "i", 0},
		{0xaa, 0xab, "F", "i", 0}, {0xac, 0xad, "i", "I", 0}, {0xae, 0xaf, "f", "I", 0}, {0xb0, 0xb1, "F", "I", 0},
		{0xb2, 0xb3, "i", "f", 0}, {0xb4, 0xb5, "I", "f", 0}, {0xb6, 0xb6, "F", "f", 0}, {0xb7, 0xb8, "i", "F", 0},
		{0xb9, 0xba, "I", "F", 0}, {0xbb, 0xbb, "f", "F", 0}, {0xbc, 0xbc, "f", "i", 0}, {0xbd, 0xbd, "F", "I", 0},
		{0xbe, 0xbe, "i", "f", 0}, {0xbf, 0xbf, "I", "F", 0}, {0xc0, 0xc1, "i", "i", 0}, {0xc2, 0xc4, "I", "I", 0},
	})
	add(prefixMisc, []row{{0, 1, "f", "i", 0}, {2, 3, "F", "i", 0}, {4, 5, "f", "I", 0}, {6, 7, "F", "I", 0}})
	add(prefixVector, []row{
		{0x00, 0x0a, "i", "v", 0}, {0x0b, 0x0b, "iv", "", 0}, {0x0d, 0x0e, "vv", "v", 0},
		{0x0f, 0x11, "i", "v", 0}, {0x12, 0x12, "I", "v", 0}, {0x13, 0x13, "f", "v", 0}, {0x14, 0x14, "F", "v", 0},
		{0x15, 0x16, "v", "i", 16}, {0x17, 0x17, "vi", "v", 16}, {0x18, 0x19, "v", "i", 8}, {0x1a, 0x1a, "vi", "v", 8},
		{0x1b, 0x1b, "v", "i", 4}, {0x1c, 0x1c, "vi", "v", 4}, {0x1d, 0x1d, "v", "I", 2}, {0x1e, 0x1e, "vI", "v", 2},
		{0x1f, 0x1f, "v", "f", 4}, {0x20, 0x20, "vf", "v", 4}, {0x21, 0x21, "v", "F", 2}, {0x22, 0x22, "vF", "v", 2},
		{0x23, 0x4c, "vv", "v", 0}, {0x4d, 0x4d, "v", "v", 0}, {0x4e, 0x51, "vv", "v", 0}, {0x52, 0x52, "vvv", "v", 0},
		{0x53, 0x53, "v", "i", 0}, {0x54, 0x54, "iv", "v", 16}, {0x55, 0x55, "iv", "v", 8}, {0x56, 0x56, "iv", "v", 4},
		{0x57, 0x57, "iv", "v", 2}, {0x58, 0x58, "iv", "", 16}, {0x59, 0x59, "iv", "", 8}, {0x5a, 0x5a, "iv", "", 4},
		{0x5b, 0x5b, "iv", "", 2}, {0x5c, 0x5d, "i", "v", 0}, {0x5e, 0x62, "v", "v", 0}, {0x63, 0x64, "v", "i", 0},
		{0x65, 0x66, "vv", "v", 0}, {0x67, 0x6a, "v", "v", 0}, {0x6b, 0x6d, "vi", "v", 0}, {0x6e, 0x73, "vv", "v", 0},
		{0x74, 0x75, "v", "v", 0}, {0x76, 0x79, "vv", "v", 0}, {0x7a, 0x7a, "v", "v", 0}, {0x7b, 0x7b, "vv", "v", 0},
		{0x7c, 0x81, "v", "v", 0}, {0x82, 0x82, "vv", "v", 0}, {0x83, 0x84, "v", "i", 0}, {0x85, 0x86, "vv", "v", 0},
		{0x87, 0x8a, "v", "v", 0}, {0x8b, 0x8d, "vi", "v", 0}, {0x8e, 0x93, "vv", "v", 0}, {0x94, 0x94, "v", "v", 0},
		{0x95, 0x99, "vv", "v", 0}, {0x9b, 0x9f, "vv", "v", 0}, {0xa0, 0xa1, "v", "v", 0}, {0xa3, 0xa4, "v", "i", 0},
		{0xa7, 0xaa, "v", "v", 0}, {0xab, 0xad, "vi", "v", 0}, {0xae, 0xae, "vv", "v", 0}, {0xb1, 0xb1, "vv", "v", 0},
		{0xb5, 0xba, "vv", "v", 0}, {0xbc, 0xbf, "vv", "v", 0}, {0xc0, 0xc1, "v", "v", 0}, {0xc3, 0xc4, "v", "i", 0},
		{0xc7, 0xca, "v", "v", 0}, {0xcb, 0xcd, "vi", "v", 0}, {0xce, 0xce, "vv", "v", 0}, {0xd1, 0xd1, "vv", "v", 0},
		{0xd5, 0xdf, "vv", "v", 0}, {0xe0, 0xe1, "v", "v", 0}, {0xe3, 0xe3, "v", "v", 0}, {0xe4, 0xeb, "vv", "v", 0},
		{0xec, 0xed, "v", "v", 0}, {0xef, 0xef, "v", "v", 0}, {0xf0, 0xf7, "vv", "v", 0}, {0xf8, 0xff, "v", "v", 0},
	})
	return all
}

func (i instruction) String() string { return spell(i.prefix, i.number) }

// opcode gives the meter's entry.
func (i instruction) opcode() opcode {
	return map[uint32][]opcode{0: plainOpcodes, prefixMisc: miscOpcodes, prefixVector: vectorOpcodes}[i.prefix][i.number]
}

// encode appends the instruction. pick chooses the lane or the bytes of a
// shuffle, each below the given bound.
func (i instruction) encode(dst []byte, pick func(int) byte) []byte {
	if i.prefix != 0 {
		dst = append(dst, byte(i.prefix))
		dst = appendUnsigned(dst, uint64(i.number))
	} else {
		dst = append(dst, byte(i.number))
	}
	for _, operand := range i.opcode().operands {
		switch operand {
		case 'm':
			dst = append(dst, 0, pick(64)) // unaligned, a small offset
		case 'n':
			dst = append(dst, pick(int(i.lanes)))
		case 'V':
			for range 16 {
				dst = append(dst, pick(32))
			}
		default:
			panic("no operand " + string(operand))
		}
	}
	return dst
}

func zero(int) byte { return 0 }

// Each instruction stands in the meter's tables, and the engine agrees on
// its form: a module that uses all of them compiles after the rewriting.
func TestOpcodeTables(t *testing.T) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	known := 0
	for _, i := range instructions() {
		m := &assembler{memory: true}
		body := zeros(i.params)
		body = i.encode(body, zero)
		for range i.results {
			body = append(body, opDrop)
		}
		m.function("", "", "run", "", body)
		metered, err := Rewrite(m.bytes())
		if err != nil {
			t.Errorf("%v: %v", i, err)
			continue
		}
		if _, err := runtime.CompileModule(ctx, metered); err != nil {
			t.Errorf("%v: %v", i, err)
		}
		known++
	}
	// 23 loads and stores, 128 that compute, 8 truncations, and all of SIMD
	// but v128.const.
	if want := 23 + 128 + 8 + 235; known != want {
		t.Errorf("%d instructions are metered, want %d", known, want)
	}
}

// A number that WebAssembly 2.0 gives to no instruction is refused, whatever
// its neighbours in the tables are.
func TestUnknownOpcodes(t *testing.T) {
	known := map[string]bool{"0xfd 0x0c": true}
	for _, i := range instructions() {
		known[i.String()] = true
	}
	for number := range uint32(0x200) {
		i := instruction{prefix: prefixVector, number: number}
		m := &assembler{memory: true}
		m.function("", "", "run", "", appendUnsigned([]byte{prefixVector}, uint64(number)))
		_, err := Rewrite(m.bytes())
		refused := err != nil && strings.Contains(err.Error(), "unknown instruction "+i.String()) ||
			err != nil && strings.Contains(err.Error(), "relaxed SIMD")
		if !known[i.String()] && !refused {
			t.Errorf("%v: got %v, want a refusal", i, err)
		}
	}
}
