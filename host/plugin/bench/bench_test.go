package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

const (
	billing = "../../../examples/plugins/billing-zig/billing.wasm"
	prices  = `{"input":2500000,"output":10000000}`
)

func spec(t *testing.T) plugin.Spec {
	t.Helper()
	wasm, err := os.ReadFile(billing)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Spec{Name: "test", Wasm: wasm, Config: []byte(prices), Grants: plugin.Everything()}
}

// TestRun: what does not depend on the machine is exact.
func TestRun(t *testing.T) {
	report, err := Run(t.Context(), plugin.Options{}, spec(t), Options{Calls: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Hooks) != 2 || report.Frames != len(generated("sim")) || report.Instances != 1 || report.Recycled != 0 || len(report.SHA256) != 64 {
		t.Fatalf("got %+v", report)
	}
	again, err := Run(t.Context(), plugin.Options{}, spec(t), Options{Calls: 400})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"shape", "finish"} {
		h := report.Hooks[i]
		if h.Hook != name || h.Calls != 3000 || h.MemoryAfter != h.MemoryBefore || h.MemoryAfter == 0 || h.Native != nil {
			t.Errorf("got %+v", h)
		}
		if h.Fuel.Min <= 0 || h.Fuel.P50 < h.Fuel.Min || h.Fuel.P99 < h.Fuel.P50 || h.Fuel.Max < h.Fuel.P99 || h.Fuel != again.Hooks[i].Fuel {
			t.Errorf("%s: fuel %+v, and again %+v; the same call takes the same", name, h.Fuel, again.Hooks[i].Fuel)
		}
		if x := h.Time; x.P50 <= 0 || x.P99 < x.P50 || x.P999 < x.P99 || x.Max < x.P999 || x.Mean <= 0 {
			t.Errorf("%s: times %+v", name, x)
		}
	}
}

// TestAllocs: a call allocates nothing in the host, and that is what is said.
func TestAllocs(t *testing.T) {
	report, err := Run(t.Context(), plugin.Options{}, spec(t), Options{Calls: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range report.Hooks {
		if h.HostAllocs >= 0.01 { // the runtime's own few
			t.Errorf("%s: %v allocations a call, %v bytes", h.Hook, h.HostAllocs, h.HostBytes)
		}
	}
}

// TestFailuresAreCounted: a plugin that fails is measured all the same.
func TestFailuresAreCounted(t *testing.T) {
	s := spec(t)
	s.Fuel = 60_000 // enough, but for the finish of a long name
	frame := *generated("sim")[0]
	frame.Tenant = strings.Repeat("n", 20_000)
	report, err := Run(t.Context(), plugin.Options{}, s, Options{Calls: 100, Frames: []*plugin.Frame{generated("sim")[0], &frame}})
	if err != nil {
		t.Fatal(err)
	}
	finish := report.Hooks[1]
	if n := finish.Failures[string(plugin.FailureOutOfFuel)]; n != 50 || report.Recycled != 100 || finish.MemoryAfter == 0 { // 50 in the warm-up
		t.Errorf("got %+v and %d recycled; want the half of the calls out of fuel", finish, report.Recycled)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, calls := range []int{0, -1, MaxCalls + 1} {
		if _, err := Run(t.Context(), plugin.Options{}, spec(t), Options{Calls: calls}); err == nil {
			t.Errorf("%d calls: no error", calls)
		}
	}
	s := spec(t)
	s.Config = nil
	if _, err := Run(t.Context(), plugin.Options{}, s, Options{Calls: 1}); err == nil || !strings.Contains(err.Error(), "input: missing") {
		t.Errorf("without prices: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(stopped, plugin.Options{}, spec(t), Options{Calls: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if report, err := Run(t.Context(), plugin.Options{}, spec(t), Options{Calls: MaxCalls, Longest: time.Millisecond}); err != nil || report.Hooks[0].Calls == MaxCalls {
		t.Errorf("a short time: %+v, %v", report, err)
	}
}

// TestNative builds the billing example, which is the same plugin in Go.
func TestNative(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program, some seconds; go test ./host/plugin/bench runs it")
	}
	o := Options{Calls: 200, Native: "../../../examples/plugins/billing"}
	report, err := Run(t.Context(), plugin.Options{}, spec(t), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range report.Hooks {
		if h.Native == nil || h.Native.P50 <= 0 || h.Native.Max < h.Native.P50 {
			t.Errorf("%s: got %+v", h.Hook, h.Native)
		}
	}
	for folder, want := range map[string]string{
		"testdata/none":            "has no Go files",
		".":                        "build ",
		"../../../plugins/metrics": "has no hook finish",
	} {
		o.Native = folder
		if _, err := Run(t.Context(), plugin.Options{}, spec(t), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("native %s: got %v, want %q", folder, err, want)
		}
	}
}

// TestQuantiles: worked out by hand.
func TestQuantiles(t *testing.T) {
	var all []int64
	for i := range int64(1000) {
		all = append(all, i+1)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if got, want := timesOf(all), (Times{Mean: 500, P50: 500, P99: 990, P999: 999, Max: 1000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := fuelOf([]int64{7}), (Fuel{7, 7, 7, 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := timesOf(nil); got != (Times{}) {
		t.Errorf("of nothing: got %+v", got)
	}
}
