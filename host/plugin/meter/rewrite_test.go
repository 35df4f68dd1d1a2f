package meter

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// run is a module with one function () -> (), with memory and a global.
func run(body ...[]byte) *assembler {
	m := &assembler{memory: true, globals: [][]byte{{typeI64, 1, opI64Const, 7, opEnd}}}
	m.function("", "", "run", "ii", code(body...))
	return m
}

func TestRefuses(t *testing.T) {
	vectorOp := func(bytes ...byte) []byte { return append([]byte{prefixVector}, bytes...) }
	for _, c := range []struct {
		name   string
		module []byte
		want   string // part of the message
	}{
		{"no module", []byte("GGUF"), "not a WebAssembly module"},
		{"start function", func() []byte { m := run(); m.start = 1; return m.bytes() }(), "a start function"},
		{"reading the fuel", run(op(opGlobalGet, 1), []byte{opDrop}).bytes(), "global 1 of 1"},
		{"setting the fuel", run(i64(1<<40), op(opGlobalSet, 1)).bytes(), "global 1 of 1"},
		{"exporting the fuel", func() []byte {
			m := run()
			m.exports = append(m.exports, code(text("mine"), []byte{3, 1}))
			return m.bytes()
		}(), "global 1 of 1"},
		{"exporting another as the fuel", func() []byte {
			m := run()
			m.exports = append(m.exports, code(text(FuelGlobal), []byte{3, 0}))
			return m.bytes()
		}(), `exports "wasmeter_fuel"`},
		{"initializing from the fuel", func() []byte {
			m := run()
			m.globals = append(m.globals, []byte{typeI64, 0, opGlobalGet, 2, opEnd})
			return m.bytes()
		}(), "global 2 of 2"},
		{"placing data by the fuel", func() []byte {
			m := run()
			m.datas = [][]byte{code([]byte{0, opGlobalGet, 1, opEnd}, text("x"))}
			return m.bytes()
		}(), "global 1 of 1"},
		{"placing elements by the fuel", func() []byte {
			m := run()
			m.table = []byte{0x70, 0, 1}
			m.extra = nil
			wasm := m.bytes()
			at := strings.Index(string(wasm), "\x0a") // no data count: code follows
			return code(wasm[:at], []byte{9, 7, 1, 0, opGlobalGet, 1, opEnd, 1, 0}, wasm[at:])
		}(), "global 1 of 1"},
		{"the meter's own local", run(op(opLocalGet, 2), []byte{opDrop}).bytes(), "local 2 of 2"},
		{"setting the meter's own local", run(i32(0), op(opLocalSet, 2)).bytes(), "local 2 of 2"},
		{"code behind the end", run([]byte{opEnd}, i32(0)).bytes(), "behind the function's end"},
		{"no end", run([]byte{opBlock, typeNone}).bytes(), "cut off"},
		{"threads", run([]byte{0xfe, 0x10}).bytes(), "feature threads"},
		{"exceptions", run([]byte{0x06, 0x40}).bytes(), "feature exceptions"},
		{"new exceptions", run([]byte{0x1f, 0x40}).bytes(), "feature exceptions"},
		{"tail call", run([]byte{0x12, 0}).bytes(), "feature tail calls"},
		{"garbage collection", run([]byte{0xfb, 0}).bytes(), "feature garbage collection"},
		{"call by reference", run([]byte{0x14, 0}).bytes(), "feature typed function references"},
		{"relaxed SIMD", run(vectorOp(0x80, 2)).bytes(), "feature relaxed SIMD"},
		{"unknown instruction", run([]byte{0x27}).bytes(), "unknown instruction 0x27"},
		// An engine that takes the byte behind the prefix for the number
		// reads i16x8.abs and a nop where others read v128.load8x8_u.
		{"a vector number that is read in two ways", run(vectorOp(0x82, 0)).bytes(), "shortest form"},
		{"a number of five bytes", run([]byte{prefixMisc, 0x8b, 0x80, 0x80, 0x80, 0}).bytes(), "shortest form"},
		{"second memory in an instruction", run([]byte{0x3f, 1}).bytes(), "multi-memory"},
		{"second memory of memory.copy", run([]byte{prefixMisc, 10, 0, 1}).bytes(), "multi-memory"},
		{"shared memory", func() []byte { m := run(); m.memory, m.memoryEntry = false, []byte{3, 1, 2}; return m.bytes() }(), "without threads"},
		{"64-bit memory", func() []byte { m := run(); m.memory, m.memoryEntry = false, []byte{4, 1}; return m.bytes() }(), "without memory64"},
		{"imported table", func() []byte {
			m := run()
			m.imports = [][]byte{code(text("env"), text("t"), []byte{1, 0x70, 0, 1})}
			return m.bytes()
		}(), `import "env"."t" is of kind 1`},
		{"huge table", func() []byte { m := run(); m.table = []byte{0x70, 0, 0x81, 0x80, 0x04}; return m.bytes() }(), "a table of 65537 entries"},
		{"tag section", append([]byte(wasm.Header), 13, 1, 0), "without threads, exceptions"},
		{"giant br_table that is cut off", run([]byte{opBrTable, 0xff, 0xff, 0xff, 0xff, 0x0f}).bytes(), "entries are announced"},
		{"huge body", run(make([]byte, maxFunctionBytes)).bytes(), "at most 65536 (64 KiB)"},
		{"many locals", func() []byte {
			m := run()
			m.bodies = [][]byte{sized([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, opEnd})}
			return m.bytes()
		}(), "locals; at most 4096"},
		{"deep nesting", run([]byte(strings.Repeat("\x02\x40", 5000)), []byte(strings.Repeat("\x0b", 5000))).bytes(), "nested 4097 deep"},
		{"many joins", joins(400, 2000), "branches carry locals"},
		{"many functions", func() []byte {
			m := run()
			for range maxFunctions {
				m.functions = append(m.functions, []byte{0})
			}
			return m.bytes()
		}(), "20001 functions; at most 20000"},
		{"more bodies than functions", func() []byte { m := run(); m.bodies = append(m.bodies, m.bodies[0]); return m.bytes() }(), "more bodies than"},
		{"fewer bodies than functions", func() []byte { m := run(); m.bodies = nil; return m.bytes() }(), "1 functions are declared and 0 have a body"},
		{"wide type", func() []byte { m := run(); m.typeOf(strings.Repeat("i", 1001), ""); return m.bytes() }(), "1001 parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Rewrite(c.module); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

// joins is a function whose blocks end where many locals have another value
// on each way: each of them is a move on each of the ways.
func joins(locals, blocks int) []byte {
	var body []byte
	for range blocks {
		body = append(body, opBlock, typeNone)
	}
	for i := range locals {
		body = append(body, code(i64(int64(i)), op(opLocalSet, uint32(i)))...)
	}
	for i := range blocks {
		body = append(body, code(i32(0), op(opBrIf, uint32(i%2)), i64(int64(i)), op(opLocalSet, uint32(i%locals)), []byte{opEnd})...)
	}
	m := &assembler{}
	m.function("", "", "run", strings.Repeat("I", locals), forever(body))
	return m.bytes()
}

// call runs function run of the metered module and gives the fuel it used.
func call(t *testing.T, m *assembler, fuel int64, args ...uint64) (used int64, err error) {
	t.Helper()
	metered, err := Rewrite(m.bytes())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	module, err := runtime.Instantiate(ctx, metered)
	if err != nil {
		t.Fatal(err)
	}
	global := module.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	if first := global.Get(); first != 0 {
		t.Errorf("the fuel is %d at first, want 0", first)
	}
	global.Set(uint64(fuel))
	_, err = module.ExportedFunction("run").Call(ctx, args...)
	return fuel - int64(global.Get()), err
}

// The expected numbers are counted by hand, from the costs that ABI.md
// states: 64 and one a local for the entry, 96 for a load, 4 for a store, 16 for a
// division, 32 and a quarter a byte for a bulk operation, 2,000 and 64 a page
// for memory.grow, 1 for everything else, one for each 2 values at a join.
func TestFuel(t *testing.T) {
	const entry = 64 + 1 // and the last end
	for _, c := range []struct {
		name   string
		locals string
		body   []byte
		want   int64
	}{
		{"nothing", "", nil, entry},
		{"two locals", "ii", nil, entry + 2},
		{"plain", "", code(i32(1), i32(2), []byte{0x6a, opDrop}), entry + 4},
		{"store and load", "", code(i32(0), i32(0), []byte{opI32Load, 2, 0, 0x36, 2, 0}), entry + 2 + 96 + 4},
		{"division", "", code(i32(6), i32(3), []byte{0x6d, opDrop}), entry + 3 + 16},
		{"float division", "", code(zeros("FF"), []byte{0xa3, opDrop}), entry + 3 + 8},
		{"fill of 1000 bytes", "", code(i32(0), i32(0), i32(1000), []byte{prefixMisc, 11, 0}), entry + 4 + 32 + 250},
		{"fill that traps", "", code(i32(0), i32(0), i32(-1), []byte{prefixMisc, 11, 0}), entry + 4 + 32 + (1<<32-1)/4},
		{"grow by 3 pages", "", code(i32(3), []byte{0x40, 0, opDrop}), entry + 3 + 2000 + 3*64},
		{"grow that is refused", "", code(i32(-1), []byte{0x40, 0, opDrop}), entry + 3 + 2000 + (1<<32-1)*64},
		{"loop of 10 turns", "i", code(
			i32(10), op(opLocalSet, 0),
			[]byte{opLoop, typeNone}, op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opLocalTee, 0), op(opBrIf, 0), []byte{opEnd},
		), entry + 1 + 3 + 10*(6+1)},
		// Four divisions, 16 instructions, make a region of their own; three, 12, don't.
		{"a short way of an if", "", code(i32(1), []byte{opIf, typeNone, opElse}, divisions(3), []byte{opEnd}), entry + 2 + 1 + 3*19 + 1},
		{"one way of an if", "", code(i32(1), []byte{opIf, typeNone, opElse}, divisions(4), []byte{opEnd}), entry + 2 + 1},
		{"the other way", "", code(i32(0), []byte{opIf, typeNone, opElse}, divisions(4), []byte{opEnd}), entry + 2 + 1 + 4*19 + 1},
		{"what a branch skips, if it is large", "", code([]byte{opBlock, typeNone, opBlock, typeNone}, op(opBr, 1), []byte{opEnd}, divisions(4), []byte{opEnd}), entry + 4},
		{"both ways of an if", "", code(i32(0), []byte{opIf, typeNone, 1, opElse, 1, opEnd}), entry + 6},
		{"what a branch skips", "", code([]byte{opBlock, typeNone}, op(opBr, 0), []byte{1, 1, opEnd}), entry + 5},
		{"loop in a loop that is not taken", "", code(
			[]byte{opLoop, typeNone}, op(opBr, 1), []byte{opLoop, typeNone, 1, opEnd, opEnd}), entry + 1 + 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &assembler{memory: true}
			m.function("", "", "run", c.locals, c.body)
			if got, _ := call(t, m, 1<<50); got != c.want {
				t.Errorf("%d units were used, want %d", got, c.want)
			}
			// Without a trap the host finds out when the call has returned.
			if got, err := call(t, m, c.want-1); got < c.want || err != nil && !strings.Contains(err.Error(), "unreachable") {
				t.Errorf("with one unit less: got %v and %d units used, want a trap or as many as before", err, got)
			}
		})
	}
}

// divisions leaves nothing on the stack: 1 divided by 1, n times.
func divisions(n int) []byte {
	return bytes.Repeat(code(i32(1), i32(1), []byte{0x6d, opDrop}), n)
}

// What is charged late stays little, however a module returns: it recurses as deep
// as most of its budget goes, and does as much as it can on every way back.
func TestLateCharges(t *testing.T) {
	const budget = 100_000 // for 1,000 ways down, of 77 each, and little more
	work := divisions(300) // 5,700 units, behind a join
	late := code([]byte{opBlock, typeNone}, op(opLocalGet, 0), op(opBrIf, 0), work, []byte{opEnd}, work)
	skip := func(label uint32) []byte { return code(i32(1), op(opBrIf, label)) } // to the function's end
	for name, c := range map[string]struct{ leaf, back []byte }{
		"end":           {nil, late},
		"return":        {nil, code(late, []byte{0x0f})},
		"branch":        {nil, code([]byte{opBlock, typeNone}, late, skip(1), []byte{opEnd})},
		"branch table":  {nil, code([]byte{opBlock, typeNone}, late, i32(0), []byte{opBrTable, 1, 1, 0}, []byte{opEnd})},
		"leaf":          {late, op(opCall, 1)},
		"leaf and work": {late, code(op(opCall, 1), late)},
	} {
		t.Run(name, func(t *testing.T) {
			// run: if --depth > 0 { run(depth) }; back
			down := code(op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opLocalTee, 0),
				[]byte{opIf, typeNone}, op(opLocalGet, 0), op(opCall, 0), []byte{opEnd}, i32(0), op(opLocalSet, 0))
			m := &assembler{}
			m.function("i", "", "run", "", code(down, c.back))
			m.function("", "", "", "i", c.leaf)
			used, err := call(t, m, budget, 1000)
			if err == nil || !strings.Contains(err.Error(), "unreachable") {
				t.Errorf("got %v, want a trap", err)
			}
			if most := int64(budget + 3*mostLate); used < budget || used > most {
				t.Errorf("%d units were used of %d, want %d at most", used, budget, most)
			}
		})
	}
}

// A module without globals and exports gets both sections; one that has a
// section behind their place still has its sections in order.
func TestSectionsAreAdded(t *testing.T) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	withTable := &assembler{table: []byte{0x70, 1, 1, 2}, tableOf: []uint32{0}}
	withTable.function("", "", "", "", nil)
	for name, module := range map[string][]byte{
		"empty":           []byte(wasm.Header),
		"custom sections": append([]byte(wasm.Header), 0, 5, 4, 'n', 'a', 'm', 'e', 0, 2, 1, 'x'),
		"code only":       withTable.bytes(),
		"export only":     run().bytes(),
	} {
		metered, err := Rewrite(module)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, err := runtime.InstantiateWithConfig(ctx, metered, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if global := m.ExportedGlobal(FuelGlobal); global == nil || global.Type() != api.ValueTypeI64 {
			t.Errorf("%s: has no fuel", name)
		}
		if strings.Contains(string(metered), "name") {
			t.Errorf("%s: the custom sections are still there", name)
		}
	}
}

// A table can't grow beyond 65,536 entries, whatever its type says.
func TestTablesAreCapped(t *testing.T) {
	for name, table := range map[string][]byte{"no maximum": {0x70, 0, 1}, "a high one": {0x70, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}} {
		m := &assembler{table: table}
		m.function("i", "", "run", "", code(
			[]byte{0xd0, 0x70}, op(opLocalGet, 0), []byte{prefixMisc, 15, 0}, // table.grow
			i32(1), []byte{0x47, opIf, typeNone, opUnreachable, opEnd})) // is 1, the old size, unless refused
		if _, err := call(t, m, 1<<40, 65535); err != nil {
			t.Errorf("%s: growing to 65536: %v", name, err)
		}
		if _, err := call(t, m, 1<<40, 65536); err == nil {
			t.Errorf("%s: the table grew to 65537", name)
		}
	}
}

// FuzzRewrite gives the meter arbitrary bytes: an error, or a module in which
// a compiler finds nothing wrong that was not wrong before.
func FuzzRewrite(f *testing.F) {
	f.Add(run(i32(0), i32(0), []byte{0x36, 2, 0}).bytes())
	f.Add(joins(4, 4))
	f.Add([]byte(wasm.Header))
	for seed := range uint64(20) {
		f.Add(newGenerator(seed).module())
	}
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Cleanup(func() { _ = runtime.Close(ctx) })
	f.Fuzz(func(t *testing.T, module []byte) {
		metered, err := Rewrite(module)
		if err != nil {
			return
		}
		before, errBefore := runtime.CompileModule(ctx, module)
		after, errAfter := runtime.CompileModule(ctx, metered)
		if errBefore == nil {
			before.Close(ctx)
		}
		if errAfter == nil {
			after.Close(ctx)
		}
		if errBefore == nil && errAfter != nil {
			t.Errorf("metering spoils a module: %v", errAfter)
		}
		// The engine reads some of the custom sections, which are left out.
		if errBefore != nil && errAfter == nil && !hasCustomSection(module) {
			t.Errorf("metering makes a module valid that is not: %v", errBefore)
		}
	})
}

func hasCustomSection(module []byte) bool {
	found := false
	_ = wasm.Sections(module, func(id byte, _ *wasm.Reader) { found = found || id == wasm.SectionCustom })
	return found
}
