package metrics

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Declaration is a metric that the configuration gives a plugin.
type Declaration struct {
	// Plugin and Name make the series' name: wasmeter_plugin_PLUGIN_NAME, with
	// _total behind a counter's.
	Plugin, Name, Help string
	// Histogram counts values by size; otherwise they are added up.
	Histogram bool
	// Buckets are a histogram's upper bounds, rising; empty for Prometheus' own.
	Buckets []float64
	Labels  []string
}

// Declare makes a plugin's metric and returns what takes its values, with one
// label value for each label. A metric that was declared alike before goes on
// counting; one of the same name that differs is an error.
func (m *Metrics) Declare(d Declaration) (func(value float64, labels ...string), error) {
	name := "wasmeter_plugin_" + strings.ReplaceAll(d.Plugin, "-", "_") + "_" + d.Name
	help := d.Help
	if help == "" {
		help = fmt.Sprintf("Written by the plugin %s.", d.Plugin)
	}
	if !d.Histogram {
		counters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: strings.TrimSuffix(name, "_total") + "_total", Help: help}, d.Labels)
		counters, err := register(m.registry, counters)
		if err != nil {
			return nil, fmt.Errorf("plugin %q, metric %q: %w", d.Plugin, d.Name, err)
		}
		return func(value float64, labels ...string) {
			if value >= 0 { // a counter does not fall; NaN is no value
				counters.WithLabelValues(labels...).Add(value)
			}
		}, nil
	}
	histograms := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: d.Buckets}, d.Labels)
	histograms, err := register(m.registry, histograms)
	if err != nil {
		return nil, fmt.Errorf("plugin %q, metric %q: %w", d.Plugin, d.Name, err)
	}
	return func(value float64, labels ...string) { histograms.WithLabelValues(labels...).Observe(value) }, nil
}

// register adds a collector, or finds the one that was declared alike.
func register[C prometheus.Collector](r *prometheus.Registry, c C) (C, error) {
	var there prometheus.AlreadyRegisteredError
	err := r.Register(c)
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}
