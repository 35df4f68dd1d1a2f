package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadRefuses(t *testing.T) {
	good := func() *guest { return goodGuest(`{}`) }
	memoryImport := guestImport{module: "env", name: "memory", kind: 2, rest: []byte{0x00, 0x01}}
	tableImport := guestImport{module: "env", name: "table", kind: 1, rest: []byte{0x70, 0x00, 0x01}}
	for _, c := range []struct {
		name string
		wasm []byte
		want string // part of the message
	}{
		{"empty file", nil, "not a WebAssembly module"},
		{"another format", []byte("GGUF\x03\x00\x00\x00"), "not a WebAssembly module"},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), "plugins are core modules"},
		{"version", []byte("\x00asm\x02\x00\x00\x00"), "version 1"},
		{"cut off", good().assemble()[:90], "cut off"},
		{"no marker", good().without(exportMarker).assemble(), `does not export the function "wasmeter_abi_v1"`},
		{"no buffer", good().without(exportBuffer).assemble(), `does not export the function "wasmeter_buffer" (i32) -> (i32)`},
		{"no init", good().without(exportInit).assemble(), `does not export the function "wasmeter_init"`},
		{"no memory", func() []byte { g := good(); g.memory, g.data = nil, nil; return g.assemble() }(), `does not export "memory"`},
		{"shape in the mask but not exported", good().without(exportShape).assemble(), `does not export "wasmeter_shape"`},
		{"wrong signature", func() []byte {
			g := good().with(exportShape, opI32(0))
			g.functions[3].signature = signature{"ii", "i"}
			return g.assemble()
		}(), `exports "wasmeter_shape" as (i32, i32) -> (i32); it is (i32) -> (i64)`},
		{"unknown module", good().importing("env", "abort", signature{"iiii", ""}).assemble(), `imports "env"."abort"`},
		{"unknown import", good().importing(importModule, "http_get", signature{"ii", "i"}).assemble(), "the ABI has log, emit"},
		{"import without its grant", good().importing(importModule, "emit", signature{"iii", "i"}).assemble(), "grants.emit"},
		{"import with a wrong signature", good().importing(importModule, "log", signature{"ii", ""}).assemble(), "imports wasmeter_v1.log as (i32, i32) -> (); it is (i32, i32, i32) -> ()"},
		{"file access", good().importing(wasiModule, "path_open", signature{"iiiiiIIii", "i"}).assemble(), "no files"},
		{"memory above the limit", func() []byte { g := good(); g.memory = []byte{0x00, 0x81, 0x02}; return g.assemble() }(), "its limit is 16777216"},
		{"shared memory", func() []byte { g := good(); g.memory = []byte{0x03, 0x01, 0x02}; return g.assemble() }(), "without threads"},
		{"imported memory", func() []byte { g := good(); g.imports = []guestImport{memoryImport}; return g.assemble() }(), `imports the memory "env"."memory"`},
		{"imported table", func() []byte { g := good(); g.imports = []guestImport{tableImport}; return g.assemble() }(), `imports the table "env"."table"`},
		{"huge table", func() []byte { g := good(); g.table = []byte{0x70, 0x00, 0x81, 0x80, 0x04}; return g.assemble() }(), "a table of 65537 entries"},
		{"start function", func() []byte {
			g := good()
			g.functions = append(g.functions, guestFunction{signature: signature{"", ""}})
			g.start = len(g.functions)
			return g.assemble()
		}(), "start function"},
		{"huge function", good().with(exportShape, code(make([]byte, maxFunctionBytes), opI64(0))).assemble(), "function body of"},
		{"invalid code", good().with(exportShape, opI32(0)).assemble(), "compile:"},
		{"section behind the end", func() []byte { g := good(); g.extra = []byte{1, 1, 0}; return g.assemble() }(), "repeated or out of order"},
		{"trap in init", good().with(exportInit, opUnreachable).assemble(), "init: wasm error: unreachable"},
		{"init refuses", good().with(exportInit, opI32(-3)).assemble(), "refused its configuration with -3"},
		{"init gives no buffer", good().with(exportBuffer, opI32(0)).assemble(), "no buffer for 2 bytes"},
		{"buffer out of range", good().with(exportBuffer, opI32(1<<17-1)).assemble(), "8-aligned address inside the memory of 131072 bytes"},
		{"buffer not aligned", good().with(exportBuffer, opI32(1025)).assemble(), "8-aligned address"},
		{"unknown mask bit", good().with(exportInit, opI32(1|1<<20)).assemble(), "not of ABI v1"},
		{"finish in the mask but not exported", good().with(exportInit, opI32(3)).assemble(), `does not export "wasmeter_finish"`},
		{"init never ends", good().with(exportInit, code(opLoopForever, opI32(1))).assemble(), "out of fuel: it used up its 1000000000 units"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			_, err := b.load(t, c.wasm)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `plugin "test": `) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestLoadReportsAllFaults(t *testing.T) {
	g := goodGuest(`{}`).without(exportMarker).without(exportInit).importing("env", "abort", signature{"", ""})
	_, err := newBench(t).load(t, g.assemble())
	for _, want := range []string{exportMarker, exportInit, `"env"."abort"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s too", err, want)
		}
	}
}

func TestLoadRefusesSpec(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"name", func(s *Spec) { s.Name = "Billing!" }, "name:"},
		{"no module", func(s *Spec) { s.Path = "" }, "exactly one of the two"},
		{"two modules", func(s *Spec) { s.Wasm = []byte{0} }, "exactly one of the two"},
		{"no such file", func(s *Spec) { s.Path += ".missing" }, "no such file"},
		{"a folder", func(s *Spec) { s.Path = filepath.Dir(s.Path) }, "is not a file"},
		{"short hash", func(s *Spec) { s.SHA256 = "abc" }, "64 hex digits"},
		{"other hash", func(s *Spec) { s.SHA256 = strings.Repeat("ab", 32) }, "the configuration pins abab"},
		{"config not JSON", func(s *Spec) { s.Config = []byte(`{"a":1,"a":2}`) }, "config:"},
		{"config not an object", func(s *Spec) { s.Config = []byte(`[]`) }, "config:"},
		{"reserved field", func(s *Spec) { s.Grants.Fields = []string{"usage"} }, `"usage" is a member of the API itself`},
		{"every field", func(s *Spec) { s.Grants.Fields = []string{"*"} }, "* alone is no name"},
		{"backslash", func(s *Spec) { s.Grants.Fields = []string{`a\u0062`} }, `'\\'`},
		{"inner star", func(s *Spec) { s.Grants.Fields = []string{"x_*_y"} }, "* only at the end"},
		{"fuel", func(s *Spec) { s.Fuel = -1 }, "fuel: -1 units"},
		{"memory limit", func(s *Spec) { s.MemoryLimit = 100_000 }, "multiple of 64 KiB"},
		{"member of usage", func(s *Spec) { s.Grants.UsageExtend = []string{"prompt_tokens"} }, `grants.usage_extend: "prompt_tokens" is a member of the API itself`},
		{"header without x-", func(s *Spec) { s.Grants.Headers = []string{"set-cookie"} }, `grants.headers: "set-cookie"; use x-`},
		{"header in upper case", func(s *Spec) { s.Grants.Headers = []string{"X-Cost"} }, "grants.headers"},
		{"every header", func(s *Spec) { s.Grants.Headers = []string{"x-*"} }, "grants.headers"},
		{"header of the server", func(s *Spec) { s.Grants.Headers = []string{"x-request-id"} }, "a header of the server's own"},
		{"unknown isolation", func(s *Spec) { s.Isolation = 7 }, "isolation: 7 is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newBench(t).load(t, goodGuest(`{}`).assemble(), c.change)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestLoadPinned(t *testing.T) {
	wasm := goodGuest(`{}`).assemble()
	digest := sha256.Sum256(wasm)
	want := hex.EncodeToString(digest[:])
	p, err := newBench(t).load(t, wasm, func(s *Spec) { s.SHA256 = strings.ToUpper(want) })
	if err != nil {
		t.Fatal(err)
	}
	if p.Hash() != want || p.Name() != "test" {
		t.Errorf("got hash %s and name %s, want %s and test", p.Hash(), p.Name(), want)
	}
}

// The guest answers with the configuration it was given: its buffer is where
// its result is.
func TestConfigReachesGuest(t *testing.T) {
	const config = `{"fields":{"x_test":"configured"}}`
	packed := int64(guestResultAt)<<32 | int64(len(config))
	g := goodGuest("").with(exportShape, opI64(packed))
	// The buffer for frames must not overwrite it: shape's buffer, asked for
	// with a size above 255, lies elsewhere.
	g.with(exportBuffer, code(
		opI32(guestBufferAt), opI32(guestResultAt),
		[]byte{0x20, 0x00}, opI32(255), []byte{0x4a}, // local.get 0, i32.gt_s
		[]byte{0x1b}, // select
	))
	got, err := shape(t, newBench(t).mustLoad(t, g, func(s *Spec) { s.Config = []byte(config) }))
	if want := `"x_test":"configured"`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestLastWordsOfInit(t *testing.T) {
	g := goodGuest("").importing(importModule, "log", signature{"iii", ""})
	g.data = []guestData{{guestResultAt, "price_book is missing"}}
	g.with(exportInit, code(opI32(3), opI32(guestResultAt), opI32(21), opCall(0), opI32(-1)))
	_, err := newBench(t).load(t, g.assemble())
	if err == nil || !strings.Contains(err.Error(), "it said: price_book is missing") {
		t.Errorf("got %v, want the guest's reason", err)
	}
}

func TestCompilationCache(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "cache")
	load := func() error {
		host, err := NewHost(ctx, Options{CacheDir: dir})
		if err != nil {
			return err
		}
		defer host.Close(ctx)
		p, err := host.Load(ctx, Spec{Name: "test", Wasm: goodGuest(`{}`).assemble()})
		if err != nil {
			return err
		}
		return p.Close(ctx)
	}
	for range 2 { // compiled, then read from the cache
		if err := load(); err != nil {
			t.Fatal(err)
		}
	}
	var files int
	if err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
		}
		return err
	}); err != nil || files == 0 {
		t.Errorf("the cache holds %d files, %v", files, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := load(); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a cache that others can read: got %v, want a refusal", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := NewHost(ctx, Options{CacheDir: link}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a linked cache: got %v, want a refusal", err)
	}
}
