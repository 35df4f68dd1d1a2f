package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wasmeter/wasmeter/engine"
)

// Options steer Metrics.
type Options struct {
	// ModelName is the first name under which the model is served. It is the
	// model_name of every series: names that clients send are no labels.
	ModelName string
	// Version is the program's own.
	Version string
	// LogStats keeps the `vllm:` series; without it there is not one of them.
	LogStats bool
	// PrefixCaching says that the engine looks prompts up in a prefix cache.
	// Without it no lookups are counted.
	PrefixCaching bool
	// NumSpeculative is the largest number of tokens that are guessed for a sequence
	// at a time; 0, for none, leaves their series out.
	NumSpeculative int
	// Plugins lists the plugins that requests begin with, at each scrape. Nil:
	// there are none.
	Plugins func() []LoadedPlugin
}

// Metrics holds the series of one engine and of the server around it, in a
// registry of its own.
type Metrics struct {
	options  Options
	registry *prometheus.Registry
	requests *requests
	plugins  *plugins
	// The rest is nil without LogStats. The sequences are made when the engine
	// starts.
	sequences                        *sequences
	rejectedRequests, rejectedTokens prometheus.Counter
}

// New makes the series that need no engine; the engine's appear when it starts.
func New(o Options) *Metrics {
	// Text that is not UTF-8 can be no label.
	o.ModelName, o.Version = label(o.ModelName), label(o.Version)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registry)
	f.NewGauge(prometheus.GaugeOpts{
		Name:        "wasmeter_build_info",
		Help:        "Always 1; the label is the program's version.",
		ConstLabels: prometheus.Labels{"version": o.Version},
	}).Set(1)
	m := &Metrics{
		options:  o,
		registry: registry,
		requests: newRequests(f),
		plugins:  newPlugins(f),
	}
	if o.Plugins != nil {
		registry.MustRegister(loaded{o.Plugins})
	}
	if o.LogStats {
		m.rejectedRequests = m.rejections(f, "max_num_queued_reqs")
		m.rejectedTokens = m.rejections(f, "max_num_queued_tokens")
	}
	return m
}

func (m *Metrics) rejections(f promauto.Factory, reason string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{
		Name:        "vllm:admission_rejections_total",
		Help:        "Requests refused because a bound of the waiting queue was reached.",
		ConstLabels: prometheus.Labels{"model_name": m.options.ModelName, "reason": reason},
	})
}

// Listener feeds the `vllm:` series from one engine. Without LogStats it listens
// to nothing.
func (m *Metrics) Listener() engine.Listener {
	if !m.options.LogStats {
		return engine.Listener{}
	}
	return engine.Listener{
		Start:  func(c engine.Capacity) { m.sequences = newSequences(m.registry, m.options, c) },
		Event:  func(r *engine.Request, e engine.Event, l *engine.Life) { m.sequences.event(r, e, l) },
		Finish: func(r *engine.Request, f engine.FinishReason, l *engine.Life) { m.sequences.finish(r, f, l) },
		Step:   func(s engine.Step) { m.sequences.step(s) },
	}
}

// AdmissionRejected counts a request that the engine refused to queue. It may be
// called from any goroutine.
func (m *Metrics) AdmissionRejected(err *engine.QueueFullError) {
	switch {
	case !m.options.LogStats:
	case err.Unit == "requests":
		m.rejectedRequests.Inc()
	default:
		m.rejectedTokens.Inc()
	}
}
