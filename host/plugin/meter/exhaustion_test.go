package meter

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// defaultFuel is the budget of a call unless a plugin's configuration says
// otherwise, and mostTime is how long it may take.
const (
	defaultFuel = 5_000_000
	mostTime    = 20 * time.Millisecond
)

// back are instructions that turn a value into one of another type: the keys
// are from and to.
var back = map[string][]byte{
	"iI": {0xad}, "Ii": {0xa7}, "if": {0xb2}, "iF": {0xb7}, "If": {0xb4}, "IF": {0xb9},
	"fi": {0xbc}, "FI": {0xbd}, "fF": {0xbb}, "Ff": {0xb6}, "fI": {0xbc, 0xad}, "Fi": {0xbd, 0xa7},
	"vi": {prefixVector, 0x1b, 0}, "vI": {prefixVector, 0x1d, 0}, "vf": {prefixVector, 0x1f, 0}, "vF": {prefixVector, 0x21, 0},
	"iv": {prefixVector, 0x11}, "Iv": {prefixVector, 0x12}, "fv": {prefixVector, 0x13}, "Fv": {prefixVector, 0x14},
}

// chain repeats an instruction so that each needs the result of the one
// before it, the slowest that it can be for its fuel.
func (i instruction) chain() []byte {
	const repeats = 300
	var body []byte
	first := rune(i.params[0])
	if i.accessesMemory() {
		body = append(body, op(opLocalGet, 10)...) // an address, 0 at first
	} else {
		body = append(body, op(opLocalGet, firstOperands[first])...)
	}
	for range repeats {
		for _, operand := range i.params[1:] {
			body = append(body, op(opLocalGet, i.operand(operand))...)
		}
		body = i.encode(body, zero)
		switch {
		case i.results == "":
			if i.accessesMemory() {
				body = append(body, op(opLocalGet, 10)...) // an address, 0 at first
			} else {
				body = append(body, op(opLocalGet, firstOperands[first])...)
			}
		case i.results != i.params[:1]:
			conversion, known := back[i.results+i.params[:1]]
			if !known {
				panic(i.results + i.params[:1])
			}
			body = append(body, conversion...)
		}
	}
	if i.accessesMemory() {
		return append(body, op(opLocalSet, 10)...)
	}
	return append(body, op(opLocalSet, firstOperands[first])...)
}

// The locals of chain, by type: one for the first operand, one for the others.
var (
	firstOperands = map[rune]uint32{'i': 0, 'I': 1, 'f': 2, 'F': 3, 'v': 4}
	nextOperands  = map[rune]uint32{'i': 5, 'I': 6, 'f': 2, 'F': 3, 'v': 4}
)

// operand gives the local of a further operand. A remainder keeps its first
// operand if that is the smaller, a quotient if the divisor is 1.
func (i instruction) operand(letter rune) uint32 {
	switch {
	case i.prefix == 0 && (i.number == 0x6f || i.number == 0x70):
		return 7
	case i.prefix == 0 && (i.number == 0x81 || i.number == 0x82):
		return 8
	case i.prefix == prefixVector && i.lanes > 0 && letter == 'v':
		return 9 // the address of the next load
	}
	return nextOperands[letter]
}

const operandLocals = "iIfFviIiIvi"

// operands gives them values that no instruction traps on.
var operands = code(
	i32(0x12345678), op(opLocalSet, 0), i64(0x123456789abcdef), op(opLocalSet, 1),
	[]byte{0x43, 0, 0, 0xc0, 0x3f}, op(opLocalSet, 2), // 1.5
	[]byte{0x44, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, op(opLocalSet, 3), // 1.5
	i32(0x01020304), []byte{prefixVector, 0x11}, op(opLocalSet, 4),
	i32(1), op(opLocalSet, 5), i64(1), op(opLocalSet, 6),
	i32(0x7fffffff), op(opLocalSet, 7), i64(0x7fffffffffffffff), op(opLocalSet, 8))

func forever(body []byte) []byte { return code([]byte{opLoop, 0x40}, body, op(opBr, 0), []byte{opEnd}) }

// crime is a module that never ends by itself.
type crime struct {
	name   string
	module []byte
}

func (i instruction) accessesMemory() bool { return strings.Contains(i.opcode().operands, "m") }

func (i instruction) crime() crime {
	m := &assembler{memory: true}
	m.function("", "", "run", operandLocals, code(operands, forever(i.chain())))
	return crime{i.String() + " " + i.params + ">" + i.results, m.bytes()}
}

// stopped runs a module until its fuel is used up and gives the time that
// took.
func (c crime) stopped(t testing.TB, runtime wazero.Runtime) time.Duration {
	t.Helper()
	ctx := context.Background()
	metered, err := Rewrite(c.module)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	compiled, err := runtime.CompileModule(ctx, metered)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	defer compiled.Close(ctx)
	least := time.Hour
	for range 3 {
		m, err := runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fuel := m.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
		if prepare := m.ExportedFunction("prepare"); prepare != nil { // in calls before
			fuel.Set(1 << 40)
			if _, err := prepare.Call(ctx); err != nil {
				t.Fatalf("%s: prepare: %v", c.name, err)
			}
		}
		fuel.Set(defaultFuel)
		run := m.ExportedFunction("run")
		began := time.Now()
		_, err = run.Call(ctx)
		least = min(least, time.Since(began))
		if left := int64(fuel.Get()); err == nil || left >= 0 {
			t.Errorf("%s: got %v with %d units of fuel left; want it to run out", c.name, err, left)
		}
		m.Close(ctx)
	}
	return least
}

// BenchmarkOpcodes runs every instruction in a loop of its own until the
// default budget is used up and reports the slowest. It is where the costs
// in the tables come from.
func BenchmarkOpcodes(b *testing.B) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer runtime.Close(ctx)
	type timed struct {
		name string
		took time.Duration
	}
	var all []timed
	for range b.N {
		all = all[:0]
		for _, i := range instructions() {
			c := i.crime()
			all = append(all, timed{c.name, c.stopped(b, runtime)})
		}
	}
	slices.SortFunc(all, func(x, y timed) int { return int(y.took - x.took) })
	var table bytes.Buffer
	for _, t := range all[:120] {
		fmt.Fprintf(&table, "\n%8.1f ms  %s", float64(t.took.Microseconds())/1000, t.name)
	}
	b.Log(table.String())
	b.ReportMetric(float64(all[0].took.Microseconds())/1000, "worst-ms")
}
