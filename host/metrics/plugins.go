package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// plugins are the series of the plugins' calls.
type plugins struct {
	calls          *prometheus.CounterVec
	failures       *prometheus.CounterVec
	duration, fuel *prometheus.HistogramVec
	recycles       *prometheus.CounterVec
	reloadFailures prometheus.Counter

	// known finds the series of what has been called without a lock, in a
	// fraction of the time that the vectors take. It is replaced, never changed.
	known atomic.Pointer[map[pluginHook]*pluginSeries]
	mu    sync.Mutex // held to replace known
}

type pluginHook struct{ plugin, hook string }

type pluginSeries struct {
	calls, recycles prometheus.Counter
	duration, fuel  prometheus.Observer
}

func newPlugins(f promauto.Factory) *plugins {
	p := &plugins{
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmeter_plugin_calls_total",
			Help: "Calls of plugins' hooks, with those that failed and those that were left out since the plugin fails too often or, in finish, is disabled.",
		}, []string{"plugin", "hook"}),
		failures: f.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmeter_plugin_failures_total",
			Help: "Calls of plugins' hooks that failed or were left out, by kind: trap, out_of_fuel, memory, timeout, bad_result, denied_key, pool_exhausted, init, breaker_open, disabled.",
		}, []string{"plugin", "hook", "kind"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wasmeter_plugin_duration_seconds",
			Help:    "Time of the calls of plugins' hooks, failed ones and waiting for an instance included.",
			Buckets: pluginDurationBuckets,
		}, []string{"plugin", "hook"}),
		fuel: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wasmeter_plugin_fuel",
			Help:    "Fuel that calls of plugins' hooks used, of calls that ran. A call that used its budget up is in the bucket above it.",
			Buckets: pluginFuelBuckets,
		}, []string{"plugin", "hook"}),
		recycles: f.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmeter_plugin_recycles_total",
			Help: "Instances thrown away after a call: it trapped, or the plugin's isolation asks for it.",
		}, []string{"plugin"}),
		reloadFailures: f.NewCounter(prometheus.CounterOpts{
			Name: "wasmeter_plugin_reload_failures_total",
			Help: "Reloads that were refused as a whole; what ran before goes on.",
		}),
	}
	p.known.Store(&map[pluginHook]*pluginSeries{})
	return p
}

// PluginCall is one time that a plugin's hook was due.
type PluginCall struct {
	// Plugin is the name in the configuration, Hook the hook's.
	Plugin, Hook string
	// Failure is its kind, empty for none.
	Failure string
	// Fuel is the units used, 0 if the guest did not run.
	Fuel int64
	// Duration is 0 if the call was left out.
	Duration time.Duration
	// Recycled says that the instance was thrown away.
	Recycled bool
}

// PluginCall counts a call. It may be called from any goroutine.
func (m *Metrics) PluginCall(c PluginCall) {
	s := m.plugins.of(pluginHook{c.Plugin, c.Hook})
	s.calls.Inc()
	if c.Duration > 0 {
		s.duration.Observe(c.Duration.Seconds())
	}
	if c.Fuel > 0 {
		s.fuel.Observe(float64(c.Fuel))
	}
	if c.Recycled {
		s.recycles.Inc()
	}
	if c.Failure != "" {
		m.plugins.failures.WithLabelValues(label(c.Plugin), c.Hook, c.Failure).Inc()
	}
}

// PluginReloadFailed counts a reload that changed nothing.
func (m *Metrics) PluginReloadFailed() { m.plugins.reloadFailures.Inc() }

// of finds the series of a hook's calls.
func (p *plugins) of(h pluginHook) *pluginSeries {
	if s := (*p.known.Load())[h]; s != nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := *p.known.Load()
	if s := known[h]; s != nil {
		return s
	}
	plugin := label(h.plugin)
	s := &pluginSeries{
		calls:    p.calls.WithLabelValues(plugin, h.hook),
		duration: p.duration.WithLabelValues(plugin, h.hook),
		fuel:     p.fuel.WithLabelValues(plugin, h.hook),
		recycles: p.recycles.WithLabelValues(plugin),
	}
	more := maps.Clone(known)
	more[h] = s
	p.known.Store(&more)
	return s
}

// label is text that can be the value of a label.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
