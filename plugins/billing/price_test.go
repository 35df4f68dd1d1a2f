package main

import (
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// configured reads a configuration that is right.
func configured(t testing.TB, text string) *config {
	t.Helper()
	c, err := readConfig([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// ended is a frame at a request's end.
func ended(frame plugin.Frame) wasmeter.Request {
	return wasmeter.NewRequest(frame.Append(nil, plugin.HookFinish))
}

// priceList has one of everything. Its prices are easy to work with by hand: at
// 1 unit of the currency for a million tokens, a token is 1 micro-unit.
const priceList = `{
	"currency": "EUR", "version": "2026-11",
	"models": [
		{"model": "small", "input": 1000000, "output": 4000000},
		{"model": "tiny", "input": 1, "output": 500000},
		{"model": "large", "input": 10000000, "cached_input": 1000000, "cache_write": 12500000, "image": 20000000, "audio": 30000000,
		 "output": 40000000, "reasoning": 50000000, "request": 100, "tool_call": 2000, "device_second": 1500000, "minimum": 500,
		 "tiers": [
			{"above": 1000, "input": 20000000, "cached_input": 2000000, "cache_write": 25000000, "image": 20000000, "audio": 30000000, "output": 60000000, "reasoning": 60000000},
			{"above": 2000, "input": 0, "cached_input": 0, "cache_write": 0, "image": 0, "audio": 0, "output": 1000000, "reasoning": 0}
		 ]},
		{"model": "large-*", "input": 2000000, "output": 2000000},
		{"model": "large-free-*", "input": 0, "output": 0, "minimum": 0},
		{"model": "floor", "input": 1000000, "output": 1000000, "minimum": 1000}
	],
	"default": {"input": 7000000, "output": 7000000},
	"classes": [
		{"class": "flex", "pays": 2500, "models": ["small"]},
		{"class": "flex", "pays": 7500},
		{"class": "batch", "pays": 5000},
		{"class": "priority", "pays": 17500}
	],
	"windows": [
		{"name": "weekend", "from": "00:00", "to": "24:00", "days": ["sat", "sun"], "pays": 8000, "models": ["small"]},
		{"name": "night", "from": "22:00", "to": "06:00", "pays": 5000}
	]
}`

// Times of arrival: a Friday at noon, the night that follows, and Saturday noon.
const (
	noon         = 1_795_780_800_000_000_000 // 2026-11-27T12:00:00Z
	night        = noon + 11*3_600_000_000_000
	saturday     = noon + 24*3_600_000_000_000
	saturdayLate = saturday + 11*3_600_000_000_000
)

// Costs that were worked out by hand from the list above.
func TestPrice(t *testing.T) {
	c := configured(t, priceList)
	for _, test := range []struct {
		name  string
		frame plugin.Frame
		want  string
	}{
		{"100 · 1 + 10 · 4", plugin.Frame{Model: "small", PromptTokens: 100, CompletionTokens: 10}, "0.000140"},
		{"nothing", plugin.Frame{Model: "small"}, "0.000000"},
		{"a millionth of a micro-unit rounds down", plugin.Frame{Model: "tiny", PromptTokens: 1}, "0.000000"},
		{"just below a half rounds down", plugin.Frame{Model: "tiny", PromptTokens: 499_999}, "0.000000"},
		{"half rounds up", plugin.Frame{Model: "tiny", PromptTokens: 500_000}, "0.000001"},
		{"half a token's price rounds up", plugin.Frame{Model: "tiny", CompletionTokens: 1}, "0.000001"},
		{"rounded once: 0.5 + 0.5 is 1 and not 2", plugin.Frame{Model: "tiny", PromptTokens: 500_000, CompletionTokens: 1}, "0.000001"},
		{"the default", plugin.Frame{Model: "other", PromptTokens: 1}, "0.000007"},
		{"a name wins over a prefix", plugin.Frame{Model: "large", PromptTokens: 100}, "0.001100"}, // 100 · 10 + 100
		{"a prefix", plugin.Frame{Model: "large-2", PromptTokens: 100}, "0.000200"},                // 100 · 2
		{"the prefix itself", plugin.Frame{Model: "large-", PromptTokens: 100}, "0.000200"},        //
		{"the longest prefix", plugin.Frame{Model: "large-free-2", PromptTokens: 100}, "0.000000"}, //
		{"not the whole prefix", plugin.Frame{Model: "larg", PromptTokens: 1}, "0.000007"},         //
		{"everything", plugin.Frame{Model: "large", PromptTokens: 1000, CachedPromptTokens: 400, CacheWriteTokens: 300, ImageTokens: 200, AudioTokens: 50, // 50 are left
			CompletionTokens: 100, ReasoningTokens: 60, ToolCalls: 3, DeviceNS: 2_000_000_000},
			// 50·10 + 400·1 + 300·12.5 + 200·20 + 50·30 + 40·40 + 60·50 + 100 + 3·2000 + 2·1500000
			"3.020850"},
		{"device time below a second", plugin.Frame{Model: "large", DeviceNS: 1_000_001, PromptTokens: 100}, "0.002600"}, // 1100 + 1500.0015
		{"parts beyond the whole: 300 cached, 100 written, nothing left", plugin.Frame{Model: "large", PromptTokens: 400, CachedPromptTokens: 300, CacheWriteTokens: 900, ImageTokens: 5},
			"0.001650"}, // 300 · 1 + 100 · 12.5 + 100
		{"more reasoning than completion", plugin.Frame{Model: "large", CompletionTokens: 10, ReasoningTokens: 11}, "0.000600"}, // 10 · 50 + 100
		{"parts without a price are priced as the whole", plugin.Frame{Model: "small", PromptTokens: 100, CachedPromptTokens: 40, ImageTokens: 60, CompletionTokens: 10, ReasoningTokens: 10}, "0.000140"},
		{"at a tier's limit", plugin.Frame{Model: "large", PromptTokens: 1000}, "0.010100"},
		{"above it the whole request is", plugin.Frame{Model: "large", PromptTokens: 1001, CompletionTokens: 1}, "0.020180"}, // 1001·20 + 60 + 100
		{"the next tier, whose prompts are free", plugin.Frame{Model: "large", PromptTokens: 2001, CompletionTokens: 1000}, "0.001100"},
		{"a minimum", plugin.Frame{Model: "floor", PromptTokens: 1}, "0.001000"},
		{"above the minimum", plugin.Frame{Model: "floor", PromptTokens: 1001}, "0.001001"},
		{"the minimum is not discounted", plugin.Frame{Model: "floor", PromptTokens: 1500, ServiceTier: "flex"}, "0.001125"},
		{"nor below it", plugin.Frame{Model: "floor", PromptTokens: 1200, ServiceTier: "flex"}, "0.001000"}, // 900
		{"batch", plugin.Frame{Model: "small", PromptTokens: 100, Flags: plugin.FlagBatch}, "0.000050"},
		{"batch, whatever tier it asks for", plugin.Frame{Model: "small", PromptTokens: 100, Flags: plugin.FlagBatch, ServiceTier: "priority"}, "0.000050"},
		{"priority", plugin.Frame{Model: "small", PromptTokens: 100, ServiceTier: "priority"}, "0.000175"},
		{"the first of two rules", plugin.Frame{Model: "small", PromptTokens: 100, ServiceTier: "flex"}, "0.000025"},
		{"the second, for other models", plugin.Frame{Model: "large-2", PromptTokens: 100, ServiceTier: "flex"}, "0.000150"},
		{"a tier that nobody knows", plugin.Frame{Model: "small", PromptTokens: 100, ServiceTier: "auto"}, "0.000100"},
		{"at night", plugin.Frame{Model: "small", PromptTokens: 100, ArrivalUnixNS: night}, "0.000050"},
		{"on Saturday", plugin.Frame{Model: "small", PromptTokens: 100, ArrivalUnixNS: saturday}, "0.000080"},
		{"the first window that is open", plugin.Frame{Model: "small", PromptTokens: 100, ArrivalUnixNS: saturdayLate}, "0.000080"},
		{"a window for other models", plugin.Frame{Model: "other", PromptTokens: 100, ArrivalUnixNS: saturdayLate}, "0.000350"},
		{"priority at night", plugin.Frame{Model: "small", PromptTokens: 100, ServiceTier: "priority", ArrivalUnixNS: night}, "0.000088"}, // 87.5
		{"the largest frame", plugin.Frame{Model: "small", PromptTokens: 1<<32 - 1, CompletionTokens: 1<<32 - 1}, "21474.836475"},         // (2^32 - 1) · 5
	} {
		if test.frame.ArrivalUnixNS == 0 {
			test.frame.ArrivalUnixNS = noon
		}
		test.frame.Outcome = plugin.OutcomeStop
		a, err := c.book.account(ended(test.frame))
		if got := c.book.decimal(amount{uint128: a.cost}); err != nil || got != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// The scale is that of the printed cost; prices stay what they are.
func TestScale(t *testing.T) {
	for scale, want := range map[string]string{
		"0": "12", "1": "12.3", "2": "12.35", "4": "12.3457", "6": "12.345678", "7": "12.3456784", "12": "12.345678400000",
	} {
		c := configured(t, `{"currency":"JPY","scale":`+scale+`,"default":{"input":123456784000,"output":0}}`)
		a, err := c.book.account(ended(plugin.Frame{Outcome: plugin.OutcomeStop, PromptTokens: 100}))
		if got := c.book.decimal(amount{uint128: a.cost}); err != nil || got != want {
			t.Errorf("scale %s: got %s, %v; want %s", scale, got, err, want)
		}
	}
}

// highest has the highest of everything.
const highest = `{"currency":"EUR","scale":12,"default":{"input":1000000000000,"output":1000000000000,"reasoning":1000000000000,
	"request":1000000000000,"tool_call":1000000000000,"device_second":1000000000,"minimum":1000000000000},
	"classes":[{"class":"batch","pays":100000}],"windows":[{"name":"always","from":"00:00","to":"24:00","pays":100000}]}`

// No configuration that is accepted and no frame can be more than 128 bits hold,
// and what is more is an error and no price.
func TestLargestCost(t *testing.T) {
	c := configured(t, highest)
	const last = 1<<32 - 1
	frame := plugin.Frame{Flags: plugin.FlagBatch, Outcome: plugin.OutcomeStop, PromptTokens: last, CompletionTokens: last, ReasoningTokens: 7,
		ToolCalls: 1<<16 - 1, DeviceNS: 1<<64 - 1, ArrivalUnixNS: 1<<64 - 1}
	a, err := c.book.account(ended(frame))
	if got, want := c.book.decimal(amount{uint128: a.cost}), twinCost(t, highest, &frame); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}

	u := usage{}
	u.counts[input], u.counts[output] = 1<<64-1, 1<<64-1
	if b, err := c.book.price(&u); err != errTooLarge {
		t.Errorf("twice 2^64 tokens cost %v, %v; want an error", b.cost, err)
	}
}
