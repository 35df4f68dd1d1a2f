package plugin

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// guest assembles small modules for the tests: sections in the order of the
// WebAssembly specification, chapter 5.5.
type guest struct {
	imports   []guestImport
	functions []guestFunction
	memory    []byte // entry of the memory section; nil for none
	table     []byte // entry of the table section; nil for none
	start     int    // function index + 1; 0 for no start section
	data      []guestData
	extra     []byte // bytes behind the last section
}

type guestImport struct {
	module, name string
	kind         byte
	signature    signature // of a function
	rest         []byte    // description of another kind
}

type guestFunction struct {
	export    string // empty: not exported
	signature signature
	body      []byte // instructions without the final end
}

type guestData struct {
	at   int32
	text string
}

// Addresses in the guests' memory.
const (
	guestBufferAt = 1024
	guestResultAt = 1 << 16
)

// Instructions, chapter 5.4.
var (
	opUnreachable = []byte{0x00}
	opDrop        = []byte{0x1a}
	opLoopForever = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b} // loop br 0 end
)

func opI32(v int32) []byte   { return appendSigned([]byte{0x41}, int64(v)) }
func opI64(v int64) []byte   { return appendSigned([]byte{0x42}, v) }
func opCall(i uint32) []byte { return appendUnsigned([]byte{0x10}, uint64(i)) }
func opGrow() []byte         { return []byte{0x40, 0x00} } // memory.grow
func code(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// goodGuest answers every shape call with result.
func goodGuest(result string) *guest {
	packed := int64(guestResultAt)<<32 | int64(len(result))
	if result == "" {
		packed = 0
	}
	return &guest{
		memory: []byte{0x00, 0x02},
		functions: []guestFunction{
			{exportMarker, signature{"", "i"}, opI32(0)},
			{exportBuffer, signature{"i", "i"}, opI32(guestBufferAt)},
			{exportInit, signature{"i", "i"}, opI32(int32(maskShape))},
			{exportShape, signature{"i", "I"}, opI64(packed)},
		},
		data: []guestData{{guestResultAt, result}},
	}
}

// hookGuest has one hook beside shape, which answers result, or for finish
// returns its length.
func hookGuest(hook Hook, result string) *guest {
	g := goodGuest("").with(exportInit, opI32(int32(hook.bit())))
	packed := int64(guestResultAt)<<32 | int64(len(result))
	if result == "" {
		packed = 0
	}
	g.data = []guestData{{guestResultAt, result}}
	switch hook {
	case HookShape:
		return g.with(exportShape, opI64(packed))
	case HookFinish:
		g.functions = append(g.functions, guestFunction{exportFinish, exportRule(exportFinish), opI32(int32(len(result)))})
	default:
		g.functions = append(g.functions, guestFunction{hook.export(), exportRule(hook.export()), opI64(packed)})
	}
	return g
}

func exportRule(name string) signature {
	for _, rule := range exportRules {
		if rule.name == name {
			return rule.signature
		}
	}
	panic("no export " + name)
}

// with replaces the body of an exported function.
func (g *guest) with(export string, body []byte) *guest {
	for i := range g.functions {
		if g.functions[i].export == export {
			g.functions[i].body = body
			return g
		}
	}
	panic("guest has no function " + export)
}

// without removes an exported function.
func (g *guest) without(export string) *guest {
	for i := range g.functions {
		if g.functions[i].export == export {
			g.functions = append(g.functions[:i], g.functions[i+1:]...)
			return g
		}
	}
	panic("guest has no function " + export)
}

// importing adds an imported function; call it before functions refer to
// each other by index, since imports come first.
func (g *guest) importing(module, name string, s signature) *guest {
	g.imports = append(g.imports, guestImport{module: module, name: name, signature: s})
	return g
}

func (g *guest) assemble() []byte {
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	var types, imports, functions, exports, codes [][]byte
	typeOf := func(s signature) []byte {
		types = append(types, code([]byte{0x60}, encodeTypes(s.params), encodeTypes(s.results)))
		return appendUnsigned(nil, uint64(len(types)-1))
	}
	numImported := 0
	for _, i := range g.imports {
		rest := i.rest
		if i.kind == 0 {
			rest = typeOf(i.signature)
			numImported++
		}
		imports = append(imports, code(encodeName(i.module), encodeName(i.name), []byte{i.kind}, rest))
	}
	for i, f := range g.functions {
		functions = append(functions, typeOf(f.signature))
		if f.export != "" {
			exports = append(exports, code(encodeName(f.export), []byte{0}, appendUnsigned(nil, uint64(numImported+i))))
		}
		body := code([]byte{0}, f.body, []byte{0x0b})
		codes = append(codes, append(appendUnsigned(nil, uint64(len(body))), body...))
	}
	var memories, tables, datas [][]byte
	if g.memory != nil {
		memories = [][]byte{g.memory}
		exports = append(exports, code(encodeName(exportMemory), []byte{2, 0}))
	}
	if g.table != nil {
		tables = [][]byte{g.table}
	}
	for _, d := range g.data {
		datas = append(datas, code([]byte{0}, opI32(d.at), []byte{0x0b}, encodeName(d.text)))
	}
	wasm = appendSection(wasm, 1, types)
	wasm = appendSection(wasm, 2, imports)
	wasm = appendSection(wasm, 3, functions)
	wasm = appendSection(wasm, 4, tables)
	wasm = appendSection(wasm, 5, memories)
	wasm = appendSection(wasm, 7, exports)
	if g.start != 0 {
		wasm = append(wasm, 8, 1, byte(g.start-1))
	}
	wasm = appendSection(wasm, 10, codes)
	wasm = appendSection(wasm, 11, datas)
	return append(wasm, g.extra...)
}

func appendSection(wasm []byte, id byte, entries [][]byte) []byte {
	if len(entries) == 0 {
		return wasm
	}
	content := appendUnsigned(nil, uint64(len(entries)))
	for _, entry := range entries {
		content = append(content, entry...)
	}
	wasm = appendUnsigned(append(wasm, id), uint64(len(content)))
	return append(wasm, content...)
}

func encodeName(s string) []byte { return append(appendUnsigned(nil, uint64(len(s))), s...) }

func encodeTypes(letters string) []byte {
	encoded := appendUnsigned(nil, uint64(len(letters)))
	for i := range len(letters) {
		encoded = append(encoded, map[byte]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c}[letters[i]])
	}
	return encoded
}

func appendUnsigned(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// appendSigned appends signed LEB128.
func appendSigned(dst []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}

// bench is a host with what it logged and reported.
type bench struct {
	*Host
	logged  strings.Builder // written by one goroutine at a time in these tests
	calls   []Call
	samples []Sample
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{}
	host, err := NewHost(context.Background(), Options{
		Logger:          slog.New(slog.NewTextHandler(&b.logged, nil)),
		Reserved:        []string{"id", "object", "choices", "usage", "model"},
		ReservedUsage:   []string{"prompt_tokens"},
		ReservedHeaders: []string{"x-request-id"},
		Observer:        func(c Call) { b.calls = append(b.calls, c) },
		Sampled:         func(s Sample) { b.samples = append(b.samples, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Host = host
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	return b
}

// load loads wasm from a file, as a module that is not trusted, with field
// x_test granted.
func (b *bench) load(t testing.TB, wasm []byte, adjust ...func(*Spec)) (*Plugin, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Name: "test", Path: path, Grants: Grants{Fields: []string{"x_test"}}, OnError: Closed}
	for _, change := range adjust {
		change(&spec)
	}
	p, err := b.Load(context.Background(), spec)
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return p, err
}

// mustLoad is load for guests that are expected to load.
func (b *bench) mustLoad(t testing.TB, g *guest, adjust ...func(*Spec)) *Plugin {
	t.Helper()
	p, err := b.load(t, g.assemble(), adjust...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// grant sets the grants of a plugin.
func grant(g Grants) func(*Spec) { return func(s *Spec) { s.Grants = g } }

func newChain(t testing.TB, plugins ...*Plugin) *Chain {
	t.Helper()
	chain, err := NewChain(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// shape runs a chain of the plugins on an empty frame.
func shape(t testing.TB, plugins ...*Plugin) (string, error) {
	t.Helper()
	chain, err := NewChain(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	shaped, err := chain.Shape(context.Background(), &Frame{}, new(State))
	return string(shaped.Members), err
}
