package main

import (
	"log/slog"
	"sync"

	"github.com/wasmeter/wasmeter/host/metrics"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// counts takes what plugins do to Prometheus. Plugins are loaded before the
// model's name is known, and with it the series: until then nothing is counted,
// and nothing is called.
type counts struct {
	logger *slog.Logger
	// metrics is set before the first request.
	metrics *metrics.Metrics
	// declared holds a func(float64, ...string) for each *plugin.Metric.
	declared sync.Map
}

// call is told of a plugin's call.
func (c *counts) call(call plugin.Call) {
	if c.metrics != nil {
		c.metrics.PluginCall(metrics.PluginCall{
			Plugin: call.Plugin, Hook: call.Hook.String(), Failure: string(call.Failure),
			Fuel: call.Fuel, Duration: call.Duration, Recycled: call.Recycled,
		})
	}
}

// loaded lists what plugins take at the moment.
func loaded(current *plugin.Current) []metrics.LoadedPlugin {
	_, plugins := current.Status()
	list := make([]metrics.LoadedPlugin, len(plugins))
	for i, p := range plugins {
		list[i] = metrics.LoadedPlugin{
			Name: p.Name, Instances: p.Instances, MemoryBytes: p.MemoryBytes, Disabled: p.Disabled,
			Breaker: map[plugin.BreakerState]int{plugin.BreakerProbing: 1, plugin.BreakerOpen: 2}[p.Breaker],
		}
	}
	return list
}

// sample is told a value of a metric that the configuration gives a plugin.
func (c *counts) sample(s plugin.Sample) {
	if c.metrics == nil {
		return
	}
	take, known := c.declared.Load(s.Metric)
	if !known {
		take, _ = c.declared.LoadOrStore(s.Metric, c.declare(s))
	}
	take.(func(float64, ...string))(s.Value, s.Metric.LabelValues(s.Series)...)
}

func (c *counts) declare(s plugin.Sample) func(float64, ...string) {
	d := metrics.Declaration{
		Plugin: s.Plugin, Name: s.Metric.Name, Help: s.Metric.Help,
		Histogram: s.Metric.Type == plugin.Histogram, Buckets: s.Metric.Buckets,
	}
	for _, l := range s.Metric.Labels {
		d.Labels = append(d.Labels, l.Name)
	}
	take, err := c.metrics.Declare(d)
	if err != nil {
		c.logger.Warn("a plugin's metric is not counted", "error", err)
		return func(float64, ...string) {}
	}
	return take
}
