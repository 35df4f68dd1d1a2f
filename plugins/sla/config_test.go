package main

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func TestConfig(t *testing.T) {
	class := func(more string) string { return `{"classes":[{"name":"gold","tenants":["a"]` + more + `}]}` }
	for config, want := range map[string]string{
		`{}`:      "",
		class(``): "",
		`{"default":{"targets":{"ttft_ms":1},"credit":{"percent":100}}}`: "",
		`{"sla":1}`:                                   "sla: unknown member; use field, currency, ignore_headers, metrics, endings, classes, default",
		`{"field":7}`:                                 "field: 7 is not the name of a field",
		`{"currency":"eur"}`:                          `currency: "eur" is not three capital letters`,
		`{"currency":"EURO"}`:                         `currency: "EURO" is not three capital letters`,
		`{"endings":{"aborted":"met"}}`:               `endings.aborted: "met" is not one of exclude, judge, missed`,
		`{"endings":{"stop":"missed"}}`:               "endings.stop: unknown member; use aborted, failed, denied",
		class(`,"targets":{"ttft_ms":0}`):             "classes[0].targets.ttft_ms: 0 is not a whole number in 1 … 86400000",
		class(`,"targets":{"ttft_ms":1.5}`):           "classes[0].targets.ttft_ms: 1.5 is not a whole number",
		class(`,"targets":{"ttft":1}`):                "classes[0].targets.ttft: unknown member; use ttft_ms, tpot_ms, total_ms",
		class(`,"targets":{"ttft_ms":1},"credit":{}`): "classes[0].credit: write either micro or percent",
		class(`,"targets":{"ttft_ms":1},"credit":{"micro":1,"percent":1}`):       "classes[0].credit: write either micro or percent",
		class(`,"targets":{"ttft_ms":1},"credit":{"percent":101}`):               "classes[0].credit.percent: 101 is not a whole number in 1 … 100",
		class(`,"targets":{"ttft_ms":1},"credit":{"micro":-5}`):                  "classes[0].credit.micro: -5 is not",
		class(`,"targets":{"ttft_ms":1},"credit":{"micro":5}`):                   "the class gold has a credit in micro-units of a currency; write which one: currency: EUR",
		class(`,"credit":{"percent":5}`):                                         "the class gold has a credit and no targets",
		`{"default":{"credit":{"percent":5}}}`:                                   "the class default has a credit and no targets",
		`{"default":{"name":"x"}}`:                                               "default.name: unknown member; use targets, credit",
		`{"classes":[{"name":"gold"}]}`:                                          "classes[0]: names nobody",
		`{"classes":[{"name":"a","tenants":["x"]},{"name":"a","models":["x"]}]}`: "two classes are named a",
	} {
		o := defaults()
		err := o.read([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

func TestSchema(t *testing.T) {
	o := defaults()
	plugintest.CheckSchema(t, o.members())
}
