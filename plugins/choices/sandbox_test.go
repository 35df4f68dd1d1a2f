package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func spec(config string) plugin.Spec {
	return plugin.Spec{
		Name: "choices", Wasm: plugins.Module("choices"), Config: []byte(config), OnError: plugin.Closed, Fuel: 40_000_000,
		Grants: plugin.Grants{Fields: []string{"x_choice_metrics", "choice_metrics"}},
	}
}

// TestSandbox runs the committed module.
func TestSandbox(t *testing.T) {
	var last plugin.Call
	host := plugintest.NewHost(t, plugin.Options{Observer: func(c plugin.Call) { last = c }})
	ctx := context.Background()
	t.Run("rules", func(t *testing.T) {
		chains := map[string]*plugin.Chain{}
		for _, c := range rules {
			if chains[c.config] == nil {
				chains[c.config] = plugintest.Load(t, host, spec(c.config))
			}
			frame := threeChoices()
			c.change(frame)
			shaped, err := chains[c.config].Shape(ctx, frame, new(plugin.State))
			want := strings.TrimSuffix(strings.TrimPrefix(c.want, `{"fields":{`), `}}`)
			if err != nil || string(shaped.Members) != want {
				t.Errorf("%s: got %s, %v; want %s", c.name, shaped.Members, err, want)
			}
		}
	})
	t.Run("many choices", func(t *testing.T) {
		chain := plugintest.Load(t, host, spec(`{}`))
		shaped, err := chain.Shape(ctx, largest(1000), new(plugin.State))
		want := run(t, `{}`, largest(1000))
		if err != nil || `{"fields":{`+string(shaped.Members)+`}}` != want {
			t.Errorf("got %d bytes, %v; the source gives %d; run plugins/build.sh", len(shaped.Members), err, len(want))
		}
		t.Logf("%d choices used %d units of fuel", 1000, last.Fuel)
	})
	t.Run("default fuel", func(t *testing.T) { // README.md says how many choices it is enough for
		small := spec(`{}`)
		small.Fuel = 0
		chain, frame := plugintest.Load(t, host, small), threeChoices()
		for range 5 {
			frame.Choices = append(frame.Choices, frame.Choices[0])
		}
		if _, err := chain.Shape(ctx, frame, new(plugin.State)); err != nil {
			t.Errorf("8 choices: %v", err)
		}
		t.Logf("8 choices used %d units of fuel at first", last.Fuel)
	})
	t.Run("memory", func(t *testing.T) { // no call allocates, or 20,000 would fill 16 MiB
		small := spec(`{}`)
		small.Fuel = 5_000_000 // too little to collect garbage with
		chain, frame, state := plugintest.Load(t, host, small), threeChoices(), new(plugin.State)
		first, err := chain.Shape(ctx, frame, state)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(first.Members)
		for range 20_000 {
			shaped, err := chain.Shape(ctx, frame, state)
			if err != nil || !bytes.Equal(shaped.Members, want) {
				t.Fatalf("got %s, %v; the first call gave %s", shaped.Members, err, want)
			}
		}
		t.Logf("3 choices used %d units of fuel", last.Fuel)
	})
	t.Run("refused", func(t *testing.T) {
		bad := spec(`{"field":"elsewhere"}`)
		if got := plugintest.LoadFault(t, host, bad); !strings.Contains(got, "elsewhere") {
			t.Errorf("a field that is not granted: got %q", got)
		}
		if got := plugintest.LoadFault(t, host, spec(`{"allways":1}`)); !strings.Contains(got, "allways: unknown member") {
			t.Errorf("a misspelt member: got %q", got)
		}
	})
	t.Run("README", func(t *testing.T) {
		chain := plugintest.Load(t, host, plugintest.Configured(t, plugintest.README(t), "choices"))
		shaped, err := chain.Shape(ctx, threeChoices(), new(plugin.State))
		if err != nil || !strings.Contains(string(shaped.Members), first) {
			t.Errorf("got %s, %v", shaped.Members, err)
		}
	})
}
