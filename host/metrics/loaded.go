package metrics

import "github.com/prometheus/client_golang/prometheus"

// LoadedPlugin is what a plugin takes at the moment of a scrape.
type LoadedPlugin struct {
	Name        string
	Instances   int
	MemoryBytes int64
	// Breaker is 0 while every call is let through, 1 while one is tried, 2 while
	// the plugin is left alone.
	Breaker int
	// Disabled says that an operator has stopped it.
	Disabled bool
}

// loaded gives the gauges of the plugins that requests begin with. It asks for
// them when it is scraped, so that those of a plugin go with the plugin.
type loaded struct{ list func() []LoadedPlugin }

var (
	instancesDesc = loadedDesc("instances", "Instances of the plugin's module.")
	memoryDesc    = loadedDesc("memory_bytes", "Linear memory of the plugin's instances.")
	breakerDesc   = loadedDesc("breaker_state", "0 if the plugin is called, 1 if one call is tried, 2 if it failed too often and is left alone.")
	disabledDesc  = loadedDesc("disabled", "1 if an operator has stopped the plugin.")
)

func loadedDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("wasmeter_plugin_"+name, help, []string{"plugin"}, nil)
}

// Describe implements prometheus.Collector.
func (l loaded) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{instancesDesc, memoryDesc, breakerDesc, disabledDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (l loaded) Collect(to chan<- prometheus.Metric) {
	for _, p := range l.list() {
		name, disabled := label(p.Name), 0.
		if p.Disabled {
			disabled = 1
		}
		gauge := func(d *prometheus.Desc, v float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
		}
		gauge(instancesDesc, float64(p.Instances))
		gauge(memoryDesc, float64(p.MemoryBytes))
		gauge(breakerDesc, float64(p.Breaker))
		gauge(disabledDesc, disabled)
	}
}
