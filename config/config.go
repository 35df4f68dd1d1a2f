// Package config puts the Options of every package side by side and fills
// them from four layers: defaults, a YAML file, environment variables, flags.
// A later layer wins.
//
// A key is declared once, in keys.go: its name, its flag, the field it steers.
// What it means, its unit, default and limits stand at that field. An unknown
// key or a bad value is a Fault that names the place, the key and what is
// allowed; all faults of a configuration are reported together.
//
// Paths in a configuration start at the working directory, like those given
// as flags.
package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host"
)

// Config is everything that steers a server.
type Config struct {
	// Host holds the keys server and metrics, and engine.prefix_cache_scope.
	Host host.Options
	// Access holds the keys of server that say who may ask.
	Access Access
	Model  Model
	Engine engine.Options
	// Device and Draft are further keys of engine.
	Device Device
	Draft  Draft
	// Plugins is the chain, in order. See Plugin.
	Plugins []Plugin
	Ledger  Ledger
	Sim     Sim
	Log     Log

	file    string // that was read, "" for none
	origins map[string]Origin
}

// File is the file that the configuration was read from, "" for none.
func (c *Config) File() string { return c.file }

// Access says who may ask, and where operators do.
type Access struct {
	// Admin is the address of the operators' listener, host:port: it lists,
	// reloads, stops and tries plugins, and shows metrics. Other machines may
	// reach it if AdminTokenFile is set, or server.insecure. Empty: there is none.
	Admin string
	// AdminTokenFile holds the token that operators show, a line of 16 to 1024
	// characters. Empty: a token is made at each start and written to a file of
	// this user's, which the log names. /metrics there asks for it only where
	// metrics.guarded.
	AdminTokenFile string
	// APIKeysFile is the YAML file of keys, their names and tenants; see package
	// host/keys. Without a file and without keys, everyone may ask.
	APIKeysFile string
	// APIKeys are keys given directly, named key-1, key-2, …, each a tenant of
	// its own. They are never printed.
	APIKeys []string
}

// Model says what is served.
type Model struct {
	// Path is a GGUF file, a folder of safetensors, or org/repo[:file][@revision]
	// of the Hugging Face hub. Default: the file in models/.
	Path string
	// Quantize converts matrices of floats (F32, F16, BF16) while they load: q8_0
	// takes 8.5 bits a weight, and is faster; none leaves them. Default none.
	Quantize string
	// ServedNames are the names by which requests may call the model. Default:
	// the file's name without .gguf and without the word for its weights, such as
	// .Q4_1.
	ServedNames []string
}

// Device says where the model is computed.
type Device struct {
	// Name is auto, cpu, or cuda with an optional index, cuda:1. cuda needs a build
	// with it (-tags cuda). auto takes the first GPU if the build has CUDA and a GPU
	// can be opened, and else the CPU, with a warning that says why. Default auto.
	Name string
	// GPUMemoryUtilization is the share of the GPU's free memory that weights,
	// cache and activations take together, above 0 and up to 1. The CPU has none.
	// Default 0.9.
	GPUMemoryUtilization float64
	// CuBLASLt says whether NVIDIA's cuBLASLt multiplies prompts on a GPU: off, auto or
	// on. It does for weights of F16 and BF16 in steps of more than 64 rows; all else
	// stays with the kernels of this program. auto uses the library if it can be loaded
	// and says in the log what it found; on ends the start where it can't. It takes
	// 32 MiB and six bytes for each row of a step and column of the widest activation.
	// It has not been measured on a GPU. Default off.
	CuBLASLt string
	// Threads is the number of computing threads, 0 … 1024. Default 0: the
	// cores that are free to this process, by affinity and cgroup quota.
	Threads int
	// KVCacheType is how keys and values are stored, f16 or q8_0. q8_0 takes 17/32
	// of the memory, so the same engine.kv_cache_memory holds nearly twice the
	// tokens and long contexts are read faster; it errs by up to 1/254 of the
	// largest of 32 values, and engine.block_size is at least 16 with it. On a GPU
	// only f16. Default f16.
	KVCacheType string
}

// Draft is the smaller model that guesses tokens where engine.speculative.method
// is draft; the other keys of engine.speculative are the engine's own.
type Draft struct {
	// Path is its file or name in a hub, as model.path. It must have the same
	// vocabulary as the model.
	Path string
}

// Ledger is the durable record of what was used.
type Ledger struct {
	// Path is the file of usage records: JSON lines, with a name that ends in
	// .jsonl. A database is not available yet. Empty: no records are kept.
	Path string
	// Sinks are the URLs that usage records are sent to. Not available yet: must
	// be empty.
	Sinks []string
}

// Sim is the latency profile of `wasmeter serve sim`, a device that computes
// nothing and takes its time. Each is 0 … 1 minute.
type Sim struct {
	// PrefillPerToken is the time one prompt token adds to a step. Default 50µs.
	PrefillPerToken time.Duration
	// StepBase is the time of a step before any work. Default 5ms.
	StepBase time.Duration
	// PerSequence is the time each decoding sequence adds to a step. Default 100µs.
	PerSequence time.Duration
	// Jitter is the longest time that is added to a step at random. Default 0s.
	Jitter time.Duration
}

// Log says what is written to standard error.
type Log struct {
	// Level is the least level written: debug, info, warn or error. Default info.
	Level string
}

// Default is the configuration of a server that was told nothing.
func Default() Config {
	return Config{
		Host:   host.Default(),
		Model:  Model{Quantize: "none"},
		Engine: engine.Default(),
		Device: Device{Name: "auto", GPUMemoryUtilization: 0.9, CuBLASLt: "off", KVCacheType: "f16"},
		Sim: Sim{
			PrefillPerToken: 50 * time.Microsecond,
			StepBase:        5 * time.Millisecond,
			PerSequence:     100 * time.Microsecond,
		},
		Log: Log{Level: "info"},
	}
}

// Validate collects every fault: values out of range, and values that
// contradict each other. A fault begins with the key it is about.
func (c *Config) Validate() error {
	faults := flatten("", c.Host.Validate())
	faults = append(faults, flatten("engine.", c.Engine.Validate())...)
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	keys := len(c.Access.APIKeys)
	if c.Access.APIKeysFile != "" {
		keys++ // it holds at least one, or does not load
	}
	if err := c.Host.Server.Open(keys); err != nil {
		faults = append(faults, err)
	}
	if err := c.validateAdmin(); err != nil {
		faults = append(faults, err)
	}
	check(c.Ledger.Path == "" || strings.HasSuffix(c.Ledger.Path, ".jsonl"),
		"ledger.path: %s: a database is not available yet; use a file of JSON lines, with a name that ends in .jsonl", c.Ledger.Path)
	check(c.Device.Threads >= 0 && c.Device.Threads <= 1024,
		"engine.threads: %d is not in 0 … 1024; use 0 for the free cores", c.Device.Threads)
	check(c.Device.GPUMemoryUtilization > 0 && c.Device.GPUMemoryUtilization <= 1,
		"engine.gpu_memory_utilization: %g is not above 0 and up to 1; 0.9 leaves a tenth to others", c.Device.GPUMemoryUtilization)
	check(c.Device.Name != "cpu" || c.Device.CuBLASLt != "on",
		"engine.cublaslt: on needs a GPU, and engine.device is cpu; use off or auto, or engine.device: cuda")
	check(!strings.HasPrefix(c.Device.Name, "cuda") || c.Device.KVCacheType == "f16",
		"engine.kv_cache_type: %s is not supported on %s; use f16, or engine.device: cpu", c.Device.KVCacheType, c.Device.Name)
	check(c.Device.KVCacheType != "q8_0" || c.Engine.BlockSize >= 16,
		"engine.block_size: %d is too small for engine.kv_cache_type q8_0, whose keys lie in groups of 16; use 16 or 32, or f16", c.Engine.BlockSize)
	method := c.Engine.Speculative.Method
	check(c.Host.Metrics.SpecDecode == "none" || method != engine.SpeculativeNone,
		"metrics.spec_decode: %s needs speculative decoding, and engine.speculative.method is none; set it to ngram (--speculative-method), or use none", c.Host.Metrics.SpecDecode)
	check(c.Draft.Path != "" || method != engine.SpeculativeDraft,
		"engine.speculative.model: method draft needs a smaller model of the same vocabulary; name its file (--speculative-model), or use method ngram")
	check(c.Draft.Path == "" || method == engine.SpeculativeDraft,
		"engine.speculative.model: %s guesses nothing while engine.speculative.method is %s; set it to draft, or leave the model out", c.Draft.Path, method)
	for _, d := range []struct {
		key  string
		time time.Duration
	}{{"prefill_per_token", c.Sim.PrefillPerToken}, {"step_base", c.Sim.StepBase}, {"per_sequence", c.Sim.PerSequence}, {"jitter", c.Sim.Jitter}} {
		check(d.time >= 0 && d.time <= time.Minute, "sim.%s: %s is not in 0s … 1m", d.key, d.time)
	}
	for i := range c.Model.ServedNames {
		check(!slices.Contains(c.Model.ServedNames[:i], c.Model.ServedNames[i]),
			"model.served_names: %q stands there twice", c.Model.ServedNames[i])
	}
	faults = append(faults, validatePlugins(c.Plugins)...)
	for _, k := range c.keys() {
		if err := k.available(); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// AdminHost is the host of server.admin, "" for none.
func (c *Config) AdminHost() string {
	name, _, _ := net.SplitHostPort(c.Access.Admin) // Validate has seen that it is host:port
	return name
}

func (c *Config) validateAdmin() error {
	if c.Access.Admin == "" {
		return nil
	}
	name, port, err := net.SplitHostPort(c.Access.Admin)
	if err != nil {
		return fmt.Errorf("server.admin: %s is not host:port", c.Access.Admin)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("server.admin: port %s is not in 0 … 65535", port)
	}
	tokens := 0
	if c.Access.AdminTokenFile != "" {
		tokens = 1
	}
	if (host.ServerOptions{Host: name, Insecure: c.Host.Server.Insecure}).Open(tokens) != nil {
		return fmt.Errorf("server.admin: %s can be reached from other machines; set server.admin_token_file to a token of your own, use 127.0.0.1, or set server.insecure: true", name)
	}
	return nil
}

// flatten lists the faults of a joined error, each with its section before it.
func flatten(section string, err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{fmt.Errorf("%s%w", section, err)}
	}
	var faults []error
	for _, e := range joined.Unwrap() {
		faults = append(faults, fmt.Errorf("%s%w", section, e))
	}
	return faults
}

// Changed lists the keys whose values differ from another configuration's and
// can't change while the server runs.
func (c *Config) Changed(other *Config) []string {
	var names []string
	theirs := other.keys()
	for i, k := range c.keys() {
		if !k.live && k.value.String() != theirs[i].value.String() {
			names = append(names, k.name)
		}
	}
	return names
}

// metricsPlugin is the built-in plugin that makes the documented metrics
// object, with the one field it needs.
const metricsPlugin = "metrics"

// Chain is the plugin list as it is to be loaded. Asking for per-request or
// speculative metrics puts the built-in metrics plugin at its head, unless the
// list has it.
func (c *Config) Chain() []Plugin {
	wanted := c.Host.Metrics.PerRequest || c.Host.Metrics.SpecDecode != "none"
	listed := slices.ContainsFunc(c.Plugins, func(p Plugin) bool {
		return p.Builtin == metricsPlugin || strings.EqualFold(p.Name, metricsPlugin)
	})
	if !wanted || listed {
		return c.Plugins
	}
	p := newPlugin()
	p.Name, p.Builtin, p.Grants.Fields = metricsPlugin, metricsPlugin, []string{"metrics"}
	return append([]Plugin{p}, c.Plugins...)
}
