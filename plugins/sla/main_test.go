package main

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

const ms = 1_000_000 // ns

// example is an answer of 10 tokens: the first 45.500001 ms after arrival, the
// last 1545.750001 ms after it, so 1500.25 ms for nine tokens.
func example() *plugin.Frame {
	return &plugin.Frame{
		Endpoint: plugin.EndpointChat, Outcome: plugin.OutcomeStop, N: 1, Prompts: 1, Tenant: "acme", Model: "m", CompletionTokens: 10,
		QueuedNS: 1 * ms, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001, FinishedNS: 1_545_900_000,
		Choices: []plugin.Choice{{FinishReason: plugin.OutcomeStop, CompletionTokens: 10, QueuedNS: 1 * ms, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001}},
	}
}

// cutOff makes the example end at a moment with some tokens; 0 tokens is before
// the first one.
func cutOff(f *plugin.Frame, outcome plugin.Outcome, finished uint64, tokens uint32) {
	f.Outcome, f.FinishedNS, f.CompletionTokens = outcome, finished, tokens
	c := &f.Choices[0]
	c.FinishReason, c.CompletionTokens = outcome, tokens
	switch tokens {
	case 0:
		c.FirstTokenNS, c.LastTokenNS = 0, 0
	case 1:
		c.LastTokenNS = c.FirstTokenNS
	}
}

// gold is a class with targets that the example meets by less than a millisecond.
const gold = `{"currency":"EUR","classes":[{"name":"gold","tenants":["acme"],"targets":{"ttft_ms":46,"tpot_ms":167,"total_ms":1546},"credit":{"micro":1500}}]}`

// with is gold with other targets and more members.
func with(targets, credit, more string) string {
	return `{"currency":"EUR"` + more + `,"classes":[{"name":"gold","tenants":["acme"],"targets":{` + targets + `}` + credit + `}]}`
}

const (
	micro         = `,"credit":{"micro":1500}`
	allMeasured   = `"measured":{"ttft_ms":45.500001,"tpot_ms":166.694444,"total_ms":1545.750001}`
	tightTargets  = `"ttft_ms":45,"tpot_ms":166,"total_ms":1545`
	beforeFirst   = `"measured":{"ttft_ms":null}`
	hundredMillis = `"ttft_ms":100`
)

// rules are worked out by hand from the example.
var rules = []struct {
	name, config string
	change       func(*plugin.Frame)
	want         string // the members of the field
}{
	{"met", gold, nil, `"class":"gold","verdict":"met","missed":[],"targets":{"ttft_ms":46,"tpot_ms":167,"total_ms":1546},` + allMeasured + `,"credit_micro":0,"currency":"EUR"`},
	{"all missed, one credit", with(tightTargets, micro, ""), nil,
		`"class":"gold","verdict":"missed","missed":["ttft","tpot","total"],"targets":{` + tightTargets + `},` + allMeasured + `,"credit_micro":1500,"currency":"EUR"`},
	{"a credit for each", with(tightTargets, `,"credit":{"micro":1500,"per_dimension":true}`, ""), nil,
		`"class":"gold","verdict":"missed","missed":["ttft","tpot","total"],"targets":{` + tightTargets + `},` + allMeasured + `,"credit_micro":4500,"currency":"EUR"`},
	{"percent", with(`"ttft_ms":45`, `,"credit":{"percent":10}`, ""), nil,
		`"class":"gold","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":45},"measured":{"ttft_ms":45.500001},"credit_percent":10`},
	{"never more than the price", with(tightTargets, `,"credit":{"percent":40,"per_dimension":true}`, ""), nil,
		`"class":"gold","verdict":"missed","missed":["ttft","tpot","total"],"targets":{` + tightTargets + `},` + allMeasured + `,"credit_percent":100`},
	{"exactly the target is met", with(`"ttft_ms":45,"total_ms":1545`, "", ""), func(f *plugin.Frame) {
		f.Choices[0].FirstTokenNS, f.Choices[0].LastTokenNS = 45*ms, 1545*ms
	}, `"class":"gold","verdict":"met","missed":[],"targets":{"ttft_ms":45,"total_ms":1545},"measured":{"ttft_ms":45.0,"total_ms":1545.0}`},
	{"a nanosecond more is missed", with(`"ttft_ms":45`, "", ""), func(f *plugin.Frame) { f.Choices[0].FirstTokenNS = 45*ms + 1 },
		`"class":"gold","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":45},"measured":{"ttft_ms":45.000001}`},
	{"exactly the mean is met", with(`"tpot_ms":100`, "", ""), func(f *plugin.Frame) { f.Choices[0].LastTokenNS = 45_500_001 + 900*ms },
		`"class":"gold","verdict":"met","missed":[],"targets":{"tpot_ms":100},"measured":{"tpot_ms":100.0}`},
	{"a ninth of a nanosecond more is missed", with(`"tpot_ms":100`, "", ""), func(f *plugin.Frame) { f.Choices[0].LastTokenNS = 45_500_001 + 900*ms + 1 },
		`"class":"gold","verdict":"missed","missed":["tpot"],"targets":{"tpot_ms":100},"measured":{"tpot_ms":100.0}`},
	{"one token has no mean", with(`"tpot_ms":1`, "", ""), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeLength, 50*ms, 1) },
		`"class":"gold","verdict":"met","missed":[],"targets":{"tpot_ms":1},"measured":{"tpot_ms":null}`},
	{"the worst choice counts", with(`"ttft_ms":50,"tpot_ms":200`, "", ""), func(f *plugin.Frame) {
		f.Flags, f.N = plugin.FlagMultiChoice, 3
		f.Choices = append(f.Choices, plugin.Choice{Index: 1, CompletionTokens: 2, FirstTokenNS: 60 * ms, LastTokenNS: 260 * ms}, plugin.Choice{Index: 2, CompletionTokens: 1, FirstTokenNS: 1, LastTokenNS: 1})
	}, `"class":"gold","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":50,"tpot_ms":200},"measured":{"ttft_ms":60.0,"tpot_ms":200.0}`},

	{"nothing promised", `{"currency":"EUR"}`, nil, ``},
	{"the default class", `{"default":{"targets":{"total_ms":1546}}}`, nil, `"class":"default","verdict":"met","missed":[],"targets":{"total_ms":1546},"measured":{"total_ms":1545.750001}`},
	{"of another tenant", gold, func(f *plugin.Frame) { f.Tenant = "other" }, ``},
	{"the first class that covers it", `{"classes":[{"name":"a","service_tiers":["priority"],"targets":{"ttft_ms":1}},{"name":"b","models":["m*"],"targets":{"ttft_ms":2}},{"name":"c","key_names":["*"],"targets":{"ttft_ms":3}}]}`, nil,
		`"class":"b","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":2},"measured":{"ttft_ms":45.500001}`},

	{"targets of the request", `{}`, func(f *plugin.Frame) { f.SLOTTFTms, f.SLOTPOTms, f.DeadlineMS = 45, 167, 2000 },
		`"class":"default","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":45,"tpot_ms":167,"total_ms":2000},` + allMeasured},
	{"the class's own come first", with(`"ttft_ms":46`, "", ""), func(f *plugin.Frame) { f.SLOTTFTms = 1 },
		`"class":"gold","verdict":"met","missed":[],"targets":{"ttft_ms":46},"measured":{"ttft_ms":45.500001}`},
	{"they earn nothing", with(`"ttft_ms":46`, micro, ""), func(f *plugin.Frame) { f.SLOTPOTms = 1 },
		`"class":"gold","verdict":"missed","missed":["tpot"],"targets":{"ttft_ms":46,"tpot_ms":1},"measured":{"ttft_ms":45.500001,"tpot_ms":166.694444},"credit_micro":0,"currency":"EUR"`},
	{"they are ignored", `{"ignore_headers":true}`, func(f *plugin.Frame) { f.SLOTTFTms = 45 }, ``},

	{"no times are taken", gold, func(f *plugin.Frame) { f.Flags |= plugin.FlagTimingUnknown },
		`"class":"gold","verdict":"unknown","missed":[],"targets":{"ttft_ms":46,"tpot_ms":167,"total_ms":1546},"measured":{"ttft_ms":null,"tpot_ms":null,"total_ms":null},"credit_micro":0,"currency":"EUR"`},

	{"the client left", with(hundredMillis, micro, ""), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 200*ms, 0) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":0,"currency":"EUR"`},
	{"the client left, judged: he had waited too long", with(hundredMillis, micro, `,"endings":{"aborted":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 100*ms+1, 0) },
		`"class":"gold","verdict":"missed","missed":["ttft"],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":1500,"currency":"EUR"`},
	{"the client left, judged: he had not", with(hundredMillis, micro, `,"endings":{"aborted":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 100*ms, 0) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":0,"currency":"EUR"`},
	{"the client left, judged: the first token was in time", with(hundredMillis, micro, `,"endings":{"aborted":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeSlowReader, 900*ms, 5) },
		`"class":"gold","verdict":"met","missed":[],"targets":{"ttft_ms":100},"measured":{"ttft_ms":45.500001},"credit_micro":0,"currency":"EUR"`},
	{"the client left, judged: the total is open", with(hundredMillis+`,"total_ms":1000`, "", `,"endings":{"aborted":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 900*ms, 5) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100,"total_ms":1000},"measured":{"ttft_ms":45.500001,"total_ms":null}`},
	{"the client left, judged: the total was missed", with(`"total_ms":1000`, "", `,"endings":{"aborted":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 1001*ms, 5) },
		`"class":"gold","verdict":"missed","missed":["total"],"targets":{"total_ms":1000},"measured":{"total_ms":null}`},
	{"the client left, and it counts", with(hundredMillis, micro, `,"endings":{"aborted":"missed"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeClientAbort, 1*ms, 0) },
		`"class":"gold","verdict":"missed","missed":["availability"],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":1500,"currency":"EUR"`},
	{"the server failed", with(hundredMillis, `,"credit":{"micro":1500,"per_dimension":true}`, ""), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeServerError, 101*ms, 0) },
		`"class":"gold","verdict":"missed","missed":["ttft","availability"],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":3000,"currency":"EUR"`},
	{"the server failed without times", with(hundredMillis, "", ""), func(f *plugin.Frame) {
		cutOff(f, plugin.OutcomeServerError, 101*ms, 0)
		f.Flags |= plugin.FlagTimingUnknown
	}, `"class":"gold","verdict":"missed","missed":["availability"],"targets":{"ttft_ms":100},` + beforeFirst},
	{"the server failed, excluded", with(hundredMillis, "", `,"endings":{"failed":"exclude"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeShutdown, 101*ms, 0) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100},` + beforeFirst},
	{"the queue was full", with(hundredMillis, micro, ""), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeRejected, 0, 0) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":0,"currency":"EUR"`},
	{"the queue was full, and it counts", with(hundredMillis, micro, `,"endings":{"denied":"missed"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeRejected, 0, 0) },
		`"class":"gold","verdict":"missed","missed":["availability"],"targets":{"ttft_ms":100},` + beforeFirst + `,"credit_micro":1500,"currency":"EUR"`},
	{"another plugin denied it, judged", with(hundredMillis, "", `,"endings":{"denied":"judge"}`), func(f *plugin.Frame) { cutOff(f, plugin.OutcomeDenied, 0, 0) },
		`"class":"gold","verdict":"excluded","missed":[],"targets":{"ttft_ms":100},` + beforeFirst},
}

func TestRules(t *testing.T) {
	for _, c := range rules {
		frame := example()
		if c.change != nil {
			c.change(frame)
		}
		o := defaults()
		if err := o.read([]byte(c.config)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want, wantRecord := "", ""
		if c.want != "" {
			want = `{"fields":{"sla":{` + c.want + `}}}`
			end := map[plugin.Outcome]string{
				plugin.OutcomeStop: "stop", plugin.OutcomeLength: "length", plugin.OutcomeClientAbort: "client_abort", plugin.OutcomeSlowReader: "slow_reader",
				plugin.OutcomeServerError: "server_error", plugin.OutcomeShutdown: "shutdown", plugin.OutcomeRejected: "rejected", plugin.OutcomeDenied: "denied",
			}[frame.Outcome]
			wantRecord = `{"kind":"credit","tenant":"` + frame.Tenant + `","model":"m","outcome":"` + end + `",` + c.want + `}`
		}
		if got := plugintest.Native(plugin.HookShape, o.shape, frame); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, want)
		}
		wasmeter.Outside.Records = nil
		if err := o.finish(wasmeter.NewRequest(frame.Append(nil, plugin.HookFinish))); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(wasmeter.Outside.Records, "\n"); got != wantRecord {
			t.Errorf("%s: record\ngot  %s\nwant %s", c.name, got, wantRecord)
		}
	}
}

func FuzzShape(f *testing.F) {
	o := defaults()
	if err := o.read([]byte(with(tightTargets, micro, `,"endings":{"aborted":"judge"}`))); err != nil {
		f.Fatal(err)
	}
	plugintest.FuzzHook(f, plugin.HookShape, o.shape, example())
}
