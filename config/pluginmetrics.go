package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// metricTypeValue is what a metric does with its values.
type metricTypeValue struct{ to *plugin.MetricType }

func (v metricTypeValue) Set(text string) error {
	kind, err := plugin.ParseMetricType(text)
	if err != nil {
		return fmt.Errorf("%q is not one of counter, histogram", text)
	}
	*v.to = kind
	return nil
}
func (v metricTypeValue) String() string { return v.to.String() }
func (v metricTypeValue) Type() string   { return "counter|histogram" }

// numbersValue is a list of numbers; as text they stand between commas.
type numbersValue struct{ to *[]float64 }

func (v numbersValue) Set(text string) error {
	var numbers []float64
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("%q is not a finite number", word)
		}
		numbers = append(numbers, n)
	}
	*v.to = numbers
	return nil
}
func (v numbersValue) String() string {
	words := make([]string, len(*v.to))
	for i, n := range *v.to {
		words[i] = strconv.FormatFloat(n, 'g', -1, 64)
	}
	return strings.Join(words, ",")
}
func (v numbersValue) Type() string { return "numbers" }

// readPluginMetrics reads the metrics that a plugin may count in:
//
//	metrics:
//	  - {name: requests_total, type: counter, labels: {tier: [free, paid]}}
//
// Their limits are those of plugin.Metric; loading the plugin checks them.
func (d *document) readPluginMetrics(n *yaml.Node, name string) []plugin.Metric {
	items := d.list(n, name, "write - {name: requests_total, type: counter, …}")
	metrics := make([]plugin.Metric, len(items))
	for i, item := range items {
		m, at := &metrics[i], fmt.Sprintf("%s[%d].", name, i)
		keys := schema{
			{name: "name", value: textValue{&m.Name}},
			{name: "type", value: metricTypeValue{&m.Type}},
			{name: "help", value: textValue{&m.Help}},
			{name: "buckets", value: numbersValue{&m.Buckets}},
			{name: "labels"},
		}
		d.mapping(item, keys, at, "", func(k *key, n *yaml.Node) {
			if k.name == "labels" {
				m.Labels = d.readLabels(n, at+"labels")
				return
			}
			d.read(k, n, at)
		})
	}
	return metrics
}

// readLabels reads labels in the order in which they are written, which is
// the order of the metric's series.
func (d *document) readLabels(n *yaml.Node, name string) []plugin.Label {
	if n = d.resolve(n, name); n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, name, "%s is not a mapping; write {tier: [free, paid]}", describe(n))
		return nil
	}
	var labels []plugin.Label
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			d.fault(k, name, "%s is not a label; a label is a word", describe(k))
			continue
		}
		label := plugin.Label{Name: k.Value}
		values := key{name: clip(k.Value), value: listValue{&label.Values}}
		d.read(&values, n.Content[i+1], name+".")
		labels = append(labels, label)
	}
	return labels
}

// list gives the items of a sequence.
func (d *document) list(n *yaml.Node, name, example string) []*yaml.Node {
	if n = d.resolve(n, name); n == nil || n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(n, name, "%s is not a list; %s", describe(n), example)
		return nil
	}
	return n.Content
}

// metrics writes the metrics of a plugin, each in one line.
func (p *printer) metrics(metrics []plugin.Metric, at string) {
	if len(metrics) > 0 {
		p.line(at+".metrics", "    metrics:")
	}
	for i, m := range metrics {
		text := fmt.Sprintf("{name: %s, type: %s", quoted(m.Name), m.Type)
		if m.Help != "" {
			text += ", help: " + quoted(m.Help)
		}
		if len(m.Buckets) > 0 {
			text += ", buckets: [" + numbersValue{&m.Buckets}.String() + "]"
		}
		for j, l := range m.Labels {
			opening := ", "
			if j == 0 {
				opening = ", labels: {"
			}
			values := make([]string, len(l.Values))
			for k, v := range l.Values {
				values[k] = quoted(v)
			}
			text += opening + quoted(l.Name) + ": [" + strings.Join(values, ", ") + "]"
		}
		if len(m.Labels) > 0 {
			text += "}"
		}
		p.line(fmt.Sprintf("%s.metrics[%d].name", at, i), "      - "+text+"}")
	}
}
