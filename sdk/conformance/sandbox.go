package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// memoryPages is the memory of an instance, 16 MiB, as the host has it.
const memoryPages = 256

// sandbox is a compiled guest, the imports it gets and what it did with them.
// One instance runs at a time.
type sandbox struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule

	did    []string // imports that were called, with their arguments
	logged []string // level and text of each line
	stderr bytes.Buffer

	fuel int64 // of an instance, where the module is metered

	// What the imports answer.
	failure int32             // below 0: of each but log and now_unix_ns
	values  map[string]string // of kv_get and kv_set
	sums    map[string]int64  // of kv_add
	now     int64
}

func newSandbox(ctx context.Context, config wazero.RuntimeConfig, wasm []byte) (*sandbox, error) {
	s := &sandbox{runtime: wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(memoryPages))}
	s.clear()
	err := s.start(ctx, wasm)
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *sandbox) start(ctx context.Context, wasm []byte) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, s.runtime); err != nil {
		return err
	}
	builder := s.runtime.NewHostModuleBuilder("wasmeter_v1")
	for name, function := range map[string]any{
		"log": s.log, "emit": s.emit, "metric_add": s.metricAdd, "metric_observe": s.metricObserve,
		"kv_get": s.kvGet, "kv_set": s.kvSet, "kv_add": s.kvAdd, "now_unix_ns": s.nowUnixNS,
	} {
		builder.NewFunctionBuilder().WithFunc(function).Export(name)
	}
	if _, err := builder.Instantiate(ctx); err != nil {
		return err
	}
	var err error
	if s.compiled, err = s.runtime.CompileModule(ctx, wasm); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

func (s *sandbox) close(ctx context.Context) error { return s.runtime.Close(ctx) }

// clear forgets what happened and lets the imports succeed.
func (s *sandbox) clear() {
	s.did, s.logged, s.failure, s.now = nil, nil, 0, 0
	s.stderr.Reset()
	s.values, s.sums = make(map[string]string), make(map[string]int64)
}

// imports reports whether the guest imports a function of the host.
func (s *sandbox) imports(name string) bool {
	for _, f := range s.compiled.ImportedFunctions() {
		if module, imported, _ := f.Import(); module == "wasmeter_v1" && imported == name {
			return true
		}
	}
	return false
}

const (
	codeAbsent     = -1
	codeBadPointer = -4
)

// text gives a block of the guest's memory; there is none outside of it.
func text(m api.Module, ptr, n uint32) (string, bool) {
	block, inside := m.Memory().Read(ptr, n)
	return string(block), inside
}

func (s *sandbox) called(format string, args ...any) {
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

func (s *sandbox) log(_ context.Context, m api.Module, level int32, ptr, n uint32) {
	if line, inside := text(m, ptr, n); inside {
		s.logged = append(s.logged, fmt.Sprintf("%d %s", level, line))
	}
}

func (s *sandbox) emit(_ context.Context, m api.Module, kind int32, ptr, n uint32) int32 {
	record, inside := text(m, ptr, n)
	if !inside {
		return codeBadPointer
	}
	s.called("emit %d %s", kind, record)
	return s.failure
}

func (s *sandbox) metricAdd(_ context.Context, metric, series uint32, value float64) int32 {
	s.called("metric_add %d %d %v", metric, series, value)
	return s.failure
}

func (s *sandbox) metricObserve(_ context.Context, metric, series uint32, value float64) int32 {
	s.called("metric_observe %d %d %v", metric, series, value)
	return s.failure
}

func (s *sandbox) kvGet(_ context.Context, m api.Module, kptr, klen, buf, room uint32) int32 {
	key, inside := text(m, kptr, klen)
	if _, has := text(m, buf, room); !inside || !has {
		return codeBadPointer
	}
	if s.failure < 0 {
		return s.failure
	}
	value, found := s.values[key]
	if !found {
		return codeAbsent
	}
	if len(value) <= int(room) {
		m.Memory().WriteString(buf, value)
	}
	return int32(len(value))
}

func (s *sandbox) kvSet(_ context.Context, m api.Module, kptr, klen, vptr, vlen, seconds uint32) int32 {
	key, inside := text(m, kptr, klen)
	value, has := text(m, vptr, vlen)
	if !inside || !has {
		return codeBadPointer
	}
	s.called("kv_set %s = %s for %d", key, value, seconds)
	return s.failure
}

func (s *sandbox) kvAdd(_ context.Context, m api.Module, kptr, klen uint32, delta int64, seconds uint32) int64 {
	const lowest = -1 << 63 // an error is this much less its code
	key, inside := text(m, kptr, klen)
	if !inside {
		return lowest - codeBadPointer
	}
	s.called("kv_add %s + %d for %d", key, delta, seconds)
	if s.failure < 0 {
		return lowest - int64(s.failure)
	}
	s.sums[key] += delta
	return s.sums[key]
}

func (s *sandbox) nowUnixNS(context.Context) int64 { return s.now }

// guest is one instance.
type guest struct {
	sandbox *sandbox
	module  api.Module
	mask    uint32
	stack   [1]uint64
	// The functions by name, looked up once: each has a stack of its own.
	functions map[string]api.Function
}

// instantiate makes an instance and runs its init.
func (s *sandbox) instantiate(ctx context.Context, config string) (*guest, error) {
	module, err := s.runtime.InstantiateModule(ctx, s.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions().WithStderr(&s.stderr))
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	g := &guest{sandbox: s, module: module, functions: make(map[string]api.Function)}
	g.refuel(s.fuel)
	if err := g.init(ctx, config); err != nil {
		return nil, errors.Join(err, g.close(ctx))
	}
	return g, nil
}

func (g *guest) init(ctx context.Context, config string) error {
	if g.has("_initialize") {
		if err := g.function("_initialize").CallWithStack(ctx, nil); err != nil {
			return brief("_initialize", err)
		}
	}
	if err := g.write(ctx, []byte(config)); err != nil {
		return err
	}
	result, err := g.invoke(ctx, "wasmeter_init", uint64(len(config)))
	if err != nil {
		return err
	}
	if int32(result) < 0 {
		return &refusal{code: int32(result)}
	}
	g.mask = uint32(result)
	return nil
}

// refusal is an init that does not take its configuration.
type refusal struct{ code int32 }

func (e *refusal) Error() string { return fmt.Sprintf("init refused with %d", e.code) }

func (g *guest) has(name string) bool { return g.function(name) != nil }

func (g *guest) function(name string) api.Function {
	f, found := g.functions[name]
	if !found {
		f = g.module.ExportedFunction(name)
		g.functions[name] = f
	}
	return f
}

func (g *guest) close(ctx context.Context) error { return g.module.Close(ctx) }

// invoke calls an exported function of one argument.
func (g *guest) invoke(ctx context.Context, name string, argument uint64) (uint64, error) {
	f := g.function(name)
	if f == nil {
		return 0, fmt.Errorf("the guest does not export %s", name)
	}
	g.stack[0] = argument
	if err := f.CallWithStack(ctx, g.stack[:]); err != nil {
		return 0, brief(name, err)
	}
	return g.stack[0], nil
}

// brief leaves out wazero's stack trace.
func brief(name string, err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return &trap{fmt.Sprintf("%s: %s", name, line)}
}

// trap is a call that did not return.
type trap struct{ text string }

func (e *trap) Error() string { return e.text }

// write writes the argument of a hook into the guest's buffer.
func (g *guest) write(ctx context.Context, argument []byte) error {
	result, err := g.invoke(ctx, "wasmeter_buffer", uint64(len(argument)))
	if err != nil {
		return err
	}
	ptr := uint32(result)
	if ptr == 0 {
		return fmt.Errorf("wasmeter_buffer(%d) refused", len(argument))
	}
	if ptr%8 != 0 {
		return fmt.Errorf("wasmeter_buffer(%d) gave %#x, which is not 8-aligned", len(argument), ptr)
	}
	if !g.module.Memory().Write(ptr, argument) {
		return fmt.Errorf("wasmeter_buffer(%d) gave %#x, which is too near the memory's end at %#x", len(argument), ptr, g.module.Memory().Size())
	}
	return nil
}

// document calls a hook that gives one. It is a view of the guest's memory,
// good until the next call.
func (g *guest) document(ctx context.Context, hook string, frame []byte) ([]byte, error) {
	if err := g.write(ctx, frame); err != nil {
		return nil, err
	}
	packed, err := g.invoke(ctx, "wasmeter_"+hook, uint64(len(frame)))
	if err != nil || packed == 0 {
		return nil, err
	}
	ptr, n := uint32(packed>>32), uint32(packed)
	document, inside := g.module.Memory().Read(ptr, n)
	if !inside {
		return nil, fmt.Errorf("%s gave a document at %#x of %d bytes; the memory ends at %#x", hook, ptr, n, g.module.Memory().Size())
	}
	return document, nil
}

// finish calls the hook finish.
func (g *guest) finish(ctx context.Context, frame []byte) (int32, error) {
	if err := g.write(ctx, frame); err != nil {
		return 0, err
	}
	result, err := g.invoke(ctx, "wasmeter_finish", uint64(len(frame)))
	return int32(result), err
}
