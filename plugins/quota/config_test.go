package main

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func TestConfig(t *testing.T) {
	classes := func(class string) string { return `{"classes":[{"name":"free","tenants":["a"],` + class + `}]}` }
	for config, want := range map[string]string{
		`{}`:                        "",
		`{"default":{"limits":[]}}`: "",
		`{"default":{"limits":[{"window":"day","tokens":1},{"window":"day","tokens":9,"per":"class"}]}}`: "",
		classes(`"limits":[]`):                                              "",
		`{"default":{}}`:                                                    "default.limits: missing; write a list of at most 8",
		classes(`"models":["m"]`):                                           "classes[0].limits: missing",
		`{"limits":[]}`:                                                     "limits: unknown member; use count, assumed_completion_tokens, count_failed, strict, headers, classes, default",
		`{"count":"tokens"}`:                                                `count: "tokens" is not one of total, prompt, completion`,
		`{"headers":1}`:                                                     "headers: 1 is not true or false",
		`{"assumed_completion_tokens":0}`:                                   "is not a whole number in 1 … 1000000",
		`{"default":{"limits":[{"tokens":1}]}}`:                             "default.limits[0].window: missing; write one of minute, hour, day, month",
		`{"default":{"limits":[{"window":"day"}]}}`:                         "default.limits[0].tokens: missing",
		`{"default":{"limits":[{"window":"week","tokens":1}]}}`:             `default.limits[0].window: "week" is not one of`,
		`{"default":{"limits":[{"window":"day","tokens":0}]}}`:              "default.limits[0].tokens: 0 is not a whole number in 1 … 1000000000000000",
		`{"default":{"limits":[{"window":"day","tokens":1e6}]}}`:            "tokens: 1e6 is not",
		`{"default":{"limits":[{"window":"day","tokens":1,"per":"user"}]}}`: `limits[0].per: "user" is not one of tenant, model, key, class`,
		`{"default":{"limits":[{"window":"day","tokens":1},{"window":"day","tokens":2}]}}`:                "default: two limits per tenant and day; keep the lower one",
		classes(`"limits":[{"window":"day","tokens":1},{"window":"day","tokens":2}]`):                     "classes[0]: two limits per tenant and day",
		`{"classes":[{"name":"a","limits":[]}]}`:                                                          "classes[0]: names nobody",
		`{"classes":[{"name":"a","tenants":["x"],"limits":[]},{"name":"a","tenants":["y"],"limits":[]}]}`: "two classes are named a",
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
