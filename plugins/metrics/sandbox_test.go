package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
	"github.com/wasmeter/wasmeter/sdk/toolchain/toolchaintest"
)

// editions are the plugin in the server's program and the one in Go, which is
// built here.
func editions(t testing.TB) map[string][]byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin in Go: %v\n%s", err, said)
	}
	inGo, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"zig": plugins.Module("metrics"), "go": inGo}
}

// TestSource: the committed module is what its source gives.
func TestSource(t *testing.T) { toolchaintest.Compare(t, "metrics.zig", "metrics.wasm") }

// loadChain loads a module into the sandbox, as the server does.
func loadChain(t testing.TB, module []byte) *plugin.Chain {
	t.Helper()
	ctx := context.Background()
	host, err := plugin.NewHost(ctx, plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close(ctx) })
	p, err := host.Load(ctx, plugin.Spec{
		Name: "metrics", Wasm: module, Grants: plugin.Grants{Fields: []string{"metrics"}}, OnError: plugin.Closed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	chain, err := plugin.NewChain(p)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// native runs the hook as an ordinary function of this program.
func native(frame *plugin.Frame) string {
	var out wasmeter.Answer
	shape(wasmeter.NewRequest(frame.Append(nil, plugin.HookShape)), &out)
	return string(out.Fields.AppendTo(nil))
}

// vectors are results of another server's own functions; testdata/README.md
// says which and how they are compared.
type vectors struct {
	Timing []struct {
		Note         string
		StatsPresent bool `json:"stats_present"`
		stamps
		NumTokens uint32 `json:"n_tokens"`
		Want      map[string]*float64
	}
	EventSequences []struct {
		Note      string
		Stamps    stamps
		NumTokens uint32 `json:"n_tokens"`
		Want      map[string]*float64
	} `json:"event_sequences"`
}

// stamps are in seconds, 0 for what never happened.
type stamps struct {
	Queued     float64 `json:"queued"`
	Scheduled  float64 `json:"scheduled"`
	FirstToken float64 `json:"first_token"`
	LastToken  float64 `json:"last_token"`
}

func (s stamps) frame(numTokens uint32) *plugin.Frame {
	ns := func(seconds float64) uint64 { return uint64(math.Round(seconds * 1e9)) }
	return &plugin.Frame{
		Flags: plugin.FlagTimingsWanted, Endpoint: plugin.EndpointChat, Outcome: plugin.OutcomeStop, N: 1, Prompts: 1,
		CompletionTokens: numTokens,
		QueuedNS:         ns(s.Queued), ScheduledNS: ns(s.Scheduled), FirstTokenNS: ns(s.FirstToken), LastTokenNS: ns(s.LastToken),
	}
}

// TestSandbox runs both editions; one load serves all, since compiling the one in
// Go takes a second or more.
func TestSandbox(t *testing.T) {
	for edition, module := range editions(t) {
		chain := loadChain(t, module)
		t.Run(edition+" recorded", func(t *testing.T) { testRecorded(t, chain) })
		t.Run(edition+" rules", func(t *testing.T) { testRules(t, chain) })
		t.Run(edition+" twin", func(t *testing.T) { testTwin(t, chain) })
		t.Run(edition+" allocations", func(t *testing.T) { testAllocations(t, chain) })
		t.Run(edition+" memory", func(t *testing.T) { testConstantMemory(t, chain) })
	}
}

func testRecorded(t *testing.T, chain *plugin.Chain) {
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Timing) != 56 || len(v.EventSequences) != 11 {
		t.Fatalf("%d timings and %d event sequences; 56 and 11 were recorded", len(v.Timing), len(v.EventSequences))
	}
	negative := 0
	for _, c := range v.Timing {
		frame := c.frame(c.NumTokens)
		if !c.StatsPresent {
			frame.Flags |= plugin.FlagTimingUnknown
		}
		negative += compare(t, chain, c.Note, frame, c.Want)
	}
	for _, c := range v.EventSequences {
		negative += compare(t, chain, c.Note, c.Stamps.frame(c.NumTokens), c.Want)
	}
	if negative != 3 {
		t.Errorf("%d recorded intervals are negative; 3 were recorded", negative)
	}
}

// compare runs one vector and reports how many of its fields are negative.
func compare(t *testing.T, chain *plugin.Chain, note string, frame *plugin.Frame, want map[string]*float64) (negative int) {
	t.Helper()
	if len(want) != 5 {
		t.Fatalf("%s: %d fields were recorded, 5 are compared", note, len(want))
	}
	shaped, err := chain.Shape(context.Background(), frame, new(plugin.State))
	members := shaped.Members
	if err != nil {
		t.Fatalf("%s: %v", note, err)
	}
	if twin := native(frame); string(members) != twin {
		t.Errorf("%s: the module gives %s, the source in Go %s", note, members, twin)
	}
	var got struct{ Metrics map[string]*float64 }
	if err := json.Unmarshal(plugin.Splice([]byte("{}"), members), &got); err != nil {
		t.Fatalf("%s: %v in %s", note, err, members)
	}
	if len(got.Metrics) != 5 {
		t.Errorf("%s: got %s, want 5 fields", note, members)
	}
	for field, wanted := range want {
		if wanted != nil && *wanted < 0 {
			negative++
			wanted = nil // a defect of the recorded server: here no field is negative
		}
		value, present := got.Metrics[field]
		switch {
		case !present || (value == nil) != (wanted == nil):
			t.Errorf("%s: %s: got %s, want %v", note, field, members, wanted)
		case value != nil && math.Abs(*value-*wanted) > 5e-7*math.Max(1, *wanted):
			t.Errorf("%s: %s: got %v, want %v", note, field, *value, *wanted)
		}
	}
	return negative
}

func testRules(t *testing.T, chain *plugin.Chain) {
	const spec = `{"mean_acceptance_length":2.75,"num_spec_steps":4}`
	const five = `"time_to_first_token_ms":42.0,"generation_time_ms":1500.25,"queue_time_ms":2.500001,"mean_itl_ms":166.694444,"tokens_per_second":6.484033`
	const nulls = `"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null`
	const wanted = plugin.FlagTimingsWanted
	// The rules are those of the last table of host/plugin/ABI.md; the
	// numbers of five were worked out by hand from the frame below.
	for _, c := range []struct {
		name  string
		flags plugin.Flags
		spec  string
		want  string
	}{
		{"one choice", wanted, "", `"metrics":{` + five + `}`},
		{"streamed", wanted | plugin.FlagStream, "", `"metrics":{` + five + `}`},
		{"not asked for", 0, "", ``},
		{"several choices", wanted | plugin.FlagMultiChoice, "", `"metrics":null`},
		{"several choices, not asked for", plugin.FlagMultiChoice, "", ``},
		{"several prompts", wanted | plugin.FlagMultiPrompt, "", ``},
		{"several prompts win over choices", wanted | plugin.FlagMultiPrompt | plugin.FlagMultiChoice, "", ``},
		{"several turns", wanted | plugin.FlagMultiTurn, "", ``},
		{"several turns win over choices", wanted | plugin.FlagMultiTurn | plugin.FlagMultiChoice, "", ``},
		{"timing unknown", wanted | plugin.FlagTimingUnknown, "", `"metrics":{` + nulls + `}`},
		{"speculation too", wanted, spec, `"metrics":{` + five + `,"speculative_decoding":` + spec + `}`},
		{"speculation alone", 0, spec, `"metrics":{` + nulls + `,"speculative_decoding":` + spec + `}`},
		{"speculation, several prompts", plugin.FlagMultiPrompt, spec, ``},
		{"speculation, several choices", plugin.FlagMultiChoice, spec, `"metrics":null`},
	} {
		frame := &plugin.Frame{
			Flags: c.flags, CompletionTokens: 10, SpecJSON: c.spec,
			QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001,
		}
		shaped, err := chain.Shape(context.Background(), frame, new(plugin.State))
		members := shaped.Members
		if err != nil || string(members) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, members, err, c.want)
		}
	}
}

// usualFrame is a streamed answer of 128 tokens.
func usualFrame() *plugin.Frame {
	return &plugin.Frame{
		Flags: plugin.FlagTimingsWanted, Endpoint: plugin.EndpointChat, CompletionTokens: 128, PromptTokens: 300,
		QueuedNS: 1_000_000, ScheduledNS: 3_512_345, FirstTokenNS: 45_523_456, LastTokenNS: 1_545_750_001,
		RequestID: "chatcmpl-0123456789abcdef", Model: "smollm2-135m", Tenant: "acme",
	}
}

func testAllocations(t *testing.T, chain *plugin.Chain) {
	frame, ctx := usualFrame(), context.Background()
	state := new(plugin.State)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := chain.Shape(ctx, frame, state); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v host allocations a call, want none", n)
	}
}

// A guest that allocated in each call would fill its 16 MiB long before the
// last of these, or collect garbage in some; the answers stay the same.
func testConstantMemory(t *testing.T, chain *plugin.Chain) {
	frame, ctx := usualFrame(), context.Background()
	first, err := chain.Shape(ctx, frame, new(plugin.State))
	if err != nil {
		t.Fatal(err)
	}
	state := new(plugin.State)
	for range 50_000 {
		shaped, err := chain.Shape(ctx, frame, state)
		if err != nil || !bytes.Equal(shaped.Members, first.Members) {
			t.Fatalf("got %s, %v; the first call gave %s", shaped.Members, err, first.Members)
		}
	}
}

// BenchmarkShape is all that metrics adds to an answer of 1 KiB: frame,
// guest, checks and splice.
func BenchmarkShape(b *testing.B) {
	for edition, module := range editions(b) {
		b.Run(edition, func(b *testing.B) { benchmarkShape(b, loadChain(b, module)) })
	}
}

func benchmarkShape(b *testing.B, chain *plugin.Chain) {
	frame := usualFrame()
	body := bytes.Repeat([]byte(`"x":"0123456789",`), 60)
	body = append(append([]byte(`{`), body...), `"usage":{"prompt_tokens":300}}`...)
	document := make([]byte, 0, 4096)
	state, ctx := new(plugin.State), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		shaped, err := chain.Shape(ctx, frame, state)
		if err != nil {
			b.Fatal(err)
		}
		document = plugin.Splice(append(document[:0], body...), shaped.Members)
	}
}
