package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// wasiRules are the calls of WASI preview 1 that Go's runtime and its package
// syscall import. There is no file and no socket behind them; see wasi.go.
var wasiRules = map[string]signature{
	"args_get":            {"ii", "i"},
	"args_sizes_get":      {"ii", "i"},
	"clock_time_get":      {"iIi", "i"},
	"environ_get":         {"ii", "i"},
	"environ_sizes_get":   {"ii", "i"},
	"fd_close":            {"i", "i"},
	"fd_fdstat_get":       {"ii", "i"},
	"fd_fdstat_set_flags": {"ii", "i"},
	"fd_prestat_dir_name": {"iii", "i"},
	"fd_prestat_get":      {"ii", "i"},
	"fd_write":            {"iiii", "i"},
	"poll_oneoff":         {"iiii", "i"},
	"proc_exit":           {"i", ""},
	"random_get":          {"ii", "i"},
	"sched_yield":         {"", "i"},
}

// Check gives the faults for which Load refuses a module before anything of it
// is compiled or run, whatever it is granted.
func Check(wasm []byte) error {
	grants := Everything()
	return checkModule(wasm, defaultMemoryLimit, &grants)
}

// checkModule reads a module's interface and holds it against the ABI, the
// grants and the memory limit (bytes), before anything is compiled or run.
// It reports every fault at once.
func checkModule(wasm []byte, memoryLimit int64, grants *Grants) error {
	if len(wasm) > maxModuleBytes {
		return fmt.Errorf("module of %d bytes; at most %d (32 MiB) are allowed: strip debug information (for Go, -ldflags=\"-s -w\")", len(wasm), maxModuleBytes)
	}
	m, err := parseModule(wasm)
	if err != nil {
		return err
	}
	var faults []error
	faults = append(faults, m.checkSizes(memoryLimit)...)
	faults = append(faults, m.checkImports(grants)...)
	faults = append(faults, m.checkExports()...)
	return errors.Join(faults...)
}

func (m *module) checkSizes(memoryLimit int64) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if m.started {
		fault("a start function runs code before the host is ready; export it as %q instead (build a reactor; for Go, -buildmode=c-shared)", exportInitialize)
	}
	if len(m.functions) > maxFunctions {
		fault("%d functions; at most %d are allowed", len(m.functions), maxFunctions)
	}
	if m.longest > maxFunctionBytes {
		fault("a function body of %d bytes; at most %d (64 KiB) are allowed: compile with less inlining", m.longest, maxFunctionBytes)
	}
	if len(m.memories) > 1 {
		fault("%d memories; exactly one is allowed", len(m.memories))
	}
	for _, mem := range m.memories {
		switch {
		case mem.Shared:
			fault("shared memory; build without threads")
		case mem.Wide:
			fault("64-bit memory; build for wasm32")
		case mem.Min > uint64(memoryLimit)/wasmPage:
			fault("asks for %d bytes of memory at start, its limit is %d; raise memory_limit or give the module less stack (for Zig and C, --stack)", mem.Min*wasmPage, memoryLimit)
		}
	}
	for _, t := range m.tables {
		if t.Min > maxTableEntries {
			fault("a table of %d entries; at most %d are allowed", t.Min, maxTableEntries)
		}
	}
	return faults
}

func (m *module) checkImports(grants *Grants) (faults []error) {
	for _, i := range m.imports {
		if err := i.check(grants); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

func (i moduleImport) check(grants *Grants) error {
	if i.kind != externFunction {
		return fmt.Errorf("imports the %s %q.%q; a plugin brings its own and exports it", i.kind, i.module, i.name)
	}
	var want signature
	switch i.module {
	case importModule:
		at := slices.IndexFunc(importRules[:], func(rule importRule) bool { return rule.name == i.name })
		if at < 0 {
			return fmt.Errorf("imports unknown function %s.%s; the ABI has %s", i.module, i.name, importNames())
		}
		rule := importRules[at]
		if !grants.permits(rule.grant) {
			return denied("imports %s.%s, which needs the configuration key grants.%s: true; set it if the plugin may do that", i.module, i.name, rule.grant)
		}
		if rule.egress && grants.confined() {
			return fmt.Errorf("imports %s.%s and may read bodies, so that prompts could leave through it; set grants.content_egress: true if they may", i.module, i.name)
		}
		want = rule.signature
	case wasiModule:
		var known bool
		if want, known = wasiRules[i.name]; !known {
			return fmt.Errorf("imports %s.%s; plugins have no files and no sockets; ABI.md has the calls that there are", i.module, i.name)
		}
	default:
		return fmt.Errorf("imports %q.%q; a plugin may import from %s and %s only", i.module, i.name, importModule, wasiModule)
	}
	if i.signature != want {
		return fmt.Errorf("imports %s.%s as %s; it is %s", i.module, i.name, i.signature, want)
	}
	return nil
}

func importNames() string {
	names := make([]string, len(importRules))
	for i, rule := range importRules {
		names[i] = rule.name
	}
	return strings.Join(names, ", ")
}

func (m *module) checkExports() (faults []error) {
	if e, found := m.export(exportMemory); !found || e.kind != externMemory {
		faults = append(faults, fmt.Errorf("does not export %q; the host and the plugin meet there", exportMemory))
	}
	for _, rule := range exportRules {
		e, found := m.export(rule.name)
		if !found {
			if rule.required {
				faults = append(faults, fmt.Errorf("does not export the function %q %s: %s; build it with an SDK, or see ABI.md", rule.name, rule.signature, rule.why))
			}
			continue
		}
		got, isFunction := m.exportedSignature(e)
		if !isFunction {
			faults = append(faults, fmt.Errorf("exports %q as %s; it is a function %s", rule.name, e.kind, rule.signature))
		} else if got != rule.signature {
			faults = append(faults, fmt.Errorf("exports %q as %s; it is %s", rule.name, got, rule.signature))
		}
	}
	return faults
}
