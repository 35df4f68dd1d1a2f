package plugin

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzCheckModule holds the load checks against wazero's own reading: no
// input crashes them, and a module that both accept has the interface that
// the checks saw.
func FuzzCheckModule(f *testing.F) {
	f.Add(goodGuest(`{"fields":{}}`).assemble())
	f.Add(goodGuest(`{}`).importing(importModule, "log", signature{"iii", ""}).assemble())
	f.Add(goodGuest(`{}`).importing(wasiModule, "clock_time_get", signature{"iIi", "i"}).assemble())
	f.Add(append(goodGuest(`{}`).assemble(), 0, 5, 4, 'n', 'a', 'm', 'e'))
	g := goodGuest(`{}`)
	g.table = []byte{0x70, 0x01, 0x01, 0x02}
	f.Add(g.assemble())
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))

	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(defaultMemoryLimit/wasmPage))
	f.Cleanup(func() { _ = runtime.Close(ctx) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if checkModule(wasm, defaultMemoryLimit, &Grants{}) != nil {
			return
		}
		compiled, err := runtime.CompileModule(ctx, wasm)
		if err != nil {
			return // wazero checks more
		}
		defer compiled.Close(ctx)
		exported := compiled.ExportedFunctions()
		for _, rule := range exportRules {
			function, found := exported[rule.name]
			if !found {
				if rule.required {
					t.Errorf("%q is accepted and wazero finds no such function", rule.name)
				}
				continue
			}
			if got := (signature{letters(function.ParamTypes()), letters(function.ResultTypes())}); got != rule.signature {
				t.Errorf("%q is accepted and is %s for wazero", rule.name, got)
			}
		}
		if len(compiled.ExportedMemories()) != 1 || len(compiled.ImportedMemories()) != 0 {
			t.Error("accepted without a memory of its own")
		}
		for _, function := range compiled.ImportedFunctions() {
			module, name, _ := function.Import()
			if module != importModule && module != wasiModule {
				t.Errorf("accepted with the import %s.%s", module, name)
			}
		}
	})
}

func letters(types []api.ValueType) string {
	var all []byte
	for _, t := range types {
		switch t {
		case api.ValueTypeI32:
			all = append(all, 'i')
		case api.ValueTypeI64:
			all = append(all, 'I')
		default:
			all = append(all, '?')
		}
	}
	return string(all)
}

// Each length of a sound module cut off is refused or harmless.
func TestCheckModuleCutOff(t *testing.T) {
	wasm := goodGuest(`{"fields":{}}`).importing(importModule, "log", signature{"iii", ""}).assemble()
	refused := 0
	for n := range wasm {
		if checkModule(wasm[:n], defaultMemoryLimit, &Grants{}) != nil {
			refused++
		}
	}
	// Without its last section, the data, the module is still whole.
	if refused < len(wasm)-1 {
		t.Errorf("%d of %d cuts are refused", refused, len(wasm))
	}
}

// The ABI's table of imports and the functions behind it agree.
func TestImportsAreDefined(t *testing.T) {
	if len(wasiFunctions) != 15 || len(wasiRules) != 15 {
		t.Errorf("%d functions and %d signatures for WASI, want 15", len(wasiFunctions), len(wasiRules))
	}
	for name := range wasiFunctions {
		if _, found := wasiRules[name]; !found {
			t.Errorf("%s has no signature", name)
		}
	}
	for _, rule := range importRules {
		if _, served := abiFunctions[rule.name]; !served {
			t.Errorf("%s has no function behind it", rule.name)
		}
	}
}
