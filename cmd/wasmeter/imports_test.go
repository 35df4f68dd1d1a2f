package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	moduleRoot = "../.."
	modulePath = "github.com/wasmeter/wasmeter/"
)

// importRule is what the packages of one folder may know.
type importRule struct {
	// folder is a package; "/…" at its end adds those below. The rule with the
	// longest folder holds.
	folder string
	// ours are packages of this module, others modules or packages elsewhere.
	// The standard library is allowed but for what never lists.
	ours, others, never []string
	// why is said when the rule is broken.
	why string
}

const (
	jsonModule = "github.com/go-json-experiment/json"
	sysModule  = "golang.org/x/sys"
)

// wire is what the engine's side must never know.
var wire = []string{"net", "net/http", "encoding/json"}

// importRules draw the layers, from the bottom up. See ARCHITECTURE.md.
var importRules = []importRule{
	{folder: "kernels/…", ours: []string{"kernels/cpu"}, others: []string{sysModule}, never: slices.Concat(wire, []string{"log/slog", "context"}),
		why: "kernels see slices and numbers"},
	{folder: "kernels/cuda", ours: []string{"kernels/cuda/driver"}, never: slices.Concat(wire, []string{"log/slog", "context"}),
		why: "launching a kernel takes addresses and numbers"},
	{folder: "kernels/cuda/cublaslt", ours: []string{"kernels/cuda/driver"}, never: slices.Concat(wire, []string{"log/slog", "context"}),
		why: "a library's product takes addresses, sizes and a stream"},
	{folder: "kernels/cuda/suite", ours: []string{"kernels/cpu", "kernels/cuda", "kernels/cuda/cublaslt", "kernels/cuda/driver"}, never: slices.Concat(wire, []string{"log/slog", "context"}),
		why: "what the kernels' suite compares with is its own"},
	{folder: "kernels/cuda/driver", ours: []string{"kernels/cuda/driver/shim"}, others: []string{"gorgonia.org/cu"}, never: slices.Concat(wire, []string{"log/slog", "context"}),
		why: "the driver's layer sees handles, bytes and words; it alone knows cu"},
	{folder: "kernels/cuda/driver/shim", never: slices.Concat(wire, []string{"log/slog", "context"}), why: "the shim knows the loader and names"},
	{folder: "engine/gguf", others: []string{sysModule}, never: wire, why: "the file format knows no one"},
	{folder: "engine/safetensors", others: []string{jsonModule}, never: wire, why: "the container of weights knows no one"},
	{folder: "engine/checkpoint", ours: []string{"engine/gguf", "engine/safetensors"}, others: []string{jsonModule}, never: wire,
		why: "a folder of weights becomes a model file, and what is made of that is not its affair"},
	{folder: "engine/kvcache", never: wire, why: "blocks are bookkeeping: no floats, no devices, nobody who asks"},
	{folder: "engine/sample", ours: []string{"kernels/cpu"}, never: wire, why: "sampling sees a row of logits, and goes over it with the host's kernels"},
	{folder: "engine/tokenizer", ours: []string{"engine/gguf"}, never: wire, why: "a vocabulary comes from a model file and from nowhere else"},
	{folder: "engine/backend", ours: []string{"engine/gguf", "engine/sample"}, never: wire,
		why: "a device sees weights, integers and how tokens are drawn: no sequences, no text"},
	{folder: "engine/backend/backendtest", ours: []string{"engine/backend", "engine/gguf", "engine/model", "engine/sample"}, never: wire,
		why: "the suite sees what a backend shows, and runs a model on it"},
	{folder: "engine/backend/cpu", ours: []string{"engine/backend", "engine/gguf", "kernels/cpu"}, others: []string{sysModule}, never: wire,
		why: "a backend stands between the interface and its kernels"},
	{folder: "engine/backend/cuda", ours: []string{"engine/backend", "engine/gguf", "engine/sample", "kernels/cuda", "kernels/cuda/cublaslt", "kernels/cuda/driver"}, never: wire,
		why: "a backend stands between the interface and its kernels, and sees the driver through ours"},
	{folder: "engine/backend/sim", ours: []string{"engine/backend", "engine/model"}, never: wire, why: "the simulated device is a model without a file"},
	{folder: "engine/model", ours: []string{"engine/backend", "engine/gguf", "engine/sample"}, never: wire, why: "a model doesn't know which backend computes it"},
	{folder: "engine/cost", never: wire, why: "a cost is rows and times"},
	{folder: "engine/draft", ours: []string{"engine/cost"}, never: wire, why: "guesses are tokens and times: no models, no text"},
	{folder: "engine", ours: []string{"engine/cost", "engine/draft", "engine/kvcache", "engine/sample", "engine/tokenizer", "engine/model", "engine/backend"}, never: wire,
		why: "the engine knows no HTTP, no JSON, no plugin, no Prometheus and no backend but the interface"},
	{folder: "host/openai", others: []string{jsonModule}, never: []string{"encoding/json"}, why: "wire types know neither the server nor the engine"},
	{folder: "host/chat", ours: []string{"host/chat/jinja"}, never: []string{"net", "net/http"}, why: "a template makes text of messages"},
	{folder: "host/chat/jinja", never: []string{"net", "net/http"}, why: "a template sees values and no server"},
	{folder: "host/plugin/wasm", never: wire, why: "a module's bytes are read and rewritten without running them"},
	{folder: "host/plugin/meter", ours: []string{"host/plugin/wasm"}, never: wire, why: "the meter rewrites bytes; only its tests run them"},
	{folder: "host/plugin", ours: []string{"host/plugin/meter", "host/plugin/wasm"}, others: []string{"github.com/tetratelabs/wazero", jsonModule, sysModule}, never: wire,
		why: "the sandbox moves bytes: it knows neither fiber nor the engine nor the API's types"},
	{folder: "host/plugin/bench", ours: []string{"host/plugin"}, never: []string{"net", "net/http"}, why: "a measurement needs a plugin and no server"},
	{folder: "host/plugin/replay", ours: []string{"host/plugin"}, others: []string{jsonModule}, never: wire,
		why: "who prices requests again knows what a frame and a plugin are, and no server"},
	{folder: "host/metrics", ours: []string{"engine"}, others: []string{"github.com/prometheus/client_golang", "github.com/prometheus/common"},
		why: "Prometheus hears the engine; requests' texts and plugins' types are not its affair"},
	{folder: "host/keys", others: []string{"go.yaml.in/yaml/v3"}, never: []string{"net", "net/http"}, why: "who may ask is a file of hashes"},
	{folder: "host/admin", ours: []string{"host/openai", "host/plugin"}, others: []string{jsonModule},
		why: "operators see plugins and metrics, no requests and no engine"},
	{folder: "host/ledger", others: []string{jsonModule}, never: []string{"net", "net/http"}, why: "a ledger keeps records, whoever made them"},
	{folder: "host", ours: []string{"host/openai", "host/chat", "host/keys", "host/ledger", "host/plugin", "engine", "engine/model", "engine/sample", "engine/tokenizer"},
		others: []string{"github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp", jsonModule, sysModule}, never: []string{"encoding/json"},
		why: "the server sees the engine from outside: no backend, no kernels, no blocks"},
	{folder: "plugins", why: "the embedded modules are bytes"},
	{folder: "plugins/…", ours: []string{"sdk/go", "plugins/internal/…"}, never: slices.Concat(wire, []string{"fmt", "time"}),
		why: "a plugin sees what the SDK gives it; time comes as integers"},
	{folder: "plugins/internal/plugintest", ours: []string{"config", "host/openai", "host/plugin", "plugins", "plugins/internal/settings", "sdk/go"},
		why: "what tests of plugins share sees the sandbox from outside"},
	{folder: "plugins/internal/settings", others: []string{jsonModule}, never: slices.Concat(wire, []string{"fmt", "time"}),
		why: "a plugin's configuration is JSON and nothing else"},
	{folder: "sdk/…", ours: []string{"sdk/go"}, never: slices.Concat(wire, []string{"fmt", "time"}), why: "the SDK goes into other people's modules: it is small and knows nothing of the host"},
	{folder: "sdk/conformance", ours: []string{"host/plugin", "host/plugin/meter"}, others: []string{"github.com/tetratelabs/wazero", jsonModule}, never: wire,
		why: "the kit plays the host, beside the one that there is; no SDK and no plugin knows it"},
	{folder: "sdk/conformance/guests/…", ours: []string{"sdk/go"}, others: []string{jsonModule}, never: slices.Concat(wire, []string{"fmt", "time"}),
		why: "a guest is a plugin"},
	{folder: "sdk", why: "the SDKs' sources are bytes"},
	{folder: "sdk/toolchain", ours: []string{"sdk"}, never: wire, why: "compilers are other programs"},
	{folder: "sdk/toolchain/toolchaintest", ours: []string{"sdk/toolchain"}, never: wire, why: "it is for tests that build"},
	{folder: "sdk/scaffold", ours: []string{"sdk", "sdk/toolchain"}, never: wire, why: "a plugin's folder is text"},
	{folder: "sdk/cases", ours: []string{"config", "host/plugin"}, others: []string{"go.yaml.in/yaml/v3", jsonModule}, never: wire,
		why: "a case is read like the configuration, and runs in the server's own host"},
	{folder: "config", ours: []string{"host", "host/plugin", "engine", "plugins"},
		others: []string{"github.com/knadh/koanf", "github.com/spf13/pflag", "go.yaml.in/yaml/v3", jsonModule},
		why:    "the configuration sees packages' options and the built-in plugins' names: which backend there is, only cmd knows"},
	{folder: "hub", others: []string{jsonModule, sysModule}, never: []string{"encoding/json"}, why: "files come into the cache, whatever they are for"},
	{folder: "hub/hubtest", why: "a hub for tests speaks the protocol and shares no code with its client"},
	{folder: "cmd/wasmeter", ours: []string{"config", "host", "host/…", "hub", "engine", "engine/…", "kernels/…", "plugins", "sdk/cases", "sdk/conformance", "sdk/scaffold", "sdk/toolchain"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, why: "commands put parts together; what a part is made of is its own affair"},
}

// ruleOf gives the rule of a package, nil if it has none.
func ruleOf(pkg string) *importRule {
	var best *importRule
	for i := range importRules {
		r := &importRules[i]
		if covers([]string{r.folder}, pkg) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// covers reports whether one of the patterns names pkg, or stands above it with
// "/…".
func covers(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		above, wide := strings.CutSuffix(p, "/…")
		return pkg == p || wide && strings.HasPrefix(pkg, above+"/")
	})
}

// fault says what is wrong with an import, "" if nothing is.
func (r *importRule) fault(imported string) string {
	if own, ok := strings.CutPrefix(imported, modulePath); ok {
		if !covers(r.ours, own) {
			return "it may know only: " + orNothing(r.ours) + " of this module"
		}
		return ""
	}
	if slices.Contains(r.never, imported) {
		return "it may not know " + imported
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if !slices.ContainsFunc(r.others, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }) {
		return "it may know only: " + orNothing(r.others) + " of other modules"
	}
	return ""
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// TestImports checks the imports of every file, whatever its build tags.
// Tests may know more; folders with a go.mod of their own are not of this module.
func TestImports(t *testing.T) {
	checked := make(map[string]bool)
	err := filepath.WalkDir(moduleRoot, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			own := len(file) > len(moduleRoot) && exists(filepath.Join(file, "go.mod"))
			if own || name == "testdata" || name == "examples" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(moduleRoot, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(relative))
		rule := ruleOf(pkg)
		if rule == nil {
			if !checked[pkg] {
				t.Errorf("package %s has no rule in imports_test.go: what may it know?", pkg)
			}
			checked[pkg] = true
			return nil
		}
		checked[pkg] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if fault := rule.fault(imported); fault != "" {
				t.Errorf("%s imports %s: %s (%s)", relative, imported, rule.why, fault)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"engine", "host", "host/plugin", "config", "kernels/cpu", "cmd/wasmeter"} {
		if !checked[pkg] {
			t.Errorf("package %s was not found: the walk is wrong", pkg)
		}
	}
}

// TestImportRules: the rules refuse what they are for.
func TestImportRules(t *testing.T) {
	for _, test := range []struct {
		pkg, imported string
		allowed       bool
	}{
		{"engine", "net/http", false},
		{"engine", "encoding/json", false},
		{"engine", modulePath + "host/plugin", false},
		{"engine", modulePath + "engine/backend/cpu", false},
		{"engine", "github.com/prometheus/client_golang/prometheus", false},
		{"engine", modulePath + "engine/kvcache", true},
		{"engine/kvcache", modulePath + "engine", false},
		{"host/plugin", "github.com/gofiber/fiber/v2", false},
		{"host/plugin", modulePath + "engine", false},
		{"host/plugin", modulePath + "host/openai", false},
		{"host/plugin", "github.com/tetratelabs/wazero/api", true},
		{"host/openai", modulePath + "engine", false},
		{"host", modulePath + "engine/backend/cpu", false},
		{"host", modulePath + "config", false},
		{"config", modulePath + "engine/backend/sim", false},
		{"config", modulePath + "host/plugin", true},
		{"kernels/cpu", modulePath + "engine/gguf", false},
		{"kernels/cpu", "math", true},
		{"plugins/metrics", modulePath + "host/plugin", false},
		{"plugins/metrics", modulePath + "sdk/go", true},
		{"cmd/wasmeter", modulePath + "engine/backend/sim", true},
		{"cmd/wasmeter", "github.com/gofiber/fiber/v2", false},
	} {
		rule := ruleOf(test.pkg)
		if rule == nil {
			t.Errorf("%s has no rule", test.pkg)
			continue
		}
		if fault := rule.fault(test.imported); (fault == "") != test.allowed {
			t.Errorf("%s imports %s: got fault %q, want allowed %v", test.pkg, test.imported, fault, test.allowed)
		}
	}
}
