package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// plugins are the series of the plugins' calls.
type plugins struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	// mu guards resolved: what has been called, so that the next call finds its
	// series in a fraction of the time that the vectors take.
	mu       sync.RWMutex
	resolved map[pluginCall]pluginSeries
}

type pluginCall struct{ plugin, hook, result string }

type pluginSeries struct {
	calls    prometheus.Counter
	duration prometheus.Observer
}

func newPlugins(f promauto.Factory) *plugins {
	return &plugins{
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmeter_plugin_calls_total",
			Help: "Calls of plugins' hooks, by result: ok or the kind of failure.",
		}, []string{"plugin", "hook", "result"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wasmeter_plugin_call_duration_seconds",
			Help:    "Time of plugins' hooks, failed calls included.",
			Buckets: pluginDurationBuckets,
		}, []string{"plugin", "hook"}),
		resolved: make(map[pluginCall]pluginSeries),
	}
}

// PluginCall counts a call of a plugin's hook that took d. plugin is the name in
// the configuration, result the kind of failure, empty for none. It may be called
// from any goroutine.
func (m *Metrics) PluginCall(plugin, hook, result string, d time.Duration) {
	s := m.plugins.of(pluginCall{plugin, hook, result})
	s.calls.Inc()
	s.duration.Observe(d.Seconds())
}

// of finds the series of a call.
func (p *plugins) of(c pluginCall) pluginSeries {
	p.mu.RLock()
	s, ok := p.resolved[c]
	p.mu.RUnlock()
	if ok {
		return s
	}
	plugin := strings.ToValidUTF8(c.plugin, "\uFFFD")
	result := c.result
	if result == "" {
		result = "ok"
	}
	s = pluginSeries{p.calls.WithLabelValues(plugin, c.hook, result), p.duration.WithLabelValues(plugin, c.hook)}
	p.mu.Lock()
	p.resolved[c] = s
	p.mu.Unlock()
	return s
}
