package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func TestDeclare(t *testing.T) {
	m := New(Options{ModelName: "tiny"})
	cost := Declaration{Plugin: "billing-eu", Name: "cost_micro_usd", Help: "Cost.", Labels: []string{"tier"}}
	add, err := m.Declare(cost)
	if err != nil {
		t.Fatal(err)
	}
	add(2, "gold")
	add(-1, "gold")
	add(math.NaN(), "gold")
	again, err := m.Declare(cost) // as after a reload
	if err != nil {
		t.Fatal(err)
	}
	again(3, "gold")
	size, err := m.Declare(Declaration{Plugin: "billing-eu", Name: "size", Histogram: true, Buckets: []float64{1, 10}})
	if err != nil {
		t.Fatal(err)
	}
	size(5)
	var out bytes.Buffer
	if _, err := m.Write(&out, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`wasmeter_plugin_billing_eu_cost_micro_usd_total{tier="gold"} 5`,
		`wasmeter_plugin_billing_eu_size_bucket{le="1.0"} 0`,
		`wasmeter_plugin_billing_eu_size_bucket{le="10.0"} 1`,
		`wasmeter_plugin_billing_eu_size_sum 5`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	cost.Labels = []string{"other"}
	if _, err := m.Declare(cost); err == nil {
		t.Error("the same name with other labels: no error")
	}
	if _, err := m.Declare(Declaration{Plugin: "billing-eu", Name: "cost_micro_usd_total", Histogram: true}); err == nil {
		t.Error("the same name as another type: no error")
	}
}
