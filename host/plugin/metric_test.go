package plugin

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestMetricsDeclared(t *testing.T) {
	values := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	many := func(n int) (list []Metric) {
		for i := range n {
			list = append(list, Metric{Name: fmt.Sprintf("m%d", i)})
		}
		return list
	}
	label := func(name string, values []string) []Label { return []Label{{name, values}} }
	for _, c := range []struct {
		name    string
		metrics []Metric
		want    string // part of the message, "" for none
	}{
		{"a counter", []Metric{{Name: "cost_total", Labels: label("tier", values(256))}}, ""},
		{"a histogram", []Metric{{Name: "delay", Type: Histogram, Buckets: []float64{-1, 0, 5.5}}}, ""},
		{"32", many(32), ""},
		{"33", many(33), "metrics: 33; at most 32"},
		{"twice", []Metric{{Name: "a"}, {Name: "a"}}, `metrics[1].name: "a" stands there twice`},
		{"no name", []Metric{{}}, "metrics[0]: name:"},
		{"a name with a hyphen", []Metric{{Name: "a-b"}}, "name:"},
		{"unknown type", []Metric{{Name: "a", Type: 7}}, "type:"},
		{"257 series", []Metric{{Name: "a", Labels: label("tier", values(257))}}, "more than 256 series"},
		{"289 series", []Metric{{Name: "a", Labels: []Label{{"b", values(17)}, {"c", values(17)}}}}, "more than 256 series"},
		{"series that overflow", []Metric{{Name: "a", Labels: []Label{{"b", values(1 << 12)}, {"c", values(1 << 12)}, {"d", values(1 << 12)}, {"e", values(1 << 12)}}}}, "more than 256 series"},
		{"five labels", []Metric{{Name: "a", Labels: []Label{{"b", values(1)}, {"c", values(1)}, {"d", values(1)}, {"e", values(1)}, {"f", values(1)}}}}, "at most 4"},
		{"a label twice", []Metric{{Name: "a", Labels: []Label{{"b", values(1)}, {"b", values(1)}}}}, "stands there twice"},
		{"a value twice", []Metric{{Name: "a", Labels: label("b", []string{"x", "x"})}}, `the value "x" twice`},
		{"a label without values", []Metric{{Name: "a", Labels: label("b", nil)}}, "has no values"},
		{"the label plugin", []Metric{{Name: "a", Labels: label("plugin", values(1))}}, "neither plugin nor le"},
		{"buckets of a counter", []Metric{{Name: "a", Buckets: []float64{1}}}, "a counter none"},
		{"falling buckets", []Metric{{Name: "a", Type: Histogram, Buckets: []float64{2, 1}}}, "rise"},
		{"an infinite bucket", []Metric{{Name: "a", Type: Histogram, Buckets: []float64{math.Inf(1)}}}, "finite"},
		{"33 buckets", []Metric{{Name: "a", Type: Histogram, Buckets: make([]float64, 33)}}, "at most 32"},
	} {
		got := ""
		if err := errors.Join(validateMetrics(c.metrics)...); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// Every series has label values of its own.
func TestLabelValues(t *testing.T) {
	m := Metric{Labels: []Label{{"a", []string{"1", "2"}}, {"b", []string{"x", "y", "z"}}}}
	seen := map[string]bool{}
	for i := range m.Series() {
		seen[fmt.Sprint(m.LabelValues(i))] = true
	}
	if len(seen) != 6 || !seen["[2 y]"] {
		t.Errorf("got %v, want all six pairs", seen)
	}
	for _, kind := range []MetricType{Counter, Histogram} {
		if parsed, err := ParseMetricType(kind.String()); parsed != kind || err != nil {
			t.Errorf("%s is read as %s, %v", kind, parsed, err)
		}
	}
	if _, err := ParseMetricType("gauge"); err == nil {
		t.Error("the type gauge was accepted")
	}
}
