package admin

import (
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Plugins is the answer to GET /admin/plugins.
type Plugins struct {
	// Generation counts the reloads that succeeded, the start included.
	Generation uint64   `json:"generation"`
	Plugins    []Plugin `json:"plugins"`
}

// Plugin is one that requests begin with.
type Plugin struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	// Source is the module's file, or "builtin".
	Source string `json:"source"`
	// Generation is the reload that loaded it, at LoadedAt.
	Generation uint64    `json:"generation"`
	LoadedAt   time.Time `json:"loaded_at"`
	Hooks      []string  `json:"hooks"`
	OnError    string    `json:"on_error"`
	Grants     Grants    `json:"grants"`
	Match      Match     `json:"match,omitzero"`

	Disabled bool `json:"disabled"`
	// Breaker is closed while it is called, open while it is left alone since it
	// failed too often, probing while one call is tried.
	Breaker     string `json:"breaker"`
	Instances   int    `json:"instances"`
	MemoryBytes int64  `json:"memory_bytes"`
	// What follows counts since it was loaded.
	Recycles  uint64     `json:"recycles"`
	Calls     uint64     `json:"calls"`
	Failures  uint64     `json:"failures"`
	LastError *LastError `json:"last_error"`
}

// Grants are what the plugin may do, by the names of the configuration; what is
// not granted is left out.
type Grants struct {
	Fields        []string `json:"fields,omitempty"`
	UsageExtend   []string `json:"usage_extend,omitempty"`
	Headers       []string `json:"headers,omitempty"`
	Emit          bool     `json:"emit,omitzero"`
	Metrics       bool     `json:"metrics,omitzero"`
	Clock         bool     `json:"clock,omitzero"`
	KV            KVGrants `json:"kv,omitzero"`
	Read          Bodies   `json:"read,omitzero"`
	ContentEgress bool     `json:"content_egress,omitzero"`
	Rewrite       bool     `json:"rewrite,omitzero"`
	Deny          bool     `json:"deny,omitzero"`
}

// KVGrants say what it may do with keys.
type KVGrants struct {
	Read  bool `json:"read,omitzero"`
	Write bool `json:"write,omitzero"`
}

// Bodies are what it may read.
type Bodies struct {
	Request  bool `json:"request,omitzero"`
	Response bool `json:"response,omitzero"`
}

// Match says which requests it is for.
type Match struct {
	Models    []string `json:"models,omitempty"`
	Tenants   []string `json:"tenants,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
}

// LastError is its last failure.
type LastError struct {
	Time      time.Time `json:"time"`
	Hook      string    `json:"hook"`
	Kind      string    `json:"kind"`
	Message   string    `json:"message"`
	RequestID string    `json:"request_id"`
}

func describe(generation uint64, list []plugin.Status) Plugins {
	all := Plugins{Generation: generation, Plugins: make([]Plugin, 0, len(list))}
	for i := range list {
		all.Plugins = append(all.Plugins, describePlugin(&list[i]))
	}
	return all
}

func describePlugin(s *plugin.Status) Plugin {
	p := Plugin{
		Name: s.Name, SHA256: s.Hash, Source: s.Path, Generation: s.Generation, LoadedAt: s.Loaded.UTC(),
		Hooks: []string{}, OnError: s.Policy.String(), Match: Match(s.Match), Disabled: s.Disabled,
		Breaker: s.Breaker.String(), Instances: s.Instances, MemoryBytes: s.MemoryBytes,
		Recycles: s.Recycled, Calls: s.Calls, Failures: s.Failures,
	}
	if p.Source == "" {
		p.Source = "builtin"
	}
	for _, h := range s.Hooks {
		p.Hooks = append(p.Hooks, h.String())
	}
	g := &s.Grants
	p.Grants = Grants{
		Fields: g.Fields, UsageExtend: g.UsageExtend, Headers: g.Headers, Emit: g.Emit, Metrics: g.Metrics, Clock: g.Clock,
		KV: KVGrants{g.KVRead, g.KVWrite}, Read: Bodies{g.ReadRequest, g.ReadResponse},
		ContentEgress: g.ContentEgress, Rewrite: g.Rewrite, Deny: g.Deny,
	}
	if f := s.LastFailure; f != nil {
		p.LastError = &LastError{Time: f.Time.UTC(), Hook: f.Hook.String(), Kind: string(f.Kind), Message: f.Err.Error(), RequestID: f.RequestID}
	}
	return p
}

// SelfTest is the answer to POST /admin/plugins/{name}/selftest.
type SelfTest struct {
	Plugin string  `json:"plugin"`
	Passed bool    `json:"passed"`
	Calls  []Trial `json:"calls"`
}

// Trial is a call of a hook with a request that was never made.
type Trial struct {
	Hook           string  `json:"hook"`
	Request        string  `json:"request"`
	OK             bool    `json:"ok"`
	Fuel           int64   `json:"fuel"`
	DurationMillis float64 `json:"duration_ms"`
	Error          string  `json:"error,omitempty"`
}

func describeTrials(name string, trials []plugin.Trial) SelfTest {
	t := SelfTest{Plugin: name, Passed: true, Calls: make([]Trial, 0, len(trials))}
	for _, trial := range trials {
		call := Trial{
			Hook: trial.Hook.String(), Request: trial.Given, OK: trial.Err == nil, Fuel: trial.Fuel,
			DurationMillis: float64(trial.Duration.Nanoseconds()) / 1e6,
		}
		if trial.Err != nil {
			call.Error, t.Passed = trial.Err.Error(), false
		}
		t.Calls = append(t.Calls, call)
	}
	return t
}
