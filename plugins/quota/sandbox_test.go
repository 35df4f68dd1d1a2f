package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func spec(config string) plugin.Spec {
	return plugin.Spec{
		Name: "quota", Wasm: plugins.Module("quota"), Config: []byte(config), OnError: plugin.Closed,
		Grants: plugin.Grants{Deny: true, KVWrite: true, Headers: []string{"x-quota-*"}},
	}
}

// TestSandbox runs the committed module.
func TestSandbox(t *testing.T) {
	var mu sync.Mutex
	var most int64 // fuel of a call
	kv := plugin.NewMemoryKV()
	host := plugintest.NewHost(t, plugin.Options{KV: kv, NoBreaker: true, Observer: func(c plugin.Call) {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, c.Fuel)
	}})
	ctx := context.Background()

	// A burst: what is let through together never goes beyond the limit, and with
	// every end the room comes back.
	t.Run("burst", func(t *testing.T) {
		chain := plugintest.Load(t, host, spec(`{"headers":true,"default":{"limits":[{"window":"minute","tokens":1000},{"window":"day","tokens":100000}]}}`))
		frame := asked("acme", "10:20:00") // its count of the minute lives for 60 s of the test
		key := fmt.Appendf(nil, "default tenant minute %d acme", frame.ArrivalUnixNS/1e9/60*60)
		const clients, rounds = 6, 50
		var wg sync.WaitGroup
		var passed, refused int
		for range clients {
			wg.Go(func() {
				for range rounds {
					verdict, err := chain.Request(ctx, frame, new(plugin.State))
					for failure := (*plugin.Failure)(nil); errors.As(err, &failure) && failure.Kind == plugin.FailurePoolExhausted; {
						verdict, err = chain.Request(ctx, frame, new(plugin.State))
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if verdict.Deny == nil {
						passed++
					} else {
						refused++
					}
					mu.Unlock()
					if d := verdict.Deny; d != nil && (d.Status != 429 || d.RetryAfter < 1 || d.RetryAfter > 60) {
						t.Errorf("got %+v", d)
					}
				}
			})
		}
		wg.Wait()
		value, _, err := kv.Get("quota", key)
		sum := int64(0)
		for i, b := range value {
			sum |= int64(b) << (8 * i)
		}
		if err != nil || passed > 20 || passed+refused != clients*rounds || sum != int64(passed)*50 {
			t.Errorf("%d of %d passed and %d tokens are set aside, %v; at most 20 of 50 fit into 1000", passed, passed+refused, sum, err)
		}
		if passed < 20 { // two that arrive together may both find no room
			t.Logf("%d passed, 20 would have fitted", passed)
		}
	})
	t.Run("finish", func(t *testing.T) {
		chain := plugintest.Load(t, host, spec(`{"classes":[{"name":"free","tenants":["zoe"],"limits":[{"window":"day","tokens":100}]}]}`))
		frame, state := asked("zoe", "10:20:30"), new(plugin.State)
		for i, want := range []bool{true, true, false} {
			*state = plugin.State{}
			verdict, err := chain.Request(ctx, frame, state)
			if err != nil || (verdict.Deny == nil) != want {
				t.Fatalf("request %d: got %+v, %v; want it to pass: %v", i, verdict.Deny, err, want)
			}
			if i == 1 { // the second used 31 of 50
				finished := chain.Finish(ctx, ended(frame, plugin.OutcomeStop, 1, time.Millisecond, ""), state)
				if len(finished.Failed) != 0 || len(finished.Writes) != 1 || finished.Writes[0].Delta != 31-50 {
					t.Fatalf("got %+v, want one write of %d", finished, 31-50)
				}
				if left, ttl := 13*time.Hour+39*time.Minute+30*time.Second, finished.Writes[0].TTL; ttl != left {
					t.Errorf("the count lives for %v, its day for %v", ttl, left)
				}
			}
		}
	})
	t.Run("no room for keys", func(t *testing.T) { // 10,000 keys are all that a plugin may have
		full := plugin.NewMemoryKV()
		for i := range 10_000 {
			if _, err := full.Add("quota", fmt.Appendf(nil, "%d", i), 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		host := plugintest.NewHost(t, plugin.Options{KV: full})
		for _, strict := range []bool{false, true} {
			chain := plugintest.Load(t, host, spec(fmt.Sprintf(`{"strict":%v,"default":{"limits":[{"window":"day","tokens":100}]}}`, strict)))
			verdict, err := chain.Request(ctx, asked("acme", "10:20:30"), new(plugin.State))
			if err != nil || (verdict.Deny != nil) != strict || strict && verdict.Deny.Code != "quota_unavailable" {
				t.Errorf("strict %v: got %+v, %v", strict, verdict.Deny, err)
			}
		}
	})
	t.Run("memory", func(t *testing.T) { // a request that passes allocates nothing, or 16 MiB would not last
		chain := plugintest.Load(t, host, spec(`{"headers":true,"default":{"limits":[{"window":"month","tokens":1000000000000},{"window":"month","per":"key","tokens":1000000000000}]}}`))
		frame, state := asked("mem", "10:20:30"), new(plugin.State)
		for range 20_000 {
			state.Reset()
			verdict, err := chain.Request(ctx, frame, state)
			if err != nil || verdict.Deny != nil || len(verdict.Headers) != 3 {
				t.Fatalf("got %+v, %v", verdict, err)
			}
			if finished := chain.Finish(ctx, ended(frame, plugin.OutcomeStop, 1, 1, ""), state); len(finished.Writes) != 2 {
				t.Fatalf("got %+v, want 2 writes", finished)
			}
		}
		t.Logf("no call used more than %d units of fuel", most)
	})
	t.Run("memory of refusals", func(t *testing.T) { // the same, or a client could ask until one call runs out of fuel
		plain := spec(`{"headers":true,"default":{"limits":[{"window":"month","tokens":60}]}}`)
		plain.Fuel = 5_000_000 // too little to collect garbage with
		chain, frame, state := plugintest.Load(t, host, plain), asked("mem2", "10:20:30"), new(plugin.State)
		large := *frame
		large.MaxTokens = 1000
		for i := range 30_000 {
			for _, f := range []*plugin.Frame{frame, &large} {
				state.Reset()
				verdict, err := chain.Request(ctx, f, state)
				if first := i == 0 && f == frame; err != nil || (verdict.Deny == nil) != first {
					t.Fatalf("request %d: got %+v, %v", i, verdict.Deny, err)
				}
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		plain := spec(`{"headers":true,"default":{"limits":[{"window":"day","tokens":1000}]}}`)
		plain.Grants.Headers = nil
		if got := plugintest.LoadFault(t, host, plain); !strings.Contains(got, "grants.headers") {
			t.Errorf("headers that are not granted: got %q", got)
		}
		if got := plugintest.LoadFault(t, host, spec(`{"default":{"limits":[{"window":"week","tokens":1}]}}`)); !strings.Contains(got, "default.limits[0].window") {
			t.Errorf("a window that there is not: got %q", got)
		}
		poor := spec(`{}`)
		poor.Grants.KVWrite = false
		if got := plugintest.LoadFault(t, host, poor); !strings.Contains(got, "grants.kv.write") {
			t.Errorf("without keys: got %q", got)
		}
	})
	for name, file := range map[string]string{"README": plugintest.README(t), "example": "../../examples/config/quota.yaml"} {
		t.Run(name, func(t *testing.T) {
			chain := plugintest.Load(t, host, plugintest.Configured(t, file, "quota"))
			frame := asked("trial-7", "10:20:30")
			frame.MaxTokens = 1
			verdict, err := chain.Request(ctx, frame, new(plugin.State))
			if err != nil || verdict.Deny != nil || len(verdict.Headers) != 3 {
				t.Errorf("got %+v, %v; want headers", verdict, err)
			}
		})
	}
}
