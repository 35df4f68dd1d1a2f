package main

import (
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

// TestShape: what clients are told, in the places that the configuration names.
func TestShape(t *testing.T) {
	frame := plugin.Frame{Model: "small", Outcome: plugin.OutcomeStop, PromptTokens: 100, CompletionTokens: 10}
	for config, want := range map[string]string{
		``: `{"fields":{"billing":{"cost":"0.000140","currency":"EUR"}},"usage":{"cost":0.000140}}`,
		`,"answer":{"lines":true,"usage":""}`: `{"fields":{"billing":{"cost":"0.000140","currency":"EUR",` +
			`"lines":[{"item":"input","quantity":100,"price":1000000},{"item":"output","quantity":10,"price":4000000}]}}}`,
		`,"answer":{"field":"x_price","usage":"x_cost"}`: `{"fields":{"x_price":{"cost":"0.000140","currency":"EUR"}},"usage":{"x_cost":0.000140}}`,
		`,"answer":{"field":""},"scale":0`:               `{"usage":{"cost":0}}`,
	} {
		c := configured(t, `{"currency":"EUR","default":{"input":1000000,"output":4000000}`+config+`}`)
		if got := plugintest.Native(plugin.HookShape, c.shape, &frame); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", config, got, want)
		}
	}
	c := configured(t, `{"currency":"EUR","models":[{"model":"m","input":1,"output":1}]}`)
	defer func() {
		if recover() == nil {
			t.Error("a model without a price has an answer with one")
		}
	}()
	t.Log(plugintest.Native(plugin.HookShape, c.shape, &frame))
}

// TestAdmit: quotes and refusals. A token of the prompt costs 1 and one of the
// completion 4, above 100 tokens of the prompt twice as much.
func TestAdmit(t *testing.T) {
	const model = `"models":[{"model":"m","input":1000000,"cached_input":0,"output":4000000,"request":7,"tiers":[{"above":100,"input":2000000,"cached_input":0,"output":8000000}]}]`
	for _, test := range []struct {
		name, config string
		frame        plugin.Frame
		want         string
	}{
		{"a quote", model, plugin.Frame{Model: "m", PromptTokens: 100, MaxTokens: 10, N: 1, Prompts: 1}, `{"headers":{"x-cost-quote":"0.000147 EUR"}}`},
		{"of a tier", model, plugin.Frame{Model: "m", PromptTokens: 101, MaxTokens: 10, N: 1, Prompts: 1}, `{"headers":{"x-cost-quote":"0.000289 EUR"}}`},
		{"of each choice", model, plugin.Frame{Model: "m", PromptTokens: 100, MaxTokens: 10, N: 3, Prompts: 2}, `{"headers":{"x-cost-quote":"0.000347 EUR"}}`},
		{"none without a limit", model, plugin.Frame{Model: "m", PromptTokens: 100, N: 1, Prompts: 1}, ``},
		{"another header", model + `,"answer":{"quote":"x-price"}`, plugin.Frame{Model: "m", PromptTokens: 1, MaxTokens: 1}, `{"headers":{"x-price":"0.000012 EUR"}}`},
		{"no header", model + `,"answer":{"quote":""}`, plugin.Frame{Model: "m", PromptTokens: 1, MaxTokens: 1}, ``},
		{"a class", model + `,"classes":[{"class":"batch","pays":5000}]`, plugin.Frame{Model: "m", PromptTokens: 100, MaxTokens: 10, Flags: plugin.FlagBatch}, `{"headers":{"x-cost-quote":"0.000074 EUR"}}`},
		{"refused", model, plugin.Frame{Model: "n", PromptTokens: 1, MaxTokens: 1},
			`{"deny":{"status":403,"code":"model_not_priced","message":"the model \"n\" has no price, and the server serves none without"}}`},
		{"free", model + `,"unknown":"free"`, plugin.Frame{Model: "n", PromptTokens: 1, MaxTokens: 1}, ``},
		{"a default", model + `,"default":{"input":3000000,"output":3000000}`, plugin.Frame{Model: "n", PromptTokens: 1, MaxTokens: 1}, `{"headers":{"x-cost-quote":"0.000006 EUR"}}`},
		{"never made: all that needs a grant", model, plugin.Frame{Model: "n", PromptTokens: 1, MaxTokens: 1, Flags: plugin.FlagSynthetic},
			`{"headers":{"x-cost-quote":"0.000012 EUR"},"deny":{"status":403,"code":"model_not_priced","message":"the model \"n\" has no price, and the server serves none without"}}`},
	} {
		c := configured(t, `{"currency":"EUR",`+test.config+`}`)
		if got := plugintest.Native(plugin.HookRequest, c.admit, &test.frame); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
}

// The quote of a request that uses all it may, with nothing cached, is its cost.
func FuzzQuote(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := newRand(seed)
		c, frame := configured(t, randomBook(r)), randomFrame(r)
		frame.CachedPromptTokens, frame.CacheWriteTokens, frame.ImageTokens, frame.AudioTokens, frame.ReasoningTokens = 0, 0, 0, 0, 0
		frame.ToolCalls, frame.DeviceNS, frame.MaxTokens = 0, 0, max(frame.CompletionTokens, 1)
		frame.CompletionTokens = frame.MaxTokens
		a, err := c.book.account(ended(frame))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"headers":{"x-cost-quote":"` + c.book.decimal(amount{uint128: a.cost}) + ` EUR"}}`
		if got := plugintest.Native(plugin.HookRequest, c.admit, &frame); got != want {
			t.Errorf("seed %d: got %s, want %s for %+v", seed, got, want, frame)
		}
	})
}

// A configuration has the hooks that it needs: one that it has not costs nothing.
func TestHooks(t *testing.T) {
	const prices = `"input":1,"output":2`
	for config, want := range map[string][2]bool{ // request, shape
		`"models":[{"model":"m",` + prices + `}]`:                                                     {true, true},
		`"models":[{"model":"m",` + prices + `}],"answer":{"quote":""}`:                               {true, true},
		`"models":[{"model":"m",` + prices + `}],"answer":{"quote":""},"unknown":"free"`:              {false, true},
		`"default":{` + prices + `},"answer":{"quote":"","field":""}`:                                 {false, true},
		`"default":{` + prices + `},"answer":{"quote":"","field":"","usage":""}`:                      {false, false},
		`"default":{` + prices + `},"answer":{"field":"","usage":""}`:                                 {true, false},
		`"default":{` + prices + `},"corrects":{"plugin":"b","reason":"r","book":{"unknown":"free"}}`: {false, false},
	} {
		h := configured(t, `{"currency":"EUR",`+config+`}`).hooks()
		if got := [2]bool{h.Request != nil, h.Shape != nil}; got != want || h.Finish == nil {
			t.Errorf("%s: has request and shape %v, want %v; finish %v", config, got, want, h.Finish != nil)
		}
	}
}
