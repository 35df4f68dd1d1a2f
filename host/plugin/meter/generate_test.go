package meter

import (
	"math/rand/v2"
	"slices"
)

// generator makes random valid modules that use every instruction and end by
// themselves, mostly: loops count down, and a function calls only those
// behind it. Their results do not depend on the bits of a NaN, which the
// specification leaves open: each is replaced by zero where it could arise.
type generator struct {
	*rand.Rand
	instructions map[string][]instruction // by result
	signatures   [][2]string

	m        *assembler
	function int
	locals   string // of the function, parameters included
	reserved []bool // counters of loops and places for NaNs
	body     []byte
	labels   []bool // from the outermost; whether a plain branch may go there
	left     int    // instructions until the function must end
}

const (
	generatedTypes  = "iIfFv"
	generatedTable  = 8
	generatedGlobal = "iIfFv"
)

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), instructions: map[string][]instruction{}}
	for _, i := range instructions() {
		g.instructions[i.results] = append(g.instructions[i.results], i)
	}
	return g
}

func (g *generator) module() []byte {
	g.m = &assembler{memory: true, table: []byte{0x70, 0, generatedTable}}
	for _, t := range generatedGlobal {
		g.m.globals = append(g.m.globals, code([]byte{valueType(t), 1}, zeros(string(t)), []byte{opEnd}))
	}
	g.m.datas = [][]byte{
		code([]byte{1}, text("passive data segment")),
		code([]byte{0}, i32(100), []byte{opEnd}, text("some bytes to begin with")),
	}
	n := 2 + g.IntN(5)
	g.signatures = [][2]string{{"", g.types(3)}}
	for len(g.signatures) < n {
		g.signatures = append(g.signatures, [2]string{g.types(4), g.types(2)})
	}
	for i := range generatedTable - 2 {
		g.m.tableOf = append(g.m.tableOf, uint32(i%n))
	}
	for f, s := range g.signatures {
		export := ""
		if f == 0 {
			export = "run"
		}
		body, locals := g.functionBody(f)
		g.m.function(s[0], s[1], export, locals, body)
	}
	return g.m.bytes()
}

func (g *generator) types(most int) string {
	var letters []byte
	for range g.IntN(most + 1) {
		letters = append(letters, g.letter())
	}
	return string(letters)
}

func (g *generator) letter() byte { return generatedTypes[g.IntN(len(generatedTypes))] }

func (g *generator) functionBody(f int) (body []byte, locals string) {
	g.function, g.body, g.labels, g.left = f, nil, []bool{false}, 150
	params := g.signatures[f][0]
	g.locals, g.reserved = params, make([]bool, len(params))
	for _, t := range generatedTypes {
		g.local(t, false)
		g.local(t, false)
	}
	for range 1 + g.IntN(8) {
		g.statement(3)
	}
	for _, t := range g.signatures[f][1] {
		g.value(byte(t), 3)
	}
	return g.body, g.locals[len(params):]
}

// local adds a local and gives its index.
func (g *generator) local(t rune, reserved bool) uint32 {
	g.locals += string(t)
	g.reserved = append(g.reserved, reserved)
	return uint32(len(g.locals) - 1)
}

func (g *generator) write(parts ...[]byte) {
	for _, part := range parts {
		g.body = append(g.body, part...)
	}
	g.left--
}

// anyLocal gives a local of a type that statements may set.
func (g *generator) anyLocal(t byte) uint32 {
	for {
		if i := g.IntN(len(g.locals)); g.locals[i] == t && !g.reserved[i] {
			return uint32(i)
		}
	}
}

func globalOf(t byte) uint32 { return uint32(slices.Index([]byte(generatedGlobal), t)) }

// constant writes a number, a special one every second time.
func (g *generator) constant(t byte) {
	switch t {
	case 'i':
		g.write(i32(g.pickInt32()))
	case 'I':
		v := int64(g.Uint64())
		if g.IntN(2) == 0 {
			v = int64(g.pickInt32())
		}
		g.write(i64(v))
	case 'f':
		special := []string{"\x00\x00\x00\x00", "\x00\x00\x80\x3f", "\x00\x00\x80\x7f", "\x00\x00\xc0\x7f", "\x00\x00\x28\xc2"}
		g.write([]byte{0x43}, []byte(special[g.IntN(len(special))]))
	case 'F':
		special := []string{"\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\xf0\x3f", "\x00\x00\x00\x00\x00\x00\xf0\x7f", "\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x00\x00\x00\x00\x00\x00\x45\xc0"}
		g.write([]byte{0x44}, []byte(special[g.IntN(len(special))]))
	case 'v':
		g.write([]byte{prefixVector, 0x0c})
		for range 16 {
			g.body = append(g.body, byte(g.IntN(256)))
		}
	}
}

func (g *generator) pickInt32() int32 {
	if g.IntN(2) == 0 {
		return []int32{0, 1, -1, 2, 31, 64, 1 << 10, 65535, 65536, -1 << 31, 1<<31 - 1}[g.IntN(11)]
	}
	return int32(g.IntN(2000))
}

// value writes code that pushes a value of a type.
func (g *generator) value(t byte, depth int) {
	if depth == 0 || g.left < 0 {
		switch g.IntN(3) {
		case 0:
			g.constant(t)
		case 1:
			g.write(op(opGlobalGet, globalOf(t)))
		default:
			g.write(op(opLocalGet, g.anyLocal(t)))
		}
		return
	}
	switch g.IntN(12) {
	case 0:
		g.constant(t)
	case 1: // if
		g.value('i', depth-1)
		g.write([]byte{opIf, valueType(rune(t))})
		g.labels = append(g.labels, false)
		g.value(t, depth-1)
		g.write([]byte{opElse})
		g.value(t, depth-1)
		g.end()
	case 2: // a block that may be left with the value
		g.write([]byte{opBlock, valueType(rune(t))})
		g.labels = append(g.labels, false)
		g.value(t, depth-1)
		g.value('i', depth-1)
		g.write(op(opBrIf, 0))
		g.end()
	case 3:
		g.value(t, depth-1)
		g.value(t, depth-1)
		g.value('i', depth-1)
		if g.IntN(2) == 0 {
			g.write([]byte{opSelect})
		} else {
			g.write([]byte{0x1c, 1, valueType(rune(t))})
		}
	case 4:
		g.value(t, depth-1)
		g.write(op(opLocalTee, g.anyLocal(t)))
	case 5:
		g.special(t, depth)
	case 6:
		g.callFor(t, depth)
	default:
		of := g.instructions[string(t)]
		i := of[g.IntN(len(of))]
		for i.mayTrap() && g.IntN(5) > 0 { // a run that goes on shows more
			i = of[g.IntN(len(of))]
		}
		g.instruction(i, depth)
	}
}

// special writes what is left of the instructions with a value.
func (g *generator) special(t byte, depth int) {
	if t != 'i' {
		g.constant(t)
		return
	}
	switch g.IntN(6) {
	case 0:
		g.write([]byte{0x3f, 0}) // memory.size
	case 1:
		g.write(i32(int32(g.IntN(3))), []byte{0x40, 0}) // memory.grow
	case 2:
		g.write([]byte{prefixMisc, 16, 0}) // table.size
	case 3:
		g.write([]byte{0xd2}, unsigned(uint32(g.IntN(len(g.signatures)))), i32(int32(g.IntN(3))), []byte{prefixMisc, 15, 0}) // ref.func, table.grow
	case 4:
		g.address(generatedTable)
		g.write([]byte{0x25, 0, 0xd1}) // table.get, ref.is_null
	case 5:
		g.loopWithParameter(depth)
	}
}

// loopWithParameter adds up three rounds on the stack.
func (g *generator) loopWithParameter(depth int) {
	counter := g.local('i', true)
	g.write(i32(3), op(opLocalSet, counter))
	g.value('i', depth-1)
	g.write([]byte{opLoop}, unsigned(g.m.typeOf("i", "i")))
	g.labels = append(g.labels, false)
	g.value('i', depth-1)
	g.write([]byte{0x6a})
	g.write(op(opLocalGet, counter), i32(1), []byte{opI32Sub}, op(opLocalTee, counter), op(opBrIf, 0))
	g.end()
}

// callFor calls a function behind this one that has the result, if there is
// one.
func (g *generator) callFor(t byte, depth int) {
	for f := g.function + 1; f < len(g.signatures); f++ {
		if g.signatures[f][1] == string(t) {
			g.arguments(f, depth)
			g.write(op(opCall, uint32(f)))
			return
		}
	}
	g.constant(t)
}

func (g *generator) arguments(f, depth int) {
	for _, t := range g.signatures[f][0] {
		g.value(byte(t), depth-1)
	}
}

// instruction writes one with its operands. An address lies near the middle
// of the first page, mostly.
func (g *generator) instruction(i instruction, depth int) {
	for n, t := range i.params {
		if n == 0 && i.accessesMemory() {
			g.address(60_000)
		} else {
			g.value(byte(t), depth-1)
		}
	}
	g.write(i.encode(nil, func(n int) byte { return byte(g.IntN(n)) }))
	g.replaceNaN(i)
}

// mayTrap is true of divisions and of the truncations of old.
func (i instruction) mayTrap() bool {
	n := i.number
	return i.prefix == 0 && (0x6d <= n && n <= 0x70 || 0x7f <= n && n <= 0x82 || 0xa8 <= n && n <= 0xab || 0xae <= n && n <= 0xb1)
}

func (g *generator) address(below int) {
	if g.IntN(300) == 0 {
		g.value('i', 1) // likely outside
		return
	}
	g.write(i32(int32(g.IntN(below))))
}

// replaceNaN follows an instruction whose result may be a NaN of any bits.
func (g *generator) replaceNaN(i instruction) {
	scalar := func(t rune, zero []byte, equal byte) {
		at := g.local(t, true)
		g.write(op(opLocalTee, at), zero, op(opLocalGet, at), op(opLocalGet, at), []byte{equal, opSelect})
	}
	vector := func(equal byte) {
		at := g.local('v', true)
		g.write(op(opLocalTee, at), op(opLocalGet, at), op(opLocalGet, at), []byte{prefixVector, equal, prefixVector, 0x4e})
	}
	n := i.number
	in := func(first, last uint32) bool { return first <= n && n <= last }
	switch {
	case i.prefix == 0 && (in(0x8d, 0x97) || n == 0xb6):
		scalar('f', zeros("f"), 0x5b)
	case i.prefix == 0 && (in(0x9b, 0xa5) || n == 0xbb):
		scalar('F', zeros("F"), 0x61)
	case i.prefix == prefixVector && (in(0x67, 0x6a) || in(0xe3, 0xeb) || n == 0x5e):
		vector(0x41)
	case i.prefix == prefixVector && (in(0x74, 0x75) || n == 0x7a || n == 0x94 || in(0xef, 0xf7) || n == 0x5f):
		vector(0x47)
	}
}

func (g *generator) end() {
	g.labels = g.labels[:len(g.labels)-1]
	g.write([]byte{opEnd})
}

// statement writes code that leaves the stack as it was.
func (g *generator) statement(depth int) {
	t := g.letter()
	switch g.IntN(16) {
	case 0, 1:
		g.value(t, depth)
		g.write(op(opGlobalSet, globalOf(t)))
	case 2, 3:
		g.value(t, depth)
		g.write(op(opLocalSet, g.anyLocal(t)))
	case 4, 5, 6:
		stores := g.instructions[""]
		g.instruction(stores[g.IntN(len(stores))], depth)
	case 7:
		g.bulk()
	case 8:
		g.tables()
	case 9:
		g.call(depth)
	default:
		if depth > 0 && g.left > 0 {
			g.control(depth)
		}
	}
}

// control writes a statement with statements in it.
func (g *generator) control(depth int) {
	inside := func(branches bool) {
		g.labels = append(g.labels, branches)
		for range 1 + g.IntN(4) {
			g.statement(depth - 1)
			g.branch()
		}
	}
	switch g.IntN(4) {
	case 0:
		g.write([]byte{opBlock, typeNone})
		inside(true)
	case 1:
		g.value('i', depth-1)
		g.write([]byte{opIf, typeNone})
		inside(true)
		if g.IntN(2) == 0 {
			g.write([]byte{opElse})
			g.statement(depth - 1)
		}
	case 2:
		counter := g.local('i', true)
		g.write(i32(int32(1+g.IntN(6))), op(opLocalSet, counter), []byte{opLoop, typeNone})
		inside(false)
		g.write(op(opLocalGet, counter), i32(1), []byte{opI32Sub}, op(opLocalTee, counter), op(opBrIf, 0))
	case 3:
		for range 3 {
			g.write([]byte{opBlock, typeNone})
			g.labels = append(g.labels, true)
		}
		g.value('i', depth-1)
		g.write([]byte{opBrTable, 2, 0, 2, 1})
		for range 2 {
			g.end()
			g.statement(depth - 1)
		}
	}
	g.end()
}

// branch leaves a block around, sometimes.
func (g *generator) branch() {
	label := g.IntN(len(g.labels))
	if !g.labels[len(g.labels)-1-label] || g.IntN(3) > 0 {
		return
	}
	if g.IntN(4) == 0 {
		g.write(op(opBr, uint32(label))) // what follows is dead code
		return
	}
	g.value('i', 1)
	g.write(op(opBrIf, uint32(label)))
}

func (g *generator) bulk() {
	sizes := func() { g.address(2000); g.address(20); g.write(i32(int32(g.IntN(20)))) }
	sizes()
	switch g.IntN(4) {
	case 0:
		g.write([]byte{prefixMisc, 8, 0, 0}) // memory.init
		if g.IntN(4) == 0 {
			g.write([]byte{prefixMisc, 9, 0}) // data.drop
		}
	case 1:
		g.write([]byte{prefixMisc, 11, 0}) // memory.fill
	default:
		g.write([]byte{prefixMisc, 10, 0, 0}) // memory.copy
	}
}

func (g *generator) tables() {
	switch g.IntN(3) {
	case 0:
		g.address(generatedTable)
		g.write([]byte{0xd2}, unsigned(uint32(g.IntN(len(g.signatures)))), []byte{0x26, 0}) // ref.func, table.set
	case 1:
		g.address(5)
		g.address(5)
		g.write(i32(int32(g.IntN(4))), []byte{prefixMisc, 14, 0, 0}) // table.copy
	case 2:
		g.address(5)
		g.write([]byte{0xd0, 0x70}, i32(int32(g.IntN(2))), []byte{prefixMisc, 17, 0}) // ref.null, table.fill
	}
}

// call calls a function behind this one, or through the table any function
// of its type, which may be this one again.
func (g *generator) call(depth int) {
	if g.function+1 == len(g.signatures) {
		return
	}
	f := g.function + 1 + g.IntN(len(g.signatures)-g.function-1)
	g.arguments(f, depth)
	if g.IntN(3) > 0 {
		g.write(op(opCall, uint32(f)))
	} else {
		s := g.signatures[f]
		g.write(i32(int32(f)))
		g.write(op(opCallIndirect, g.m.typeOf(s[0], s[1])), []byte{0})
	}
	for range g.signatures[f][1] {
		g.write([]byte{opDrop})
	}
}
