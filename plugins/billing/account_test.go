package main

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// finished gives the records of a request's end.
func finished(t testing.TB, c *config, frame plugin.Frame) ([]string, error) {
	t.Helper()
	wasmeter.Outside.Records = nil
	t.Cleanup(func() { wasmeter.Outside.Records = nil })
	err := c.finish(ended(frame))
	return wasmeter.Outside.Records, err
}

// TestPolicies: each end, by the rules that hold without a word and by others.
// A token of the prompt costs 1 and one of the completion 4.
func TestPolicies(t *testing.T) {
	const none, own = "0.000000", `,"policy":{"aborted":"delivered","failed":"credit","denied":"made","client_abort":"free","shutdown":"made","deadline":"free"}`
	begun := plugin.Frame{Model: "m", PromptTokens: 100, CompletionTokens: 10, DeliveredTokens: 7, ScheduledNS: 5, N: 1, Prompts: 1}
	waiting := plugin.Frame{Model: "m", PromptTokens: 100, QueuedNS: 1, N: 1, Prompts: 1}
	computing := waiting
	computing.ScheduledNS = 5
	for _, test := range []struct {
		outcome                            plugin.Outcome
		begun, computing, waiting          string // by the usual policy
		ownBegun, ownComputing, ownWaiting string
		takenBack                          bool
	}{
		{outcome: plugin.OutcomeRunning, begun: "0.000140", computing: "0.000100", waiting: "0.000100", ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: "0.000100"},
		{outcome: plugin.OutcomeStop, begun: "0.000140", computing: "0.000100", waiting: "0.000100", ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: "0.000100"},
		{outcome: plugin.OutcomeLength, begun: "0.000140", computing: "0.000100", waiting: "0.000100", ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: "0.000100"},
		{outcome: plugin.OutcomeToolCalls, begun: "0.000140", computing: "0.000100", waiting: "0.000100", ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: "0.000100"},
		{outcome: plugin.OutcomeClientAbort, begun: "0.000140", computing: "0.000100", waiting: none, ownBegun: none, ownComputing: none, ownWaiting: none},
		{outcome: plugin.OutcomeServerError, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none, takenBack: true},
		{outcome: plugin.OutcomeRejected, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none},
		{outcome: plugin.OutcomeDeadline, begun: "0.000140", computing: "0.000100", waiting: none, ownBegun: none, ownComputing: none, ownWaiting: none},
		{outcome: plugin.OutcomeShutdown, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none},
		{outcome: plugin.OutcomeSlowReader, begun: "0.000140", computing: "0.000100", waiting: none, ownBegun: "0.000128", ownComputing: "0.000100", ownWaiting: none},
		{outcome: plugin.OutcomeDenied, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none},
		{outcome: plugin.OutcomePluginError, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none, takenBack: true},
		{outcome: plugin.OutcomeCrashRecovered, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none, takenBack: true},
		{outcome: 99, begun: none, computing: none, waiting: none, ownBegun: "0.000140", ownComputing: "0.000100", ownWaiting: none, takenBack: true},
	} {
		for _, side := range []struct {
			policy string
			want   [3]string
		}{{"", [3]string{test.begun, test.computing, test.waiting}}, {own, [3]string{test.ownBegun, test.ownComputing, test.ownWaiting}}} {
			c := configured(t, `{"currency":"EUR","default":{"input":1000000,"output":4000000}`+side.policy+`}`)
			for i, frame := range []plugin.Frame{begun, computing, waiting} {
				frame.Outcome = test.outcome
				records, err := finished(t, c, frame)
				if err != nil || len(records) == 0 || !strings.Contains(records[0], `"kind":"charge"`) || !strings.Contains(records[0], `"cost":"`+side.want[i]+`"`) {
					t.Errorf("outcome %d, frame %d, policy %s: got %q, %v; want a charge of %s", test.outcome, i, side.policy, records, err, side.want[i])
					continue
				}
				takenBack := test.takenBack && side.policy != "" && side.want[i] != none
				if got := len(records) == 2 && strings.Contains(records[1], `"kind":"credit"`) && strings.Contains(records[1], `"cost":"-`+side.want[i]+`"`); got != takenBack || len(records) > 2 {
					t.Errorf("outcome %d, frame %d, policy %s: got %q, want a credit: %v", test.outcome, i, side.policy, records, takenBack)
				}
			}
		}
	}
}

// A request that got nothing pays neither fees nor the minimum; one that got
// something pays them, also if it was aborted.
func TestFeesOfAborted(t *testing.T) {
	c := configured(t, `{"currency":"EUR","default":{"input":1000000,"output":1000000,"request":50,"minimum":1000}}`)
	for want, frame := range map[string]plugin.Frame{
		"0.000000": {Outcome: plugin.OutcomeClientAbort, PromptTokens: 100, DeviceNS: 5},
		"0.001000": {Outcome: plugin.OutcomeClientAbort, PromptTokens: 100, ScheduledNS: 3},
		"0.002050": {Outcome: plugin.OutcomeClientAbort, PromptTokens: 1900, CompletionTokens: 100, ScheduledNS: 3},
	} {
		if a, err := c.book.account(ended(frame)); err != nil || c.book.decimal(amount{uint128: a.cost}) != want {
			t.Errorf("%+v: got %s, %v; want %s", frame, c.book.decimal(amount{uint128: a.cost}), err, want)
		}
	}
}

// Of several prompts, those that were begun are paid, and the longest one is the
// context.
func TestSeveralPrompts(t *testing.T) {
	c := configured(t, `{"currency":"EUR","default":{"input":1000000,"output":1000000,"tiers":[{"above":100,"input":2000000,"output":2000000}]}}`)
	table := []plugin.Choice{
		{PromptIndex: 0, PromptTokens: 60, CompletionTokens: 5, ScheduledNS: 2}, {Index: 1, PromptIndex: 0, PromptTokens: 60},
		{Index: 2, PromptIndex: 1, PromptTokens: 70}, {Index: 3, PromptIndex: 1, PromptTokens: 70, ScheduledNS: 9},
		{Index: 4, PromptIndex: 2, PromptTokens: 80}, {Index: 5, PromptIndex: 2, PromptTokens: 80},
	}
	long := []plugin.Choice{{PromptTokens: 101, ScheduledNS: 1}, {PromptIndex: 1, PromptTokens: 109}}
	for _, test := range []struct {
		name  string
		frame plugin.Frame
		want  string
	}{
		{"complete", plugin.Frame{Outcome: plugin.OutcomeStop, PromptTokens: 210, CompletionTokens: 5, Choices: table}, "0.000215"},
		{"two of three were begun", plugin.Frame{Outcome: plugin.OutcomeClientAbort, PromptTokens: 210, CompletionTokens: 5, Choices: table}, "0.000135"},
		{"a long one among them", plugin.Frame{Outcome: plugin.OutcomeStop, PromptTokens: 210, Choices: long}, "0.000420"},
		{"the shorter of two long ones was begun", plugin.Frame{Outcome: plugin.OutcomeClientAbort, PromptTokens: 210, Choices: long}, "0.000202"},
		{"no table", plugin.Frame{Outcome: plugin.OutcomeClientAbort, PromptTokens: 210, ScheduledNS: 1}, "0.000420"},
		{"a table that tells nothing", plugin.Frame{Outcome: plugin.OutcomeClientAbort, PromptTokens: 90, Choices: make([]plugin.Choice, 3)}, "0.000000"},
	} {
		test.frame.Flags = plugin.FlagMultiPrompt
		a, err := c.book.account(ended(test.frame))
		if got := c.book.decimal(amount{uint128: a.cost}); err != nil || got != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// The records, whole. Their numbers are those of TestPrice.
func TestRecords(t *testing.T) {
	c := configured(t, priceList)
	frame := plugin.Frame{
		AttemptID: "0193", Tenant: `the "acme" people`, Model: "large", Outcome: plugin.OutcomeStop, ServiceTier: "priority", ArrivalUnixNS: night,
		PromptTokens: 1001, CompletionTokens: 1,
	}
	records, err := finished(t, c, frame)
	// 20180 micro-units · 1.75 · 0.5 = 17657.5
	want := `{"kind":"charge","tenant":"the \"acme\" people","model":"large","outcome":"stop","currency":"EUR","cost":"0.017658","version":"2026-11","rule":"made",` +
		`"entry":"large","above":1000,"class":{"name":"priority","pays":17500},"window":{"name":"night","pays":5000},` +
		`"lines":[{"item":"input","quantity":1001,"price":20000000},{"item":"output","quantity":1,"price":60000000},{"item":"request","quantity":1,"price":100}]}`
	if err != nil || len(records) != 1 || records[0] != want {
		t.Errorf("got %q, %v;\nwant %s", records, err, want)
	}

	c = configured(t, `{"currency":"EUR","scale":2,"unknown":"free","models":[{"model":"m","input":1000000000,"output":0,"minimum":20000}],"policy":{"failed":"credit"}}`)
	for _, test := range []struct {
		name  string
		frame plugin.Frame
		want  []string
	}{
		{"taken back", plugin.Frame{Model: "m", Outcome: plugin.OutcomeServerError, PromptTokens: 10, ScheduledNS: 1}, []string{
			`{"kind":"charge","tenant":"","model":"m","outcome":"server_error","currency":"EUR","cost":"0.02","rule":"credit","entry":"m","minimum":20000,"lines":[{"item":"input","quantity":10,"price":1000000000}]}`,
			`{"kind":"credit","tenant":"","model":"m","outcome":"server_error","currency":"EUR","cost":"-0.02","refunds":0,"reason":"server_error"}`,
		}},
		{"a model that has no price", plugin.Frame{Model: "n", Outcome: plugin.OutcomeStop, PromptTokens: 10}, []string{
			`{"kind":"charge","tenant":"","model":"n","outcome":"stop","currency":"EUR","cost":"0.00","rule":"made","entry":null,"lines":[]}`,
		}},
		{"denied", plugin.Frame{Model: "m", Outcome: plugin.OutcomeDenied, PromptTokens: 10}, []string{
			`{"kind":"charge","tenant":"","model":"m","outcome":"denied","currency":"EUR","cost":"0.00","rule":"free","entry":"m","lines":[]}`,
		}},
	} {
		records, err := finished(t, c, test.frame)
		if err != nil || strings.Join(records, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", test.name, err, strings.Join(records, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// A book that can't price a request leaves it unpriced, to be priced later.
func TestUnpriced(t *testing.T) {
	c := configured(t, `{"currency":"EUR","models":[{"model":"m","input":1,"output":1}]}`)
	if records, err := finished(t, c, plugin.Frame{Model: "n", Outcome: plugin.OutcomeStop}); err != errNoPrice || len(records) != 0 {
		t.Errorf("got %q, %v; want no record and an error", records, err)
	}
	if records, err := finished(t, c, plugin.Frame{Model: "n", Outcome: plugin.OutcomeDenied}); err != nil || len(records) != 1 {
		t.Errorf("denied: got %q, %v; want a record", records, err)
	}
}

// TestCorrections: what a replay records is the difference between two books,
// and the charge and its corrections add up to what the last book says.
func TestCorrections(t *testing.T) {
	const was, is = `{"default":{"input":1000000,"output":4000000}}`, `"version":"2026-12","default":{"input":500000,"output":5000000}`
	c := configured(t, `{"currency":"EUR",`+is+`,"corrects":{"plugin":"billing","reason":"a misprint","book":`+was+`}}`)
	for _, test := range []struct {
		name               string
		prompt, completion uint32
		outcome            plugin.Outcome
		want               string
	}{
		{"less", 100, 10, plugin.OutcomeStop, `{"kind":"correction","tenant":"acme","model":"m","outcome":"stop","currency":"EUR","cost":"-0.000040","version":"2026-12",` +
			`"corrects":{"attempt_id":"0193","plugin":"billing","index":0},"reason":"a misprint","was":"0.000140","is":"0.000100","rule":"made","entry":"default",` +
			`"lines":[{"item":"input","quantity":100,"price":500000},{"item":"output","quantity":10,"price":5000000}]}`},
		{"more", 0, 10, plugin.OutcomeStop, `"cost":"0.000010"`},
		{"as much", 100, 50, plugin.OutcomeStop, ``},
		{"nothing was charged", 100, 10, plugin.OutcomeServerError, ``},
	} {
		frame := plugin.Frame{Flags: plugin.FlagReplay, AttemptID: "0193", Tenant: "acme", Model: "m", Outcome: test.outcome, PromptTokens: test.prompt, CompletionTokens: test.completion}
		records, err := finished(t, c, frame)
		if got := strings.Join(records, "\n"); err != nil || test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, %v;\nwant %s", test.name, got, err, test.want)
		}
		frame.Flags = 0
		if records, err := finished(t, c, frame); err != errNotReplayed || len(records) != 0 {
			t.Errorf("%s, as it happens: got %q, %v; want an error", test.name, records, err)
		}
	}
	if h := c.hooks(); h.Request != nil || h.Shape != nil {
		t.Error("a correction takes part in what is served")
	}

	// A policy can be wrong as well, and a model can have been refused.
	c = configured(t, `{"currency":"EUR","default":{"input":1000000,"output":4000000},"corrects":{"plugin":"billing","reason":"r",
		"book":{"models":[{"model":"m","input":1000000,"output":4000000}],"policy":{"failed":"credit","aborted":"free"}}}}`)
	for model, want := range map[string]string{"m": `"was":"0.000000","is":"0.000140"`, "n": `"was":"0.000000","is":"0.000140"`} {
		records, err := finished(t, c, plugin.Frame{Flags: plugin.FlagReplay, Model: model, Outcome: plugin.OutcomeClientAbort, ScheduledNS: 1, PromptTokens: 100, CompletionTokens: 10})
		if err != nil || len(records) != 1 || !strings.Contains(records[0], want) {
			t.Errorf("%s: got %q, %v; want %s", model, records, err, want)
		}
	}
}

// The costs of a request's records add up to what the last book says, whatever
// the books are.
func FuzzCorrections(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint8(0))
	f.Fuzz(func(t *testing.T, first, second, request uint64, outcome uint8) {
		r := newRand(request)
		frame := randomFrame(r)
		frame.Outcome, frame.ScheduledNS = plugin.Outcome(outcome%14), r.Uint64N(2)
		book := func(seed uint64, more string) string {
			text := randomBook(newRand(seed))
			_, text, _ = strings.Cut(text, `,"models"`) // they must agree on the scale
			return `"models"` + strings.TrimSuffix(text, "}") + more
		}
		policy := `,"policy":{"failed":"credit","aborted":"delivered"}`
		was := configured(t, `{"currency":"EUR",`+book(first, policy)+`}`)
		now := configured(t, `{"currency":"EUR",`+book(second, "")+`}`)
		fix := configured(t, `{"currency":"EUR",`+book(second, "")+`,"corrects":{"plugin":"billing","reason":"r","book":{`+book(first, policy)+`}}}`)
		sum := func(c *config, flags plugin.Flags) *big.Rat {
			frame.Flags = frame.Flags&^plugin.FlagReplay | flags
			records, err := finished(t, c, frame)
			if err != nil {
				t.Fatal(err)
			}
			total := new(big.Rat)
			for _, text := range records {
				var record struct{ Cost string }
				if err := json.Unmarshal([]byte(text), &record); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				cost, ok := new(big.Rat).SetString(record.Cost)
				if !ok {
					t.Fatalf("%q is no decimal", record.Cost)
				}
				total.Add(total, cost)
			}
			return total
		}
		got := sum(was, 0)
		got.Add(got, sum(fix, plugin.FlagReplay))
		if want := sum(now, 0); got.Cmp(want) != 0 {
			t.Errorf("a charge and its correction are %s, the right book says %s", got, want)
		}
	})
}
