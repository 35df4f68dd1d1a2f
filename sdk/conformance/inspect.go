package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/host/plugin/meter"
)

// Report is what a module is and what it wants. Names are those of the ABI and
// of the configuration.
type Report struct {
	Bytes   int      `json:"bytes"`
	SHA256  string   `json:"sha256"`
	Exports []string `json:"exports"` // of the ABI
	Imports []string `json:"imports"` // module.name
	// Grants are the configuration keys, below grants, that it needs.
	Grants []string `json:"grants"`
	// Refused is why init did not take the configuration; what follows is
	// then empty.
	Refused string   `json:"refused,omitempty"`
	Hooks   []string `json:"hooks"`
	Wants   []string `json:"wants"`
	// MemoryBytes is the linear memory behind init, InitFuel what it took.
	MemoryBytes uint32 `json:"memory_bytes"`
	InitFuel    int64  `json:"init_fuel"`
}

// grantsOf names the grants that imports need; log needs none.
var grantsOf = map[string]string{
	"emit": "emit", "metric_add": "metrics", "metric_observe": "metrics",
	"kv_get": "kv.read", "kv_set": "kv.write", "kv_add": "kv.write", "now_unix_ns": "clock",
}

// maskBits names the bits of the hook mask.
var maskBits = [...]struct {
	bit               uint
	hook, want, grant string
}{
	{0, "shape", "", ""}, {1, "finish", "", ""}, {2, "request", "", ""}, {3, "chunk", "", ""},
	{8, "", "events", ""}, {responseDocument, "", "the response document", "read.response"},
	{requestDocument, "", "the request document", "read.request"}, {11, "", "choices", ""},
}

const responseDocument, requestDocument = 9, 10

// egress are imports through which a body could leave.
var egress = map[string]bool{
	"wasmeter_v1.log": true, "wasmeter_v1.emit": true, "wasmeter_v1.kv_set": true, "wasmeter_v1.kv_add": true,
}

// Inspect reads a module and runs its init with a configuration, a JSON object.
// It runs it metered and interpreted, since it may be anyone's. What the server
// refuses to load it refuses too, with the same words.
func Inspect(ctx context.Context, wasm []byte, config string) (*Report, error) {
	if err := plugin.Check(wasm); err != nil {
		return nil, err
	}
	metered, err := meter.Rewrite(wasm)
	if err != nil {
		return nil, err
	}
	s, err := newSandbox(ctx, wazero.NewRuntimeConfigInterpreter(), metered)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(wasm)
	report := &Report{
		Bytes: len(wasm), SHA256: hex.EncodeToString(digest[:]),
		// Empty lists are [] in JSON.
		Exports: []string{}, Imports: []string{}, Grants: []string{}, Hooks: []string{}, Wants: []string{},
	}
	s.inspectModule(report)
	err = s.inspectInit(ctx, config, report)
	return report, errors.Join(err, s.close(ctx))
}

// inspectModule reports what the module exports and imports.
func (s *sandbox) inspectModule(report *Report) {
	for name := range s.compiled.ExportedFunctions() {
		if strings.HasPrefix(name, "wasmeter_") || name == "_initialize" {
			report.Exports = append(report.Exports, name)
		}
	}
	slices.Sort(report.Exports)
	for _, f := range s.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		report.Imports = append(report.Imports, module+"."+name)
		if grant := grantsOf[name]; module == "wasmeter_v1" && grant != "" {
			report.Grants = append(report.Grants, grant)
		}
	}
	slices.Sort(report.Imports)
}

func (s *sandbox) inspectInit(ctx context.Context, config string, report *Report) error {
	s.fuel = plugin.InitFuel
	g, err := s.instantiate(ctx, config)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		report.Refused = fmt.Sprintf("%v; it said %q", refused, strings.Join(append(s.logged, s.stderr.String()), "\n"))
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range maskBits {
		if g.mask>>m.bit&1 == 0 {
			continue
		}
		if m.hook != "" {
			report.Hooks = append(report.Hooks, m.hook)
		} else {
			report.Wants = append(report.Wants, m.want)
		}
		if m.grant != "" {
			report.Grants = append(report.Grants, m.grant)
		}
	}
	if g.mask>>responseDocument&1 != 0 || g.mask>>requestDocument&1 != 0 {
		if slices.ContainsFunc(report.Imports, func(name string) bool { return egress[name] }) {
			report.Grants = append(report.Grants, "content_egress")
		}
	}
	slices.Sort(report.Grants)
	report.Grants = slices.Compact(report.Grants)
	report.MemoryBytes = g.module.Memory().Size()
	report.InitFuel = plugin.InitFuel - int64(g.module.ExportedGlobal(meter.FuelGlobal).Get())
	return g.close(ctx)
}

// refuel gives a metered instance its fuel; another has no use for it.
func (g *guest) refuel(units int64) {
	if global, metered := g.module.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal); metered {
		global.Set(uint64(units))
	}
}
