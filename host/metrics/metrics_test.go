package metrics

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
)

// tiny makes Metrics of a model served as tiny, as in the recorded answer, and
// starts them with a capacity of 512 positions.
func tiny(t testing.TB, change func(*Options)) (*Metrics, engine.Listener) {
	t.Helper()
	o := Options{ModelName: "tiny", Version: "v1.2.3", LogStats: true, PrefixCaching: true}
	if change != nil {
		change(&o)
	}
	m := New(o)
	l := m.Listener()
	if l.Start != nil {
		l.Start(engine.Capacity{Context: 512, Blocks: 32, BlockSize: 16})
	}
	return m, l
}

// scrape is the text that a scraper gets.
func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.Write(&b, ""); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// engineLabels takes out of a sample what all samples of the engine carry.
var engineLabels = strings.NewReplacer("vllm:", "", `{engine="0",model_name="tiny"}`, "", `engine="0",`, "", `,model_name="tiny"`, "", `model_name="tiny",`, "", `{model_name="tiny"}`, "")

// samples reads a scrape: values by name and labels, without buckets and without
// what the process itself does.
func samples(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	for line := range strings.Lines(scrape(t, m)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_") || strings.Contains(line, "_bucket{") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		found[engineLabels.Replace(line[:i])] = v
	}
	return found
}

// moved is what has changed between two readings.
func moved(before, after map[string]float64) map[string]float64 {
	d := make(map[string]float64)
	for k, v := range after {
		if v != before[k] {
			d[k] = v - before[k]
		}
	}
	return d
}

func sameSamples(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if maps.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }) {
		return
	}
	for k, v := range want {
		if g := got[k]; g-v > 1e-9 || v-g > 1e-9 {
			t.Errorf("%s moved by %v, want %v", k, g, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s moved by %v, want nothing", k, v)
		}
	}
}

func TestNoLogStats(t *testing.T) {
	m, l := tiny(t, func(o *Options) { o.LogStats = false })
	if l.Start != nil || l.Event != nil || l.Finish != nil || l.Step != nil {
		t.Errorf("listener %+v, want one that hears nothing", l)
	}
	m.AdmissionRejected(&engine.QueueFullError{Unit: "requests"})
	m.Request("/health", "GET", 200, time.Millisecond)
	text := scrape(t, m)
	if strings.Contains(text, "vllm:") {
		t.Errorf("a series of vLLM's without log_stats:\n%s", text)
	}
	for _, want := range []string{"go_goroutines ", "process_cpu_seconds_total ", `wasmeter_build_info{version="v1.2.3"} 1`, `http_requests_total{handler="/health",method="GET",status="2xx"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

func TestAdmissionRejected(t *testing.T) {
	m, _ := tiny(t, nil)
	before := samples(t, m)
	m.AdmissionRejected(&engine.QueueFullError{Unit: "requests"})
	m.AdmissionRejected(&engine.QueueFullError{Unit: "prompt tokens"})
	m.AdmissionRejected(&engine.QueueFullError{Unit: "prompt tokens"})
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{
		`admission_rejections_total{reason="max_num_queued_reqs"}`:   1,
		`admission_rejections_total{reason="max_num_queued_tokens"}`: 2,
	})
}

// TestNamesThatAreNoText: whatever the configuration names things, a scrape
// works.
func TestNamesThatAreNoText(t *testing.T) {
	m, _ := tiny(t, func(o *Options) { o.ModelName, o.Version = "a\xffb\"\n", "\xfe" })
	m.PluginCall(PluginCall{Plugin: "p\xff", Hook: "shape", Failure: "trap"})
	text := scrape(t, m)
	for _, want := range []string{`model_name="a` + "\uFFFD" + `b\"\n"`, `version="` + "\uFFFD" + `"`, `plugin="p` + "\uFFFD" + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

func TestRequest(t *testing.T) {
	m, _ := tiny(t, nil)
	before := samples(t, m)
	m.Request("/v1/chat/completions", "POST", 200, 1500*time.Millisecond)
	m.Request("/v1/chat/completions", "POST", 204, 500*time.Millisecond)
	m.Request("/v1/chat/completions", "POST", 429, time.Second)
	m.Request("", "BREW", 404, 0)
	m.Request("/x", "GET", 0, 0)
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`:    2,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"}`:    1,
		`http_requests_total{handler="none",method="other",status="4xx"}`:                   1,
		`http_requests_total{handler="/x",method="GET",status="none"}`:                      1,
		`http_request_duration_seconds_count{handler="/v1/chat/completions",method="POST"}`: 3,
		`http_request_duration_seconds_sum{handler="/v1/chat/completions",method="POST"}`:   3,
		`http_request_duration_seconds_count{handler="none",method="other"}`:                1,
		`http_request_duration_seconds_count{handler="/x",method="GET"}`:                    1,
		`http_request_duration_highr_seconds_count`:                                         5,
		`http_request_duration_highr_seconds_sum`:                                           3,
	})
}

// TestPluginCall also has several goroutines find the same series at once.
func TestPluginCall(t *testing.T) {
	m, _ := tiny(t, nil)
	before := samples(t, m)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			m.PluginCall(PluginCall{Plugin: "metrics", Hook: "shape", Fuel: 3000, Duration: 250 * time.Millisecond})
			m.PluginCall(PluginCall{Plugin: "metrics", Hook: "shape", Failure: "trap", Fuel: 500, Duration: 500 * time.Millisecond, Recycled: true})
			m.PluginCall(PluginCall{Plugin: "metrics", Hook: "finish", Failure: "breaker_open"})
		})
	}
	callers.Wait()
	m.PluginReloadFailed()
	sameSamples(t, moved(before, samples(t, m)), map[string]float64{
		`wasmeter_plugin_calls_total{hook="shape",plugin="metrics"}`:                         8,
		`wasmeter_plugin_calls_total{hook="finish",plugin="metrics"}`:                        4,
		`wasmeter_plugin_failures_total{hook="shape",kind="trap",plugin="metrics"}`:          4,
		`wasmeter_plugin_failures_total{hook="finish",kind="breaker_open",plugin="metrics"}`: 4,
		`wasmeter_plugin_duration_seconds_count{hook="shape",plugin="metrics"}`:              8,
		`wasmeter_plugin_duration_seconds_sum{hook="shape",plugin="metrics"}`:                3,
		`wasmeter_plugin_fuel_count{hook="shape",plugin="metrics"}`:                          8,
		`wasmeter_plugin_fuel_sum{hook="shape",plugin="metrics"}`:                            14000,
		`wasmeter_plugin_recycles_total{plugin="metrics"}`:                                   4,
		`wasmeter_plugin_reload_failures_total`:                                              1,
	})
	if text := scrape(t, m); !strings.Contains(text, `wasmeter_plugin_fuel_bucket{hook="shape",plugin="metrics",le="1000.0"} 4`) {
		t.Errorf("no bucket of 1,000 units with 4 calls in:\n%s", text)
	}
	for _, failure := range []string{"", "trap"} {
		c := PluginCall{Plugin: "metrics", Hook: "shape", Failure: failure, Fuel: 1000, Duration: time.Microsecond}
		if n := testing.AllocsPerRun(100, func() { m.PluginCall(c) }); n != 0 {
			t.Errorf("a plugin call with failure %q allocates %v times, want never", failure, n)
		}
	}
}

// TestLoadedPlugins: gauges say what is there at the scrape, and go with it.
func TestLoadedPlugins(t *testing.T) {
	list := []LoadedPlugin{
		{Name: "billing", Instances: 2, MemoryBytes: 131072, Breaker: 2},
		{Name: "sla", Disabled: true},
	}
	m, _ := tiny(t, func(o *Options) { o.Plugins = func() []LoadedPlugin { return list } })
	text := scrape(t, m)
	for _, want := range []string{
		`wasmeter_plugin_instances{plugin="billing"} 2`, `wasmeter_plugin_memory_bytes{plugin="billing"} 131072`,
		`wasmeter_plugin_breaker_state{plugin="billing"} 2`, `wasmeter_plugin_disabled{plugin="billing"} 0`,
		`wasmeter_plugin_breaker_state{plugin="sla"} 0`, `wasmeter_plugin_disabled{plugin="sla"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	list = list[1:]
	if text := scrape(t, m); strings.Contains(text, "billing") || !strings.Contains(text, `wasmeter_plugin_instances{plugin="sla"} 0`) {
		t.Errorf("after billing has gone:\n%s", text)
	}
}

func BenchmarkPluginCall(b *testing.B) {
	m, _ := tiny(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		m.PluginCall(PluginCall{Plugin: "metrics", Hook: "shape", Fuel: 400_000, Duration: 3 * time.Microsecond})
	}
}

func BenchmarkRequest(b *testing.B) {
	m, _ := tiny(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		m.Request("/v1/chat/completions", "POST", 200, 30*time.Millisecond)
	}
}
