package meter

import (
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// crimes are modules that try to run for long or to use much, each in the
// way that its name says.
func crimes() []crime {
	var all []crime
	add := func(name string, m *assembler) { all = append(all, crime{name, m.bytes()}) }
	// inMemory is a function without parameters in a module with 16 MiB.
	inMemory := func(locals string, body ...[]byte) *assembler {
		m := &assembler{memoryEntry: []byte{1, 0x80, 2, 0x80, 2}, table: []byte{0x70, 0, 16}}
		m.datas = [][]byte{code([]byte{1}, text("passive"))}
		m.function("", "", "run", locals, code(body...))
		return m
	}
	repeat := func(n int, body ...[]byte) []byte { return []byte(strings.Repeat(string(code(body...)), n)) }

	add("infinite loop", inMemory("", forever(nil)))
	add("loop of many nothings", inMemory("", forever(repeat(30_000, []byte{1}))))
	add("recursion", inMemory("", op(opCall, 0)))
	add("recursion in both branches", inMemory("", op(opCall, 0), op(opCall, 0)))
	add("recursion with 4,096 locals", inMemory(strings.Repeat("v", 4096), op(opCall, 0)))
	add("recursion with large frames", largeFrames(2000))
	add("recursion with small frames", largeFrames(12))
	add("recursion that returns 1,000 values", manyResults())
	add("cycle of indirect calls", func() *assembler {
		m := &assembler{table: []byte{0x70, 0, 3}, tableOf: []uint32{0, 1, 2}}
		for i := range int32(3) {
			m.function("", "", map[int32]string{0: "run"}[i], "", code(i32((i+1)%3), op(opCallIndirect, 0), []byte{0}))
		}
		return m
	}())
	add("indirect calls in a loop", func() *assembler {
		m := &assembler{table: []byte{0x70, 0, 3}, tableOf: []uint32{1, 1, 1}}
		m.function("", "", "run", "", forever(repeat(200, i32(1), op(opCallIndirect, 0), []byte{0})))
		m.function("", "", "", "", nil)
		return m
	}())
	add("giant br_table", giantTable(20_000))
	add("many br_tables", inMemory("i", forever(code(
		repeat(1000, []byte{opBlock, typeNone}, op(opLocalGet, 0), []byte{opBrTable, 4, 0, 0, 0, 0, 0, opEnd}),
		op(opLocalGet, 0), i32(1), []byte{0x6a}, i32(3), []byte{0x71}, op(opLocalSet, 0)))))
	add("memory.grow by nothing", inMemory("", forever(repeat(100, i32(0), []byte{0x40, 0, opDrop}))))
	add("memory.grow refused", inMemory("", forever(repeat(100, i32(1), []byte{0x40, 0, opDrop}))))
	add("memory.grow page by page", func() *assembler {
		m := &assembler{memoryEntry: []byte{1, 1, 0x80, 2}}
		m.function("", "", "run", "", forever(repeat(10, i32(1), []byte{0x40, 0, opDrop})))
		return m
	}())
	add("memory.fill of everything", inMemory("", forever(code(i32(0), i32(1), i32(16<<20), []byte{prefixMisc, 11, 0}))))
	add("memory.copy of everything", inMemory("", forever(code(i32(1), i32(0), i32(16<<20-1), []byte{prefixMisc, 10, 0, 0}))))
	for _, n := range []int32{0, 1, 64, 4096} {
		size := map[int32]string{0: "nothing", 1: "a byte", 64: "64 bytes", 4096: "4 KiB"}[n]
		add("memory.fill of "+size, inMemory("", forever(repeat(100, i32(0), i32(1), i32(n), []byte{prefixMisc, 11, 0}))))
		add("memory.copy of "+size, inMemory("", forever(repeat(100, i32(8<<20), i32(0), i32(n), []byte{prefixMisc, 10, 0, 0}))))
	}
	add("memory.init", inMemory("", forever(repeat(100, i32(0), i32(0), i32(7), []byte{prefixMisc, 8, 0, 0}))))
	add("table.grow", inMemory("", forever(repeat(100, []byte{0xd0, 0x70}, i32(1), []byte{prefixMisc, 15, 0, opDrop}))))
	add("table.grow by nothing", inMemory("", forever(repeat(100, []byte{0xd0, 0x70}, i32(0), []byte{prefixMisc, 15, 0, opDrop}))))
	add("table.fill", inMemory("", forever(repeat(100, i32(0), []byte{0xd0, 0x70}, i32(16), []byte{prefixMisc, 17, 0}))))
	add("table.copy", inMemory("", forever(repeat(100, i32(0), i32(1), i32(15), []byte{prefixMisc, 14, 0, 0}))))
	add("table.get and table.set", inMemory("", forever(repeat(100, i32(1), i32(0), []byte{0x25, 0, 0x26, 0}))))
	add("large table.fill", func() *assembler {
		m := &assembler{table: []byte{0x70, 0, 0x80, 0x80, 4}}
		m.function("", "", "run", "", forever(code(i32(0), []byte{0xd0, 0x70}, i32(65536), []byte{prefixMisc, 17, 0})))
		return m
	}())
	add("ref.func", inMemory("", forever(repeat(100, []byte{0xd2, 0, 0xd1, opDrop}))))
	add("data.drop", inMemory("", forever(repeat(100, []byte{prefixMisc, 9, 0}))))
	add("loads that miss the caches", pointerChase())
	add("stores all over the memory", inMemory("i", forever(repeat(100,
		op(opLocalGet, 0), i32(1664525), []byte{0x6c}, i32(1013904223), []byte{0x6a}, op(opLocalTee, 0), i32(0xffffff&^63), []byte{0x71}, // a random address
		op(opLocalGet, 0), []byte{0x36, 0, 0}))))
	add("branches that can't be predicted", inMemory("i", forever(repeat(100,
		op(opLocalGet, 0), i32(1664525), []byte{0x6c}, i32(1013904223), []byte{0x6a}, op(opLocalTee, 0), i32(30), []byte{0x76},
		[]byte{opIf, typeNone}, op(opLocalGet, 0), i32(3), []byte{0x6a}, op(opLocalSet, 0), []byte{opEnd}))))
	all = append(all, crime{"joins of many locals", joins(100, 500)}, crime{"joins of few locals", joins(12, 2000)})
	add("values shifted round a loop", shiftingLoop(1000))
	add("values shifted through blocks", shiftingBlocks(60))
	return all
}

// largeFrames calls itself with n vectors waiting on the stack.
func largeFrames(n int) *assembler {
	var body []byte
	for range n {
		body = append(body, code(op(opLocalGet, 0), []byte{prefixVector, 0x11})...)
	}
	body = append(body, code(op(opLocalGet, 0), i32(1), []byte{0x6a}, op(opCall, 0))...)
	body = append(body, op(opLocalSet, 0)...)
	for range n - 1 {
		body = append(body, prefixVector, 0xae, 1) // i32x4.add
	}
	body = append(body, code([]byte{prefixVector, 0x1b, 0}, op(opLocalGet, 0), []byte{0x6a})...)
	m := &assembler{}
	m.function("i", "i", "", "", body)
	m.function("", "", "run", "", code(i32(0), op(opCall, 0), []byte{opDrop}))
	return m
}

// manyResults calls functions of 1,000 parameters and results.
func manyResults() *assembler {
	wide := strings.Repeat("I", 1000)
	m := &assembler{}
	var arguments, drops []byte
	for i := range 1000 {
		arguments = append(arguments, op(opLocalGet, uint32(i))...)
		drops = append(drops, opDrop)
	}
	m.function(wide, wide, "", "", arguments)
	m.function("", "", "run", "", forever(code(zeros(wide), op(opCall, 0), op(opCall, 0), op(opCall, 0), drops)))
	return m
}

// giantTable jumps through a table of n entries.
func giantTable(n int) *assembler {
	table := appendUnsigned([]byte{opBrTable}, uint64(n))
	for i := range n {
		table = append(table, byte(i%4))
	}
	body := code([]byte{opBlock, typeNone, opBlock, typeNone, opBlock, typeNone, opBlock, typeNone}, op(opLocalGet, 0), table, []byte{0},
		[]byte{opEnd, opEnd, opEnd, opEnd},
		op(opLocalGet, 0), i32(7919), []byte{0x6a}, i32(0x3fff), []byte{0x71}, op(opLocalSet, 0))
	m := &assembler{}
	m.function("", "", "run", "i", forever(body))
	return m
}

// pointerChase walks through 16 MiB of memory, in steps that no prefetcher
// follows; earlier calls have written down where each one leads.
func pointerChase() *assembler {
	// The successors of a full-period generator (Knuth, TAOCP 3.2.1.2) over
	// the 2^18 cache lines.
	next := code(op(opLocalGet, 0), i32(166_245), []byte{0x6c}, i32(64*101_3), []byte{0x6a}, i32(16<<20-64), []byte{0x71})
	var chase []byte
	for range 2000 {
		chase = append(chase, opI32Load, 2, 0)
	}
	m := &assembler{memoryEntry: []byte{1, 0x80, 2, 0x80, 2}}
	m.function("", "", "prepare", "i", code(
		[]byte{opLoop, typeNone},
		op(opLocalGet, 0), next, []byte{0x36, 2, 0}, next, op(opLocalTee, 0), op(opBrIf, 0), []byte{opEnd}))
	m.function("", "", "run", "i", forever(code(op(opLocalGet, 0), chase, op(opLocalSet, 0))))
	return m
}

// shiftingLoop is a loop of n parameters, each of which becomes the one
// before it in every turn.
func shiftingLoop(n int) *assembler {
	m := &assembler{}
	wide := strings.Repeat("I", n)
	body := code(zeros(wide), []byte{opLoop}, unsigned(m.typeOf(wide, "")), i64(1), op(opBr, 0), []byte{opEnd})
	m.function("", "", "run", "", body)
	return m
}

// shiftingBlocks nests blocks of 1,000 results, each of which shifts them.
func shiftingBlocks(n int) *assembler {
	m := &assembler{}
	wide := strings.Repeat("I", 1000)
	var body []byte
	block := code([]byte{opBlock}, unsigned(m.typeOf(wide, wide)))
	body = append(body, zeros(wide)...)
	for range n {
		body = append(body, block...)
	}
	for range n {
		body = append(body, code(op(opLocalGet, 0), op(opBrIf, 0), i64(1), op(opBr, 0), []byte{opEnd})...)
	}
	for range 1000 {
		body = append(body, opDrop)
	}
	m.function("", "", "run", "i", forever(body))
	return m
}

// Every crime ends because its fuel does. How long that took is logged and
// not asserted: it says little on a busy machine.
func TestCrimes(t *testing.T) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer runtime.Close(ctx)
	for _, c := range crimes() {
		t.Run(c.name, func(t *testing.T) {
			took := c.stopped(t, runtime)
			late := ""
			if took > mostTime {
				late = ": LATE"
			}
			t.Logf("%s: stopped after %.1f ms%s", c.name, float64(took.Microseconds())/1000, late)
		})
	}
}
