package meter

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// outcome is all that can be seen of a run.
type outcome struct {
	results []uint64
	trap    string
	memory  []byte
	globals []uint64
	used    int64 // fuel
}

// outcomeOf runs a generated module. fuel is -1 for one that is not metered.
func outcomeOf(t *testing.T, runtime wazero.Runtime, module []byte, fuel int64) outcome {
	t.Helper()
	ctx := context.Background()
	m, err := runtime.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatalf("the generated module is not valid: %v", err)
	}
	defer m.Close(ctx)
	var o outcome
	if fuel >= 0 {
		m.ExportedGlobal(FuelGlobal).(api.MutableGlobal).Set(uint64(fuel))
	}
	o.results, err = m.ExportedFunction("run").Call(ctx)
	if err != nil {
		o.trap, _, _ = strings.Cut(err.Error(), "\n")
	}
	if fuel >= 0 {
		o.used = fuel - int64(m.ExportedGlobal(FuelGlobal).Get())
	}
	view, _ := m.Memory().Read(0, m.Memory().Size())
	o.memory = bytes.Clone(view)
	for i := range len(generatedGlobal) - 1 { // a vector can't be read
		o.globals = append(o.globals, m.ExportedGlobal(fmt.Sprintf("g%d", i)).Get())
	}
	return o
}

func (o outcome) differs(other outcome) string {
	switch {
	case o.trap != other.trap:
		return fmt.Sprintf("trap %q and %q", o.trap, other.trap)
	case !slices.Equal(o.results, other.results):
		return fmt.Sprintf("results %x and %x", o.results, other.results)
	case !slices.Equal(o.globals, other.globals):
		return fmt.Sprintf("globals %x and %x", o.globals, other.globals)
	case !bytes.Equal(o.memory, other.memory):
		return "memories"
	}
	return ""
}

// exactly is the slow twin of Rewrite: it charges for every instruction just
// before it runs, and for nothing else.
func exactly(t *testing.T, module []byte) []byte {
	t.Helper()
	w := &rewriter{out: []byte(wasm.Header)}
	err := wasm.Sections(module, func(id byte, r *wasm.Reader) {
		if id != wasm.SectionCode {
			w.section(id, r)
			return
		}
		first := *r
		section := unsigned(first.U32())
		r.Each(1, func() {
			body := r.Sub(r.U32())
			source, signature := *body, w.functions[w.numBodies]
			w.numBodies++
			w.readLocals(body, signature)
			instructions := *body
			w.scan(body, signature)
			w.body.charges, w.body.regions = nil, nil
			for instructions.More() {
				at := instructions.Offset()
				op := w.readOpcode(&instructions)
				w.readOperands(&instructions, op)
				w.body.charges = append(w.body.charges, charge{at: at, region: len(w.body.regions)})
				w.body.regions = append(w.body.regions, region{cost: op.cost})
				if op.size != nil {
					w.body.charges = append(w.body.charges, charge{at: at, size: op.size})
				}
			}
			section = append(section, sized(w.write(nil, &source))...)
		})
		w.writeSection(id, section)
	})
	w.addBefore(endOfModule)
	if err != nil {
		t.Fatal(err)
	}
	return w.out
}

// twins are the engines that the comparison needs.
type twins struct{ compiler, interpreter wazero.Runtime }

func newTwins(t testing.TB) twins {
	ctx := context.Background()
	e := twins{
		wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler()),
		wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter()),
	}
	t.Cleanup(func() { _ = e.compiler.Close(ctx); _ = e.interpreter.Close(ctx) })
	return e
}

// compare holds a generated module against its metered form: it does the
// same, and is charged at least what each of its instructions costs.
func (e twins) compare(t *testing.T, seed uint64) outcome {
	module := newGenerator(seed).module()
	metered, err := Rewrite(module)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	const fuel = 3_000_000
	got := outcomeOf(t, e.compiler, metered, fuel)
	if got.used > fuel {
		return got // endless or as good as that: the plain module can't be run
	}
	if difference := outcomeOf(t, e.compiler, module, -1).differs(got); difference != "" {
		t.Errorf("seed %d: plain and metered have different %s", seed, difference)
	}
	exact := outcomeOf(t, e.interpreter, exactly(t, module), fuel)
	if exact.used+costEntry > got.used {
		t.Errorf("seed %d: %d units are charged and %d are due", seed, got.used, exact.used+costEntry)
	}
	if again := outcomeOf(t, e.interpreter, metered, fuel); again.used != got.used {
		t.Errorf("seed %d: %d units on the compiler and %d on the interpreter", seed, got.used, again.used)
	}
	return got
}

func TestMeteredIsTheSame(t *testing.T) {
	engines := newTwins(t)
	const count = 60
	traps, unending := 0, 0
	for seed := range uint64(count) {
		got := engines.compare(t, seed)
		if strings.Contains(got.trap, "unreachable") {
			unending++
		} else if got.trap != "" {
			traps++
		}
	}
	t.Logf("%d modules: %d trap, %d use too much", count, traps, unending)
	if traps > count/3 || unending > count/5 {
		t.Errorf("of %d modules %d trap and %d do not end; the generator is of no use", count, traps, unending)
	}
}

// FuzzMeteredIsTheSame looks for a module that metering changes.
func FuzzMeteredIsTheSame(f *testing.F) {
	engines := newTwins(f)
	f.Add(uint64(1000))
	f.Fuzz(func(t *testing.T, seed uint64) { engines.compare(t, seed) })
}
