package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Options steer a Run.
type Options struct {
	// Calls are those of each hook, at least 1.
	Calls int
	// Longest ends the calls of a hook that takes its time.
	Longest time.Duration
	// Frames are the requests that calls take in turn; none: some are made.
	Frames []*plugin.Frame
	// Model is what the frames that are made ask for; empty: sim.
	Model string
	// Native is a folder with the plugin's source in Go, to be measured beside
	// it; empty: none.
	Native string
}

// MaxCalls bounds what a run remembers: the time and the fuel of each call.
const MaxCalls = 10_000_000

// warmUp is the number of calls before those that count: the first ones touch
// memory and fill caches.
const warmUp = 1000

// runner is a plugin that is measured.
type runner struct {
	chain  *plugin.Chain
	loaded *plugin.Plugin
	kv     *plugin.MemoryKV
	state  plugin.State
	call   plugin.Call  // the last one
	denied *plugin.Deny // what the last call refused the request with
	failed error        // the last call's failure
}

// Run loads the plugin that spec describes and calls each of its hooks. Of
// options it uses what compiles and what is reserved.
func Run(ctx context.Context, options plugin.Options, spec plugin.Spec, o Options) (report *Report, err error) {
	if o.Calls < 1 || o.Calls > MaxCalls {
		return nil, fmt.Errorf("%d calls; 1 to %d", o.Calls, MaxCalls)
	}
	frames := o.Frames
	if len(frames) == 0 {
		frames = generated(cmp.Or(o.Model, "sim"))
	}
	r := &runner{kv: plugin.NewMemoryKV()}
	options.KV, options.NoBreaker, options.Observer, options.Sampled = r.kv, true, func(c plugin.Call) { r.call = c }, func(plugin.Sample) {}
	spec.OnError, spec.SHA256, spec.Match = plugin.Closed, "", plugin.Match{}
	host, err := plugin.NewHost(ctx, options)
	if err != nil {
		return nil, err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, host.Close(end)) }()
	current := plugin.NewCurrent(host)
	defer func() { err = errors.Join(err, current.Close(end)) }()
	if err := current.Reload(ctx, []plugin.Spec{spec}); err != nil {
		return nil, err
	}
	set := current.Acquire()
	defer set.Release()
	r.loaded = set.Plugins()[0] // there is one
	if r.chain, err = plugin.NewChain(r.loaded); err != nil {
		return nil, err
	}
	report = &Report{SHA256: r.loaded.Hash(), Frames: len(frames), Hooks: []Hook{}}
	for _, hook := range [...]plugin.Hook{plugin.HookRequest, plugin.HookChunk, plugin.HookShape, plugin.HookFinish} {
		if !r.chain.Has(hook) {
			continue
		}
		h, err := r.measure(ctx, hook, given(hook, frames), o)
		if err != nil {
			return nil, err
		}
		report.Hooks = append(report.Hooks, h)
	}
	stats := r.loaded.Stats()
	report.Instances, report.Recycled = stats.Instances, stats.Recycled
	if o.Native != "" {
		if err := native(ctx, o, spec.Config, frames, report.Hooks); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// measure calls one hook.
func (r *runner) measure(ctx context.Context, hook plugin.Hook, frames []*plugin.Frame, o Options) (Hook, error) {
	times, fuel, failures := make([]int64, 0, o.Calls), make([]int64, 0, o.Calls), make(map[string]int)
	for i := range min(warmUp, o.Calls) {
		if err := r.once(ctx, hook, frames[i%len(frames)]); err != nil {
			return Hook{}, err
		}
	}
	runtime.GC()
	h := Hook{Hook: hook.String(), Failures: failures, MemoryBefore: r.loaded.Stats().MemoryBytes}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for began := time.Now(); len(times) < o.Calls && (o.Longest == 0 || time.Since(began) < o.Longest); {
		frame := frames[len(times)%len(frames)]
		call := time.Now()
		if err := r.once(ctx, hook, frame); err != nil {
			return Hook{}, err
		}
		times, fuel = append(times, int64(time.Since(call))), append(fuel, r.call.Fuel)
		if r.call.Failure != "" {
			failures[string(r.call.Failure)]++
		}
		if r.failed != nil {
			h.Failure = r.failed.Error()
		}
		if r.denied != nil {
			h.Denied++
			h.Denial = r.denied.Message
		}
		h.MemoryAfter = max(h.MemoryAfter, r.loaded.Stats().MemoryBytes)
	}
	runtime.ReadMemStats(&after)
	h.Calls = len(times)
	h.HostAllocs = float64(after.Mallocs-before.Mallocs) / float64(h.Calls)
	h.HostBytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(h.Calls)
	h.Time, h.Fuel = timesOf(times), fuelOf(fuel)
	return h, nil
}

// once calls a hook as the server does. A failure of the plugin is not an
// error: its call says so.
func (r *runner) once(ctx context.Context, hook plugin.Hook, frame *plugin.Frame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.state.Reset()
	r.denied, r.failed = nil, nil
	switch hook {
	case plugin.HookRequest:
		var verdict plugin.Verdict
		verdict, r.failed = r.chain.Request(ctx, frame, &r.state)
		r.denied = verdict.Deny
	case plugin.HookChunk:
		_, r.failed = r.chain.Chunk(ctx, frame, &r.state, frame.Document)
	case plugin.HookShape:
		_, r.failed = r.chain.Shape(ctx, frame, &r.state)
	case plugin.HookFinish:
		finished := r.chain.Finish(ctx, frame, &r.state)
		if len(finished.Failed) > 0 {
			r.failed = finished.Failed[0]
		}
		if len(finished.Writes) > 0 {
			// A full store is the plugin's affair, and no error of the measurement.
			_ = r.kv.Write(finished.Writes)
		}
	}
	return nil
}
