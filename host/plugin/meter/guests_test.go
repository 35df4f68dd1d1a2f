package meter

import (
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// realGuests are plugins as people build them: the default one, the examples
// that are kept built, and what a Go compiler at hand makes of its example.
func realGuests(t testing.TB) map[string][]byte {
	t.Helper()
	guests := map[string][]byte{}
	metrics, err := os.ReadFile("../../../plugins/metrics/metrics.wasm")
	if err != nil {
		t.Skip(err)
	}
	guests["metrics"] = metrics
	built, err := filepath.Glob("../../../examples/plugins/*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range built {
		if guests[filepath.Base(filepath.Dir(path))], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	const source = "../../../examples/plugins/billing"
	if goTool, err := exec.LookPath("go"); err == nil {
		out := filepath.Join(t.TempDir(), "billing.wasm")
		build := exec.Command(goTool, "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
		build.Dir = source
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build billing: %v\n%s", err, said)
		}
		if guests["billing"], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	return guests
}

// realGuest is one of them, initialised, with the frame of ABI.md in its
// buffer.
type realGuest struct {
	module api.Module
	fuel   api.MutableGlobal // nil for one that is not metered
	shape  api.Function
	buffer api.Function
	frame  []byte
	stack  [1]uint64
}

func newRealGuest(t testing.TB, engine wazero.RuntimeConfig, wasm []byte) *realGuest {
	t.Helper()
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, engine)
	t.Cleanup(func() { _ = runtime.Close(ctx) })
	compiled, err := runtime.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]wazero.HostModuleBuilder{}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if imports[module] == nil {
			imports[module] = runtime.NewHostModuleBuilder(module)
		}
		results := len(f.ResultTypes())
		ticks := uint64(0)
		imports[module].NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, guest api.Module, stack []uint64) {
			if name == "clock_time_get" { // a Go runtime refuses the time 0
				ticks++
				guest.Memory().WriteUint64Le(uint32(stack[2]), ticks)
			}
			if results > 0 {
				stack[0] = 0
			}
		}), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, builder := range imports {
		if _, err := builder.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	g := &realGuest{}
	if g.module, err = runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions()); err != nil {
		t.Fatal(err)
	}
	g.fuel, _ = g.module.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	g.buffer, g.shape = g.module.ExportedFunction("wasmeter_buffer"), g.module.ExportedFunction("wasmeter_shape")
	text, err := os.ReadFile("../testdata/frame.hex")
	if err != nil {
		t.Fatal(err)
	}
	if g.frame, err = hex.DecodeString(strings.Join(strings.Fields(string(text)), "")); err != nil {
		t.Fatal(err)
	}
	return g
}

// start runs init and gives the fuel used.
func (g *realGuest) start(t testing.TB, name string) int64 {
	ctx := context.Background()
	config := "{}"
	if strings.HasPrefix(name, "billing") {
		config = `{"input":2500000,"output":10000000}`
	}
	const budget = 1 << 50
	if g.fuel != nil {
		g.fuel.Set(budget)
	}
	if f := g.module.ExportedFunction("_initialize"); f != nil {
		if _, err := f.Call(ctx); err != nil {
			t.Fatal(err)
		}
	}
	at, err := g.buffer.Call(ctx, uint64(len(config)))
	if err != nil {
		t.Fatal(err)
	}
	g.module.Memory().Write(uint32(at[0]), []byte(config))
	if mask, err := g.module.ExportedFunction("wasmeter_init").Call(ctx, uint64(len(config))); err != nil || int32(mask[0]) < 0 {
		t.Fatalf("%s: init gives %v, %v", name, mask, err)
	}
	if g.fuel == nil {
		return 0
	}
	return budget - int64(g.fuel.Get())
}

// call shapes the frame and gives the result and the fuel used.
func (g *realGuest) call(t testing.TB) (result []byte, used int64) {
	ctx := context.Background()
	if g.fuel != nil {
		g.fuel.Set(defaultFuel)
	}
	g.stack[0] = uint64(len(g.frame))
	if err := g.buffer.CallWithStack(ctx, g.stack[:]); err != nil {
		t.Fatal(err)
	}
	g.module.Memory().Write(uint32(g.stack[0]), g.frame)
	g.stack[0] = uint64(len(g.frame))
	if err := g.shape.CallWithStack(ctx, g.stack[:]); err != nil {
		t.Fatal(err)
	}
	result, _ = g.module.Memory().Read(uint32(g.stack[0]>>32), uint32(g.stack[0]))
	if g.fuel != nil {
		used = defaultFuel - int64(g.fuel.Get())
	}
	return result, used
}

// Metering changes no answer of a real guest.
func TestRealGuests(t *testing.T) {
	for name, wasm := range realGuests(t) {
		t.Run(name, func(t *testing.T) {
			metered, err := Rewrite(wasm)
			if err != nil {
				t.Fatal(err)
			}
			engine := wazero.NewRuntimeConfigInterpreter() // it starts sooner
			plain, counted := newRealGuest(t, engine, wasm), newRealGuest(t, engine, metered)
			plain.start(t, name)
			init := counted.start(t, name)
			for range 3 {
				want, _ := plain.call(t)
				got, used := counted.call(t)
				if string(got) != string(want) {
					t.Errorf("the metered guest answers %q, the plain one %q", got, want)
				}
				if len(want) == 0 {
					t.Error("it answers nothing")
				}
				if used < 100 || used > defaultFuel/2 {
					t.Errorf("a call used %d units, far from what is usual", used)
				}
				t.Logf("init uses %d units, a call %d; %d bytes become %d", init, used, len(wasm), len(metered))
			}
		})
	}
}

// BenchmarkRealGuests is what metering costs where it matters. Plain and
// metered calls take turns and the best stretch of each counts, since other
// work on the machine disturbs one stretch and not the next.
func BenchmarkRealGuests(b *testing.B) {
	const stretch = 100 // calls
	for name, wasm := range realGuests(b) {
		b.Run(name, func(b *testing.B) {
			metered, err := Rewrite(wasm)
			if err != nil {
				b.Fatal(err)
			}
			var forms [2]*realGuest
			for i, module := range [][]byte{wasm, metered} {
				forms[i] = newRealGuest(b, wazero.NewRuntimeConfigCompiler(), module)
				forms[i].start(b, name)
				forms[i].call(b)
			}
			best, used := [2]time.Duration{time.Hour, time.Hour}, int64(0)
			b.ReportAllocs()
			for b.Loop() {
				for i, g := range forms {
					began := time.Now()
					for range stretch {
						_, used = g.call(b)
					}
					best[i] = min(best[i], time.Since(began)/stretch)
				}
			}
			b.ReportMetric(float64(best[0]), "plain-ns")
			b.ReportMetric(float64(best[1]), "metered-ns")
			b.ReportMetric(100*(float64(best[1])/float64(best[0])-1), "overhead-%")
			b.ReportMetric(float64(used), "fuel")
		})
	}
}
