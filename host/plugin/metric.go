package plugin

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits of the metrics that a plugin declares.
const (
	maxMetrics = 32
	maxLabels  = 4
	maxSeries  = 256 // of one metric
	maxBuckets = 32
)

// MetricType is what a metric does with its values.
type MetricType uint8

// Metric types.
const (
	Counter   MetricType = iota // adds them up
	Histogram                   // counts them by size
)

// ParseMetricType reads a type as it stands in a configuration.
func ParseMetricType(text string) (MetricType, error) {
	switch text {
	case "counter":
		return Counter, nil
	case "histogram":
		return Histogram, nil
	}
	return Counter, fmt.Errorf("type: %q is unknown; use counter or histogram", text)
}

// String gives the type as it stands in a configuration.
func (t MetricType) String() string {
	if t == Histogram {
		return "histogram"
	}
	return "counter"
}

// Metric is a metric that the configuration gives a plugin. Its series are
// known before the plugin runs, so that no plugin can make one for each user.
type Metric struct {
	Name   string // of a-z, 0-9 and _
	Type   MetricType
	Help   string
	Labels []Label
	// Buckets are a histogram's upper bounds, rising. Empty: the observer's own.
	Buckets []float64
}

// Label is a label and its possible values.
type Label struct {
	Name   string
	Values []string
}

// Sample is a value for one series of a metric.
type Sample struct {
	Plugin string
	Metric *Metric
	Series int
	Value  float64
}

// Series is the number of series: one for each combination of label values.
func (m *Metric) Series() int {
	n := 1
	for _, l := range m.Labels {
		n = min(n*len(l.Values), maxSeries+1)
	}
	return n
}

// LabelValues gives the label values of a series. The last label changes
// fastest.
func (m *Metric) LabelValues(series int) []string {
	values := make([]string, len(m.Labels))
	for i := len(m.Labels) - 1; i >= 0; i-- {
		n := len(m.Labels[i].Values)
		values[i] = m.Labels[i].Values[series%n]
		series /= n
	}
	return values
}

func (m *Metric) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !isMetricName(m.Name) {
		fault("name: %q; use 1 to %d of a-z, 0-9 and _, a letter first", m.Name, maxFieldName)
	}
	if m.Type > Histogram {
		fault("type: %d is unknown; use counter or histogram", m.Type)
	}
	if len(m.Labels) > maxLabels {
		fault("labels: %d; at most %d", len(m.Labels), maxLabels)
	}
	for i, l := range m.Labels {
		if !isMetricName(l.Name) || l.Name == "plugin" || l.Name == "le" {
			fault("labels: %q; use a-z, 0-9 and _, a letter first, and neither plugin nor le", l.Name)
		}
		if slices.ContainsFunc(m.Labels[:i], func(other Label) bool { return other.Name == l.Name }) {
			fault("labels: %q stands there twice", l.Name)
		}
		if len(l.Values) == 0 {
			fault("labels: %s has no values; list all that it may have", l.Name)
		}
		for i, v := range l.Values {
			if slices.Contains(l.Values[:min(i, maxSeries)], v) {
				fault("labels: %s has the value %q twice", l.Name, v)
				break
			}
		}
	}
	if m.Series() > maxSeries {
		fault("labels: their values make more than %d series; list fewer values", maxSeries)
	}
	if len(m.Buckets) > maxBuckets || m.Type == Counter && len(m.Buckets) > 0 {
		fault("buckets: %d bounds; a histogram has at most %d, a counter none", len(m.Buckets), maxBuckets)
	}
	for i, b := range m.Buckets {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= m.Buckets[i-1] {
			fault("buckets: %v; the bounds are finite and rise", m.Buckets)
			break
		}
	}
	return errors.Join(faults...)
}

func isMetricName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || i > 0 && ('0' <= c && c <= '9' || c == '_')) {
			return false
		}
	}
	return s != "" && len(s) <= maxFieldName
}

// validateMetrics reports the faults of all metrics of a plugin.
func validateMetrics(metrics []Metric) []error {
	if len(metrics) > maxMetrics {
		return []error{fmt.Errorf("metrics: %d; at most %d", len(metrics), maxMetrics)}
	}
	var faults []error
	for i := range metrics {
		if err := metrics[i].validate(); err != nil {
			faults = append(faults, fmt.Errorf("metrics[%d]: %w", i, err))
		}
		if slices.ContainsFunc(metrics[:i], func(other Metric) bool { return other.Name == metrics[i].Name }) {
			faults = append(faults, fmt.Errorf("metrics[%d].name: %q stands there twice", i, metrics[i].Name))
		}
	}
	return faults
}

// sample keeps a value of the call under way for the observer.
func (in *instance) sample(t MetricType, metric, series uint32, value float64) int32 {
	declared := in.plugin.metrics
	switch {
	case in.hook == 0:
		return errorUnavailable // as for errInInit
	case int64(metric) >= int64(len(declared)) || int64(series) >= int64(declared[metric].Series()):
		return errorAbsent
	case declared[metric].Type != t || math.IsNaN(value) || math.IsInf(value, 0) || t == Counter && value < 0:
		return errorDenied
	case len(in.effects.samples) == maxSamples:
		return errorQuota
	}
	in.effects.samples = append(in.effects.samples, Sample{in.plugin.name, &declared[metric], int(series), value})
	return 0
}
