package main

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// run gives the result of the hook with a configuration.
func run(t *testing.T, config string, frame *plugin.Frame) string {
	t.Helper()
	o := defaults()
	if err := o.read([]byte(config)); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return plugintest.Native(plugin.HookShape, func(r wasmeter.Request, out *wasmeter.Answer) { o.shape(r, out) }, frame)
}

// threeChoices is a request with n = 3. Its times are those of the ABI's example
// in the first choice, a single token in the second, and an end before the first
// token in the third.
func threeChoices() *plugin.Frame {
	return &plugin.Frame{
		Flags: plugin.FlagMultiChoice | plugin.FlagTimingsWanted, Endpoint: plugin.EndpointChat, Outcome: plugin.OutcomeLength, N: 3, Prompts: 1,
		PromptTokens: 31, CompletionTokens: 11,
		Choices: []plugin.Choice{
			{FinishReason: plugin.OutcomeStop, PromptTokens: 31, CompletionTokens: 10, QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001},
			{Index: 1, FinishReason: plugin.OutcomeLength, PromptTokens: 31, CompletionTokens: 1, QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 45_500_001},
			{Index: 2, FinishReason: plugin.OutcomeClientAbort, PromptTokens: 31, QueuedNS: 1_000_000, ScheduledNS: 3_500_001},
		},
	}
}

// The three entries, worked out by hand: the first is the object of ABI.md's
// example; one token in 42 ms is 23.809524 a second.
const (
	first  = `"time_to_first_token_ms":42.0,"generation_time_ms":1500.25,"queue_time_ms":2.500001,"mean_itl_ms":166.694444,"tokens_per_second":6.484033`
	second = `"time_to_first_token_ms":42.0,"generation_time_ms":0.0,"queue_time_ms":2.500001,"mean_itl_ms":null,"tokens_per_second":23.809524`
	third  = `"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":2.500001,"mean_itl_ms":null,"tokens_per_second":null`
	nulls  = `"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null`
)

// rules are the cases of README.md's tables.
var rules = []struct {
	name, config string
	change       func(*plugin.Frame)
	want         string
}{
	{"three choices", `{}`, func(*plugin.Frame) {},
		`{"fields":{"x_choice_metrics":[` +
			`{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `},` +
			`{"index":1,"finish_reason":"length","completion_tokens":1,` + second + `},` +
			`{"index":2,"finish_reason":"client_abort","completion_tokens":0,` + third + `}]}}`},
	{"another field", `{"field":"choice_metrics"}`, func(f *plugin.Frame) { f.Choices = f.Choices[:1] },
		`{"fields":{"choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `}]}}`},
	{"timing unknown", `{}`, func(f *plugin.Frame) {
		f.Flags |= plugin.FlagTimingUnknown
		f.Choices = f.Choices[:1]
	}, `{"fields":{"x_choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + nulls + `}]}}`},
	{"the metrics object is not wanted", `{}`, func(f *plugin.Frame) {
		f.Flags &^= plugin.FlagTimingsWanted
		f.Choices = f.Choices[:1]
	}, `{"fields":{"x_choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `}]}}`},
	{"two prompts", `{}`, func(f *plugin.Frame) {
		f.Flags = plugin.FlagMultiPrompt
		f.Choices = f.Choices[:2]
		f.Choices[1].PromptIndex = 1
	}, `{"fields":{"x_choice_metrics":[` +
		`{"index":0,"prompt_index":0,"finish_reason":"stop","completion_tokens":10,` + first + `},` +
		`{"index":1,"prompt_index":1,"finish_reason":"length","completion_tokens":1,` + second + `}]}}`},
	{"one choice", `{}`, func(f *plugin.Frame) { f.Flags = plugin.FlagTimingsWanted }, ``},
	{"one choice, always", `{"always":true}`, func(f *plugin.Frame) {
		f.Flags = 0
		f.Choices = f.Choices[:1]
	}, `{"fields":{"x_choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `}]}}`},
	{"several turns", `{"always":true}`, func(f *plugin.Frame) { f.Flags |= plugin.FlagMultiTurn }, ``},
	{"running", `{"always":true}`, func(f *plugin.Frame) { f.Choices = []plugin.Choice{{Index: 7}} },
		`{"fields":{"x_choice_metrics":[{"index":7,"finish_reason":null,"completion_tokens":0,` + nulls + `}]}}`},
	{"fewer entries", `{"most":1}`, func(*plugin.Frame) {},
		`{"fields":{"x_choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `},{"omitted":2}]}}`},
	{"exactly as many", `{"most":3}`, func(f *plugin.Frame) { f.Choices = f.Choices[:1] },
		`{"fields":{"x_choice_metrics":[{"index":0,"finish_reason":"stop","completion_tokens":10,` + first + `}]}}`},
}

func TestRules(t *testing.T) {
	for _, c := range rules {
		frame := threeChoices()
		c.change(frame)
		if got := run(t, c.config, frame); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// largest is an answer of so many choices with the longest numbers and words.
func largest(n int) *plugin.Frame {
	const last = 1<<64 - 1
	frame := &plugin.Frame{Flags: plugin.FlagMultiPrompt, N: 1, Prompts: uint16(n)}
	for range n {
		frame.Choices = append(frame.Choices, plugin.Choice{
			Index: 1<<32 - 1, PromptIndex: 1<<32 - 1, FinishReason: plugin.OutcomeCrashRecovered, CompletionTokens: 1<<32 - 1,
			QueuedNS: 1, ScheduledNS: last/2 + 1, FirstTokenNS: last - 1, LastTokenNS: last,
		})
	}
	return frame
}

// The result stays within the ABI's 16 KiB, and nothing that fits is left out.
func TestLargest(t *testing.T) {
	field := strings.Repeat("f", 64)
	one := len(run(t, `{}`, largest(2))) - len(run(t, `{}`, largest(1)))
	if one > largestEntry {
		t.Errorf("an entry of the longest numbers has %d bytes, more than %d", one, largestEntry)
	}
	for _, frame := range []*plugin.Frame{largest(200), threeChoices()} {
		for len(frame.Choices) < 200 {
			frame.Choices = append(frame.Choices, frame.Choices[0])
			frame.N, frame.Prompts = uint16(len(frame.Choices)), 1
		}
		got := run(t, `{"field":"`+field+`"}`, frame)
		written := strings.Count(got, `"index"`)
		if len(got) > resultBytes || len(got) < resultBytes-2*largestEntry || !strings.HasSuffix(got, `]}}`) {
			t.Errorf("%d entries make a result of %d bytes, want a little less than %d", written, len(got), resultBytes)
		}
		if want := `{"omitted":` + string(append(digits(nil, 200-written), '}')); !strings.Contains(got, want) {
			t.Errorf("%d entries of 200, and the end is %s, want %s", written, got[len(got)-40:], want)
		}
	}
}

func digits(dst []byte, n int) []byte {
	if n >= 10 {
		dst = digits(dst, n/10)
	}
	return append(dst, byte('0'+n%10))
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                            "",
		`{"field":"x_a","always":true}`: "",
		`{"field":""}`:                  `field: "" is not the name of a field`,
		`{"field":"a b"}`:               `field: "a b" is not`,
		`{"field":"x_*"}`:               `field: "x_*" is not`,
		`{"field":7}`:                   `field: 7 is not`,
		`{"always":"yes"}`:              `always: "yes" is not true or false`,
		`{"most":0}`:                    `most: 0 is not a whole number in 1 … 65536`,
		`{"allways":true}`:              "allways: unknown member; use field, always, most",
	} {
		o := defaults()
		err := o.read([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

func TestSchema(t *testing.T) { plugintest.CheckSchema(t, new(config).members()) }

func FuzzShape(f *testing.F) {
	o := defaults()
	o.always = true
	plugintest.FuzzHook(f, plugin.HookShape, func(r wasmeter.Request, out *wasmeter.Answer) { o.shape(r, out) }, threeChoices())
}
