package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func spec(config string) plugin.Spec {
	return plugin.Spec{
		Name: "sla", Wasm: plugins.Module("sla"), Config: []byte(config), OnError: plugin.Closed, Fuel: 100_000_000,
		Grants: plugin.Grants{Fields: []string{"sla"}, Emit: true, Metrics: true},
	}
}

// TestSandbox runs the committed module.
func TestSandbox(t *testing.T) {
	var samples []string
	var most int64 // fuel of a call
	var log bytes.Buffer
	host := plugintest.NewHost(t, plugin.Options{
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Observer: func(c plugin.Call) { most = max(most, c.Fuel) },
		Sampled: func(s plugin.Sample) {
			samples = append(samples, fmt.Sprint(s.Metric.Name, s.Metric.LabelValues(s.Series), s.Value))
		},
	})
	ctx := context.Background()
	t.Run("rules", func(t *testing.T) { // the module does what its source does, which main_test.go holds to the rules
		for _, config := range []string{gold, with(tightTargets, `,"credit":{"percent":30,"per_dimension":true}`, `,"endings":{"aborted":"judge","denied":"missed"}`)} {
			chain, native := plugintest.Load(t, host, spec(config)), defaults()
			if err := native.read([]byte(config)); err != nil {
				t.Fatal(err)
			}
			for _, c := range rules {
				frame, state := example(), new(plugin.State)
				if c.change != nil {
					c.change(frame)
				}
				shaped, err := chain.Shape(ctx, frame, state)
				want := plugintest.Native(plugin.HookShape, native.shape, frame)
				want = strings.TrimSuffix(strings.TrimPrefix(want, `{"fields":{`), `}}`)
				if err != nil || string(shaped.Members) != want {
					t.Errorf("%s: got %s, %v; the source gives %s", c.name, shaped.Members, err, want)
				}
				wasmeter.Outside.Records = nil
				if err := native.finish(wasmeter.NewRequest(frame.Append(nil, plugin.HookFinish))); err != nil {
					t.Fatal(err)
				}
				finished := chain.Finish(ctx, frame, state)
				var records []string
				for _, r := range finished.Records {
					if r.Kind != creditKind {
						t.Errorf("%s: a record of kind %d", c.name, r.Kind)
					}
					records = append(records, string(r.Data))
				}
				if len(finished.Failed) != 0 || !slices.Equal(records, wasmeter.Outside.Records) {
					t.Errorf("%s: got %s, failed %v; the source gives %s", c.name, records, finished.Failed, wasmeter.Outside.Records)
				}
			}
		}
	})
	for name, file := range map[string]string{"README": plugintest.README(t), "example": "../../examples/config/sla.yaml"} {
		t.Run(name, func(t *testing.T) {
			s := plugintest.Configured(t, file, "sla")
			chain, frame := plugintest.Load(t, host, s), example()
			samples = nil
			finish := func() {
				t.Helper()
				if finished := chain.Finish(ctx, frame, new(plugin.State)); len(finished.Failed) != 0 || len(finished.Records) != 1 {
					t.Fatalf("got %+v", finished)
				}
			}
			frame.Choices[0].FirstTokenNS = 500 * ms // of 300
			finish()
			frame.ServiceTier, frame.Tenant = "", "someone"
			cutOff(frame, plugin.OutcomeRejected, 0, 0)
			finish()
			want := []string{
				"requests_total[gold missed] 1", "missed_total[gold ttft] 1", "credit_micro_total[gold] 1500", "time_to_first_token_seconds[gold] 0.5",
				"requests_total[default excluded] 1",
			}
			if !slices.Equal(samples, want) {
				t.Errorf("got the samples %q, want %q", samples, want)
			}
			wrong := s
			wrong.Metrics = slices.Clone(s.Metrics)
			wrong.Metrics[1].Labels = slices.Clone(wrong.Metrics[1].Labels)
			wrong.Metrics[1].Labels[0].Values = wrong.Metrics[1].Labels[0].Values[1:]
			if got := plugintest.LoadFault(t, host, wrong); !strings.Contains(got, "self-test: hook finish") {
				t.Errorf("a metric without a class: got %q", got)
			}
		})
	}
	// A finish allocates, since a record is a new text: what is left of them is
	// collected within the fuel that README.md gives.
	t.Run("memory", func(t *testing.T) {
		chain, frame := plugintest.Load(t, host, spec(gold)), example()
		usual := most
		most = 0
		for range 20_000 {
			if finished := chain.Finish(ctx, frame, new(plugin.State)); len(finished.Failed) != 0 {
				t.Fatal(finished.Failed[0])
			}
		}
		t.Logf("no call used more than %d units of fuel, with a collection %d", usual, most)
	})
	t.Run("refused", func(t *testing.T) {
		if got := plugintest.LoadFault(t, host, spec(`{"field":"x_sla","default":{"targets":{"ttft_ms":1}}}`)); !strings.Contains(got, "x_sla") {
			t.Errorf("a field that is not granted: got %q", got)
		}
		if got := plugintest.LoadFault(t, host, spec(`{"metrics":true}`)); !strings.Contains(got, "self-test: hook finish") {
			t.Errorf("metrics that are not declared: got %q", got)
		}
		if want := "metrics[0] is not as config.metrics needs it; write {name: …, type: counter, labels: {class: [default], verdict: [met, missed, excluded, unknown]}}"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
		if got := plugintest.LoadFault(t, host, spec(`{"default":{"targets":{"ttft":1}}}`)); !strings.Contains(got, "default.targets.ttft: unknown member") {
			t.Errorf("a misspelt member: got %q", got)
		}
	})
}
