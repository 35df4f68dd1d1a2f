package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/plugin"
)

var update = flag.Bool("update", false, "rewrite the expected messages in testdata/bad")

// TestBadFiles compares what is said about each bad file, word for word, with
// the .txt file beside it. Read the difference before committing an update.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := Load(Sources{File: file})
			if err == nil {
				t.Fatalf("%s was accepted: %+v", file, c)
			}
			got := strings.ReplaceAll(err.Error(), "testdata/bad/", "") + "\n"
			want := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(text) {
				t.Errorf("%s\ngot:\n%swant:\n%s", file, got, text)
			}
			if strings.Contains(got, "secret") {
				t.Errorf("%s: a secret is printed: %s", file, got)
			}
		})
	}
}

func TestGoodFiles(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		c, err := Load(Sources{File: "testdata/good/all.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		want := Default()
		want.Host.Server.Host, want.Host.Server.Port = "0.0.0.0", 9000
		want.Host.Server.Insecure, want.Host.Server.BodyLimit = true, 4<<20
		want.Host.Server.MaxConnections, want.Host.Server.ShutdownTimeout = 100, 90*time.Second
		want.Host.Metrics.PerRequest, want.Host.Metrics.PromptTokensDetails = true, false
		want.Host.Metrics.SpecDecode, want.Draft.Path = "detailed", "models/small.gguf"
		want.Model = Model{Path: "models/tiny.gguf", Quantize: "q8_0", ServedNames: []string{"gpt-4.1", "tiny"}}
		want.Device = Device{Name: "cpu", GPUMemoryUtilization: 0.75, CuBLASLt: "auto", Threads: 2, KVCacheType: "f16"}
		want.Engine.PrefixCaching = false
		e := &want.Engine
		e.MaxNumSeqs, e.MaxNumBatchedTokens, e.MaxModelLen, e.BlockSize = 8, 256, 1024, 32
		e.KVCacheMemory, e.MaxQueuedRequests, e.MaxQueuedTokens = 512<<20, 10, 4096
		e.Speculative = engine.Speculative{Method: engine.SpeculativeDraft, NumTokens: 5, NgramMin: 3, NgramMax: 4}
		want.Plugins = []Plugin{
			{Builtin: "metrics", Spec: plugin.Spec{Name: "metrics", MemoryLimit: 16 << 20, Fuel: 5_000_000,
				Grants: plugin.Grants{Fields: []string{"metrics"}}}},
			{Spec: plugin.Spec{Name: "billing", Path: "billing.wasm", Isolation: plugin.Reset, MemoryLimit: 8 << 20, Fuel: 100_000_000,
				SHA256: strings.Repeat("0", 64), OnError: plugin.Null, Override: true,
				Grants: plugin.Grants{
					Fields: []string{"billing", "x_*"}, UsageExtend: []string{"cost"}, Headers: []string{"x-cost"},
					Emit: true, Metrics: true, Clock: true, KVRead: true, KVWrite: true,
					ReadRequest: true, ReadResponse: true, ContentEgress: true, Rewrite: true, Deny: true,
				},
				Match: plugin.Match{Models: []string{"tiny", "gpt-*"}, Tenants: []string{"acme"}, Endpoints: []string{"chat", "responses"}},
				Metrics: []plugin.Metric{
					{Name: "cost_total", Help: "Micro-dollars.", Labels: []plugin.Label{{Name: "tier", Values: []string{"free", "paid"}}, {Name: "day", Values: []string{"mo", "tu"}}}},
					{Name: "cost", Type: plugin.Histogram, Buckets: []float64{10, 1000, 500000}},
				},
				Config: []byte(`{"price_book":{"small":1.50,"large":1e3,"hex":16,"free":0.5},"day":"2026-01-01","names":["a","b\n",null,true]}`)}},
		}
		want.Sim = Sim{PrefillPerToken: 10 * time.Microsecond, StepBase: time.Millisecond, Jitter: 250 * time.Microsecond}
		want.Log.Level = "debug"
		c.file, c.origins = "", nil
		if !reflect.DeepEqual(*c, want) {
			t.Errorf("got  %+v\nwant %+v", *c, want)
		}
	})
	for _, name := range []string{"empty", "comments"} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(Sources{File: "testdata/good/" + name + ".yaml"})
			if err != nil {
				t.Fatal(err)
			}
			c.file, c.origins = "", nil
			if want := Default(); !reflect.DeepEqual(*c, want) {
				t.Errorf("got  %+v\nwant %+v", *c, want)
			}
		})
	}
	t.Run("alias", func(t *testing.T) {
		c, err := Load(Sources{File: "testdata/good/alias.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		a, b := c.Plugins[0], c.Plugins[1]
		if string(a.Config) != `{"small":1}` || string(b.Config) != `{"small":1}` || !reflect.DeepEqual(a.Grants, b.Grants) {
			t.Errorf("got %+v and %+v, want equal config and grants", a, b)
		}
	})
}

// write makes a file of that text and gives its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wasmeter.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parse gives the flags of a command line.
func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags := NewFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func TestPrecedence(t *testing.T) {
	file := write(t, "server:\n  port: 1001\n")
	environ := []string{"WASMETER_SERVER__PORT=1002", "HOME=/"}
	for _, test := range []struct {
		name    string
		sources Sources
		port    int
		origin  string
	}{
		{"default", Sources{}, 8000, "default"},
		{"file", Sources{File: file}, 1001, file + ":2"},
		{"environment over file", Sources{File: file, Environ: environ}, 1002, "WASMETER_SERVER__PORT"},
		{"flag over all", Sources{File: file, Environ: environ, Flags: parse(t, "--port=1003")}, 1003, "--port"},
		{"a flag not given", Sources{File: file, Flags: parse(t)}, 1001, file + ":2"},
		{"a flag given its default", Sources{File: file, Flags: parse(t, "--port=8000")}, 8000, "--port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Load(test.sources)
			if err != nil {
				t.Fatal(err)
			}
			if c.Host.Server.Port != test.port || c.Origin("server.port").String() != test.origin {
				t.Errorf("port %d from %s, want %d from %s", c.Host.Server.Port, c.Origin("server.port"), test.port, test.origin)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		got  func(c *Config) any
		want any
	}{
		{"--served-model-name=gpt-4.1,small", func(c *Config) any { return c.Model.ServedNames }, []string{"gpt-4.1", "small"}},
		{"--disable-log-stats", func(c *Config) any { return c.Host.Metrics.LogStats }, false},
		{"--disable-log-stats=false", func(c *Config) any { return c.Host.Metrics.LogStats }, true},
		{"--disable-log-stats --no-disable-log-stats", func(c *Config) any { return c.Host.Metrics.LogStats }, true},
		{"--enable-per-request-metrics", func(c *Config) any { return c.Host.Metrics.PerRequest }, true},
		{"--enable-force-include-usage", func(c *Config) any { return c.Host.Metrics.ForceIncludeUsage }, "final"},
		{"--enable-force-include-usage=continuous", func(c *Config) any { return c.Host.Metrics.ForceIncludeUsage }, "continuous"},
		{"--no-enable-prefix-caching", func(c *Config) any { return c.Engine.PrefixCaching }, false},
		{"--no-enable-prefix-caching --enable-prefix-caching", func(c *Config) any { return c.Engine.PrefixCaching }, true},
		{"--no-enable-prompt-tokens-details", func(c *Config) any { return c.Host.Metrics.PromptTokensDetails }, false},
		{"--kv-cache-memory=512MiB", func(c *Config) any { return c.Engine.KVCacheMemory }, int64(512 << 20)},
		{"--max-num-queued-reqs=0", func(c *Config) any { return c.Engine.MaxQueuedRequests }, 0},
		{"--max-num-queued-tokens=9", func(c *Config) any { return c.Engine.MaxQueuedTokens }, 9},
		{"--sim-step-base=2ms", func(c *Config) any { return c.Sim.StepBase }, 2 * time.Millisecond},
	} {
		t.Run(test.args, func(t *testing.T) {
			c, err := Load(Sources{Flags: parse(t, strings.Fields(test.args)...)})
			if err != nil {
				t.Fatal(err)
			}
			if got := test.got(c); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s: got %v, want %v", test.args, got, test.want)
			}
		})
	}
}

// TestBadFlags: the words that are refused while the command line is parsed.
// vLLM 0.32 ends with 2 on --per-request-spec-decode-metrics verbose.
func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--per-request-spec-decode-metrics=verbose": `"verbose" is not one of none, summary, detailed`,
		"--enable-force-include-usage=true":         `"true" is not one of off, final, continuous`,
		"--device=gpu":                              `"gpu" is not one of auto, cpu, cuda, cuda:0 … cuda:255`,
		"--gpu-memory-utilization=most":             `"most" is not a number`,
		"--device=cuda:01":                          `is not one of`,
		"--port=http":                               `"http" is not a whole number`,
		"--kv-cache-memory=1.5GiB":                  `"1.5GiB" is not a size`,
		"--kv-cache-type=q4":                        `"q4" is not one of f16, q8_0`,
		"--log-level=all":                           `"all" is not one of debug, info, warn, error`,
		"--enable-per-request-metrics=maybe":        `"maybe" is not true or false`,
		"--shutdown-timeout=30":                     `"30" is not a duration`,
	} {
		set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		NewFlags(set)
		err := set.Parse([]string{args})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s…", args, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		name, variable string
		want           string // "" is no fault
	}{
		{"three levels", "WASMETER_ENGINE__SPECULATIVE__METHOD=none", ""},
		{"not configuration", "WASMETER_SERVICE_HOST=10.0.0.1", ""},
		{"a word without value", "WASMETER_X__Y", ""},
		{"unknown", "WASMETER_SERVER__PROT=1", "WASMETER_SERVER__PROT: server.prot: unknown key; did you mean WASMETER_SERVER__PORT?"},
		{"unlike any", "WASMETER_FOO__QUX=1", "WASMETER_FOO__QUX: foo.qux: unknown key; known are server, model, engine, metrics, ledger, sim, log"},
		{"lower case", "WASMETER_SERVER__port=1", "WASMETER_SERVER__port: server.port: unknown key; did you mean WASMETER_SERVER__PORT?"},
		{"a section", "WASMETER_ENGINE__SPECULATIVE=none", "WASMETER_ENGINE__SPECULATIVE: engine.speculative: unknown key; did you mean"},
		{"bad value", "WASMETER_SERVER__PORT=x", `WASMETER_SERVER__PORT: server.port: "x" is not a whole number`},
		{"out of range", "WASMETER_SERVER__PORT=70000", `WASMETER_SERVER__PORT: server.port: 70000 is not in 0 … 65535`},
		{"plugins", "WASMETER_PLUGINS__0__PATH=x", "plugins stand in the file only"},
		{"later", "WASMETER_LEDGER__SINKS=nats://u:sk-secret@h", "WASMETER_LEDGER__SINKS: ledger.sinks: (not shown) is not available yet; leave the key out"},
		{"malformed secret", "WASMETER_SERVER__API_KEYS=sk-secret\x01", "it is not shown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(Sources{Environ: []string{test.variable}})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%s: %v", test.variable, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%s: got %v, want %s", test.variable, err, test.want)
			case err != nil && strings.Contains(err.Error(), "sk-secret"):
				t.Errorf("%s: a secret is printed: %v", test.variable, err)
			}
		})
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	big := write(t, "# "+strings.Repeat("x", maxFileBytes))
	for path, want := range map[string]string{
		"testdata/none.yaml": "no such file",
		"testdata":           "testdata is not a file",
		big:                  "a configuration has at most 1048576",
	} {
		if _, err := Load(Sources{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s…", path, err, want)
		}
	}
}

// TestFaultsKnowTheirKeys guards the agreement that a fault of Validate begins
// with its key: otherwise it would lose its place.
func TestFaultsKnowTheirKeys(t *testing.T) {
	_, err := Load(Sources{File: "testdata/bad/ranges.yaml"})
	for _, e := range flatten("", err) {
		var fault *Fault
		if !errors.As(e, &fault) || fault.Origin.Layer != LayerFile || fault.Origin.Line == 0 {
			t.Errorf("fault without a line: %v", e)
		}
	}
}

func TestManyFaults(t *testing.T) {
	_, err := Load(Sources{File: write(t, strings.Repeat("server: {x: 1}\n", 500))})
	if lines := strings.Count(err.Error(), "\n") + 1; lines != maxFaults+1 || !strings.Contains(err.Error(), "faults more") {
		t.Errorf("%d lines, want %d and a count of the rest:\n%v", lines, maxFaults+1, err)
	}
}

func TestChain(t *testing.T) {
	metrics := Plugin{Spec: plugin.Spec{Name: "metrics", Path: "mine.wasm"}}
	billing := Plugin{Spec: plugin.Spec{Name: "billing", Path: "billing.wasm"}}
	for _, test := range []struct {
		name       string
		perRequest bool
		specDecode string
		listed     []Plugin
		want       []string
	}{
		{"nothing asked", false, "none", []Plugin{billing}, []string{"billing"}},
		{"per request", true, "none", []Plugin{billing}, []string{"metrics", "billing"}},
		{"speculation", false, "summary", nil, []string{"metrics"}},
		{"the operator's own", true, "none", []Plugin{billing, metrics}, []string{"billing", "metrics"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Default()
			c.Host.Metrics.PerRequest, c.Host.Metrics.SpecDecode, c.Plugins = test.perRequest, test.specDecode, test.listed
			var got []string
			for _, p := range c.Chain() {
				got = append(got, p.Name)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
