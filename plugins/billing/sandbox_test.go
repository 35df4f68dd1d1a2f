package main

import (
	"context"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func spec(config string) plugin.Spec {
	builtin, _ := plugins.Find("billing")
	return plugin.Spec{
		Name: "billing", Wasm: builtin.Module, Config: []byte(config), OnError: plugin.Closed, Fuel: builtin.Fuel,
		Grants: plugin.Grants{Fields: []string{"billing"}, UsageExtend: []string{"cost"}, Headers: []string{"x-cost-quote"}, Emit: true, Deny: true},
	}
}

// TestSandbox runs the committed module.
func TestSandbox(t *testing.T) {
	var last plugin.Call
	host := plugintest.NewHost(t, plugin.Options{Observer: func(c plugin.Call) { last = c }})
	t.Run("as its source", func(t *testing.T) { testAsSource(t, host) })
	t.Run("many calls", func(t *testing.T) { testManyCalls(t, host, &last) })
	t.Run("many models", func(t *testing.T) { testManyModels(t, host, &last) })
	t.Run("grants", func(t *testing.T) { testGrants(t, host) })
	t.Run("documents", func(t *testing.T) { testREADME(t, host) })
	t.Run("correction", func(t *testing.T) { testCorrection(t, host) })
}

// testAsSource: the module and its source say the same of random requests by
// random books.
func testAsSource(t *testing.T, host *plugin.Host) {
	ctx := context.Background()
	for seed := range uint64(4) {
		r := newRand(seed)
		text := randomBook(r)
		c, chain := configured(t, text), plugintest.Load(t, host, spec(text))
		for range 100 {
			frame := randomFrame(r)
			frame.Outcome, frame.ScheduledNS = plugin.Outcome(r.IntN(14)), r.Uint64N(2)
			frame.MaxTokens, frame.Tenant = uint32(r.IntN(3)*1000), `"é"`
			state := new(plugin.State)
			want := plugintest.Native(plugin.HookRequest, c.admit, &frame)
			verdict, err := chain.Request(ctx, &frame, state)
			if err != nil || len(verdict.Headers) > 0 != (want != "") || want != "" && !strings.Contains(want, `"`+verdict.Headers[0].Value+`"`) {
				t.Errorf("seed %d: request gives %v, %v; its source %s; run plugins/build.sh", seed, verdict, err, want)
			}
			want = plugintest.Native(plugin.HookShape, c.shape, &frame)
			shaped, err := chain.Shape(ctx, &frame, state)
			if got := `{"fields":{` + string(shaped.Members) + `},"usage":{` + string(shaped.Usage) + `}}`; err != nil || got != want {
				t.Errorf("seed %d: shape gives %s, %v; its source %s; run plugins/build.sh", seed, got, err, want)
			}
			records, err := finished(t, c, frame)
			if err != nil {
				t.Fatal(err)
			}
			done := chain.Finish(ctx, &frame, state)
			if len(done.Failed) > 0 || len(done.Records) != len(records) {
				t.Fatalf("seed %d: finish gives %d records and %v; its source %d", seed, len(done.Records), done.Failed, len(records))
			}
			for i, record := range done.Records {
				if string(record.Data) != records[i] || record.Kind != int32(chargeKind) {
					t.Errorf("seed %d: finish gives %d, %s; its source %s", seed, record.Kind, record.Data, records[i])
				}
			}
		}
	}
}

func usualFrame() *plugin.Frame {
	return &plugin.Frame{
		Endpoint: plugin.EndpointChat, Outcome: plugin.OutcomeStop, N: 1, Prompts: 1, PromptTokens: 300, CompletionTokens: 128, MaxTokens: 200,
		ArrivalUnixNS: noon, ScheduledNS: 3_512_345, DeviceNS: 900_000_000,
		RequestID: "chatcmpl-0123456789abcdef", AttemptID: "01936f2e-0000-7000-8000-000000000000", Model: "large", Tenant: "acme",
		Choices: []plugin.Choice{{PromptTokens: 300, CompletionTokens: 128}},
	}
}

// testManyCalls: none of these calls fails or takes more than a plugin's usual
// fuel. A plugin in Go that made garbage would collect it in some, for 20 million.
func testManyCalls(t *testing.T, host *plugin.Host, last *plugin.Call) {
	ctx, chain, frame, state := context.Background(), plugintest.Load(t, host, spec(priceList)), usualFrame(), new(plugin.State)
	var fuel [plugin.HookFinish + 1]int64 // the least
	var most int64
	seen := func() {
		if least := &fuel[last.Hook]; *least == 0 || last.Fuel < *least {
			*least = last.Fuel
		}
		most = max(most, last.Fuel)
	}
	for range 9_000 {
		if _, err := chain.Request(ctx, frame, state); err != nil {
			t.Fatal(err)
		}
		seen()
		shaped, err := chain.Shape(ctx, frame, state)
		if err != nil || string(shaped.Usage) != `"cost":1.358220` { // 300·10 + 128·40 + 100 + 0.9·1500000
			t.Fatalf("got %s, %v", shaped.Usage, err)
		}
		seen()
		if done := chain.Finish(ctx, frame, state); len(done.Failed) > 0 || len(done.Records) != 1 {
			t.Fatalf("got %d records, %v", len(done.Records), done.Failed)
		}
		seen()
	}
	t.Logf("fuel: request %d, shape %d, finish %d; at most %d", fuel[plugin.HookRequest], fuel[plugin.HookShape], fuel[plugin.HookFinish], most)
	if most > 5_000_000 {
		t.Errorf("a call took %d units: garbage was collected in it", most)
	}
}

// testManyModels: the largest book can be read, and a long list makes no call
// expensive.
func testManyModels(t *testing.T, host *plugin.Host, last *plugin.Call) {
	var list strings.Builder
	for i := range mostModels {
		list.WriteString(`{"model":"` + strings.Repeat("x", 20) + decimal(uint64(i)) + `*","input":1000000,"output":1},`)
	}
	text := `{"currency":"EUR","models":[` + strings.TrimSuffix(list.String(), ",") + `]}`
	large := spec(text)
	frame := usualFrame()
	frame.Model = strings.Repeat("x", 20) + "255-and-so-on"
	shaped, err := plugintest.Load(t, host, large).Shape(context.Background(), frame, new(plugin.State))
	if err != nil || string(shaped.Usage) != `"cost":0.000300` { // 300 · 1, and 128 millionths
		t.Errorf("got %s, %v", shaped.Usage, err)
	}
	t.Logf("%d models of %d bytes: %d units in shape", mostModels, len(text), last.Fuel)
}

// testGrants: whoever forgets one is told at load, with all that there are.
func testGrants(t *testing.T, host *plugin.Host) {
	const unpriced = `{"currency":"EUR","models":[{"model":"m","input":1,"output":1}]}`
	builtin, _ := plugins.Find("billing")
	for missing, without := range map[string]func(*plugin.Grants){
		"grants.fields":       func(g *plugin.Grants) { g.Fields = nil },
		"grants.usage_extend": func(g *plugin.Grants) { g.UsageExtend = nil },
		"grants.headers":      func(g *plugin.Grants) { g.Headers = nil },
		"grants.emit: true":   func(g *plugin.Grants) { g.Emit = false },
		"grants.deny: true":   func(g *plugin.Grants) { g.Deny = false },
	} {
		s := spec(unpriced)
		without(&s.Grants)
		s.UsualGrants = builtin.Grants
		current := plugin.NewCurrent(host)
		err := current.Reload(context.Background(), []plugin.Spec{s})
		if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), builtin.Grants) {
			t.Errorf("without %s: got %v", missing, err)
		}
		if err := current.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if got := plugintest.LoadFault(t, host, spec(`{"currency":"EUR","default":{"input":2.5,"output":1}}`)); !strings.Contains(got, "default.input: 2.5 is not a whole number") {
		t.Errorf("a price with a fraction: got %q", got)
	}
}

// testREADME runs the configurations that the README and the examples show. They
// agree on what 300 tokens at 0.15 and 128 at 0.60 for a million cost: 45 and
// 76.8 micro-dollars.
func testREADME(t *testing.T, host *plugin.Host) {
	for _, file := range []string{plugintest.README(t), "../../examples/config/billing.yaml"} {
		current := plugin.NewCurrent(host)
		s := plugintest.Configured(t, file, "billing")
		if s.Fuel != spec("").Fuel {
			t.Errorf("%s: it has %d units of fuel, want those of a built-in plugin", file, s.Fuel)
		}
		if err := current.Reload(context.Background(), []plugin.Spec{s}); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		set, frame := current.Acquire(), usualFrame()
		frame.Model = "smollm2"
		shaped, err := set.Chain("smollm2", "acme", plugin.EndpointChat).Shape(context.Background(), frame, new(plugin.State))
		if want := `"billing":{"cost":"0.000122","currency":"USD"}`; err != nil || string(shaped.Members) != want {
			t.Errorf("%s: got %s, %v; want %s", file, shaped.Members, err, want)
		}
		set.Release()
		if err := current.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// testCorrection: under a name of its own, a correction has a place of its own
// in the ledger, whose key is attempt, plugin and index.
func testCorrection(t *testing.T, host *plugin.Host) {
	s := spec(`{"currency":"EUR","default":{"input":1000000,"output":1000000},"corrects":{"plugin":"billing","reason":"a misprint",
		"book":{"default":{"input":2000000,"output":1000000}}}}`)
	s.Name, s.Grants = "billing-2026-12", plugin.Grants{Emit: true}
	chain, frame := plugintest.Load(t, host, s), usualFrame()
	frame.Flags |= plugin.FlagReplay
	done := chain.Finish(context.Background(), frame, new(plugin.State))
	if len(done.Failed) > 0 || len(done.Records) != 1 {
		t.Fatalf("got %d records, %v", len(done.Records), done.Failed)
	}
	if r := done.Records[0]; r.Plugin != s.Name || r.Index != 0 || r.Kind != int32(correctionKind) || !strings.Contains(string(r.Data), `"cost":"-0.000300"`) {
		t.Errorf("got %s[%d], kind %d: %s", r.Plugin, r.Index, r.Kind, r.Data)
	}
	frame.Flags = 0
	if done := chain.Finish(context.Background(), frame, new(plugin.State)); len(done.Failed) != 1 || len(done.Records) != 0 {
		t.Errorf("as it happens: got %d records, %v; want a failure", len(done.Records), done.Failed)
	}
}

// BenchmarkHooks is what billing adds to a request.
func BenchmarkHooks(b *testing.B) {
	ctx, chain, frame, state := context.Background(), plugintest.Load(b, plugintest.NewHost(b, plugin.Options{}), spec(priceList)), usualFrame(), new(plugin.State)
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := chain.Request(ctx, frame, state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("shape", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := chain.Shape(ctx, frame, state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("finish", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if done := chain.Finish(ctx, frame, state); len(done.Failed) > 0 {
				b.Fatal(done.Failed[0])
			}
		}
	})
}
