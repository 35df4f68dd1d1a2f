package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// engine is the server's host that runs guests in one way, and what they did in
// it. It runs one case at a time.
type engine struct {
	name string
	host *plugin.Host
	// last is the plugin of the case before. It stays open until the next is loaded:
	// a host keeps compiled what somebody uses, and it is most often the same module.
	last *plugin.Plugin

	// Of the case under way.
	now    int64
	keys   notebook
	calls  []plugin.Call
	sample []plugin.Sample
	logs   []Line
	why    string // of the last failure
}

// newEngine makes a host as the server's, that goes by the cases' clock and does
// not mind how often a plugin fails.
func newEngine(ctx context.Context, name string, options plugin.Options, interpreted bool) (*engine, error) {
	e := &engine{name: name}
	if options.Interpreted = interpreted; interpreted {
		options.CacheDir, options.CompileCommand = "", nil // there is nothing to compile
	}
	options.Logger = slog.New((*logHandler)(e))
	options.Observer = func(c plugin.Call) { e.calls = append(e.calls, c) }
	options.Sampled = func(s plugin.Sample) { e.sample = append(e.sample, s) }
	options.KV = &e.keys
	options.NoBreaker = true
	options.Now = e.clock
	host, err := plugin.NewHost(ctx, options)
	e.host = host
	return e, err
}

func (e *engine) closeLast(ctx context.Context) error {
	if e.last == nil {
		return nil
	}
	defer func() { e.last = nil }()
	return e.last.Close(ctx)
}

func (e *engine) close(ctx context.Context) error {
	return errors.Join(e.closeLast(ctx), e.host.Close(ctx))
}

// begin forgets the case before.
func (e *engine) begin() {
	e.now = defaultNow
	e.keys = notebook{kv: plugin.NewMemoryKVAt(e.clock)}
	e.forget()
}

func (e *engine) clock() time.Time { return time.Unix(0, e.now) }

// forget forgets the step before.
func (e *engine) forget() {
	e.keys.writes, e.calls, e.sample, e.logs, e.why = nil, nil, nil, nil, ""
}

// run runs a case and gives the result of each step. refused is why the plugin
// was not loaded.
func (e *engine) run(ctx context.Context, spec plugin.Spec, c *Case) (results []Result, refused, err error) {
	e.begin()
	for _, w := range c.KV {
		w.Plugin = spec.Name
		if err := e.keys.kv.Write([]plugin.Write{w}); err != nil {
			return nil, nil, fmt.Errorf("kv: %q: %w", w.Key, err)
		}
	}
	p, err := e.host.Load(ctx, spec)
	if err != nil {
		return nil, err, nil
	}
	if err := e.closeLast(ctx); err != nil {
		return nil, nil, err
	}
	e.last = p
	chain, err := plugin.NewChain(p)
	if err != nil {
		return nil, nil, err
	}
	state := new(plugin.State)
	for i := range c.Steps {
		s := &c.Steps[i]
		if !chain.Has(s.Hook) {
			return nil, nil, fmt.Errorf("step %d: the plugin has no hook %s with this configuration", i+1, s.Hook)
		}
		if s.Begins {
			state.Reset()
		}
		r, err := e.step(ctx, chain, state, s)
		if err != nil {
			return nil, nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		results = append(results, r)
	}
	return results, nil, nil
}

// step calls a hook.
func (e *engine) step(ctx context.Context, chain *plugin.Chain, state *plugin.State, s *Step) (r Result, err error) {
	e.forget()
	e.now = s.NowUnixNS
	carried := state.Carry(0)
	frame := s.Frame
	// A failure of a plugin that is configured as closed is an error of the chain.
	// The observer has been told of it, as of any other.
	switch s.Hook {
	case plugin.HookRequest:
		verdict, _ := chain.Request(ctx, &frame, state)
		r.Deny, r.Headers = verdict.Deny, slices.Clone(verdict.Headers)
	case plugin.HookChunk:
		sent, err := chain.Chunk(ctx, &frame, state, frame.Document)
		if err == nil && !bytes.Equal(sent, frame.Document) {
			r.Document = bytes.Clone(sent)
		}
	case plugin.HookShape:
		shaped, _ := chain.Shape(ctx, &frame, state)
		r.Fields, r.Usage = object(shaped.Members), object(shaped.Usage)
		r.Headers, r.Document = slices.Clone(shaped.Headers), bytes.Clone(shaped.Document)
	case plugin.HookFinish:
		finished := chain.Finish(ctx, &frame, state)
		for _, record := range finished.Records {
			record.Data = bytes.Clone(record.Data)
			r.Records = append(r.Records, record)
		}
		if err := e.keys.Write(finished.Writes); err != nil {
			return r, fmt.Errorf("commit the keys: %w", err)
		}
	}
	if now := state.Carry(0); now != carried {
		r.Carry = now
	}
	r.KV, r.Logs, r.Why = e.keys.writes, e.logs, e.why
	for _, s := range e.sample {
		r.Metrics = append(r.Metrics, sampleOf(s))
	}
	for _, call := range e.calls {
		r.Called, r.Fuel = true, call.Fuel
		if call.Failure != plugin.FailureTimeout { // that is the machine's affair
			r.Failure = string(call.Failure)
		}
	}
	return r, nil
}

// object makes a JSON object of members, nil of none.
func object(members []byte) []byte {
	if len(members) == 0 {
		return nil
	}
	return slices.Concat([]byte("{"), members, []byte("}"))
}

// notebook is a store of keys that notes what is written.
type notebook struct {
	kv     *plugin.MemoryKV
	writes []plugin.Write
}

// Get implements plugin.KV.
func (n *notebook) Get(name string, key []byte) ([]byte, bool, error) { return n.kv.Get(name, key) }

// Add implements plugin.KV.
func (n *notebook) Add(name string, key []byte, delta int64, ttl time.Duration) (int64, error) {
	sum, err := n.kv.Add(name, key, delta, ttl)
	if err == nil {
		n.note(plugin.Write{Key: key, Counter: true, Delta: delta, TTL: ttl})
	}
	return sum, err
}

// Write implements plugin.KV.
func (n *notebook) Write(writes []plugin.Write) error {
	if err := n.kv.Write(writes); err != nil {
		return err
	}
	for _, w := range writes {
		n.note(w)
	}
	return nil
}

func (n *notebook) note(w plugin.Write) {
	w.Key, w.Value = bytes.Clone(w.Key), bytes.Clone(w.Value)
	n.writes = append(n.writes, w)
}

// logHandler takes the host's log: what the plugin says, and how it fails.
type logHandler engine

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		switch {
		case record.Message == "plugin log" && a.Key == "text":
			level := map[slog.Level]string{slog.LevelDebug: "debug", slog.LevelInfo: "info", slog.LevelWarn: "warn", slog.LevelError: "error"}[record.Level]
			h.logs = append(h.logs, Line{level, a.Value.String()})
		case record.Message == "plugin call failed" && a.Key == "error":
			h.why = a.Value.String()
		}
		return true
	})
	return nil
}
