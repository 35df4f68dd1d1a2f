package wasmeter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// TestGuest builds a plugin with the Go toolchain, as an author does, and
// runs it in the host's sandbox.
func TestGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest, some seconds; run without -short")
	}
	path := filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./testdata/guest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOEXPERIMENT=")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, output)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var logged strings.Builder
	var samples []plugin.Sample
	kv := plugin.NewMemoryKV()
	host, err := plugin.NewHost(ctx, plugin.Options{
		Logger: slog.New(slog.NewTextHandler(&logged, nil)), KV: kv,
		Sampled: func(s plugin.Sample) { samples = append(samples, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(ctx)
	spec := plugin.Spec{
		Name: "guest", Wasm: module, Config: []byte(`{"book":1}`),
		OnError: plugin.Closed,
		Fuel:    1_000_000_000, // Go's own report of a panic costs more than a call has by default
		Grants: plugin.Grants{
			Fields: []string{"x_test"}, UsageExtend: []string{"cost"}, Headers: []string{"x-plan"},
			Emit: true, Metrics: true, KVRead: true, KVWrite: true, Clock: true,
			ReadRequest: true, ReadResponse: true, ContentEgress: true, Deny: true, Rewrite: true,
		},
		Metrics: []plugin.Metric{{Name: "cost_total", Labels: []plugin.Label{{Name: "tier", Values: []string{"free", "paid"}}}}},
	}
	p, err := host.Load(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	chain, err := plugin.NewChain(p)
	if err != nil {
		t.Fatal(err)
	}
	if !chain.WantsEvents() || !chain.WantsChoices() {
		t.Error("the guest asked for events and choices")
	}

	long := strings.Repeat("m", 200_000)
	for _, c := range []struct {
		model, want string
		kind        plugin.FailureKind
		logged      string
	}{
		{"anything", `"x_test":null`, "", ""},
		{"nothing", ``, "", ""},
		{"tables", `"x_test":{"events":[7,8],"choices":30}`, "", ""},
		{"length", `"x_test":200000`, "", ""},
		{"log", ``, "", `level=WARN msg="plugin log" plugin=guest text="price of acme is missing"`},
		{"sleep", `"x_test":true`, "", ""},
		{"panic", ``, plugin.FailureTrap, "panic: no price for acme"},
		{"exit", ``, plugin.FailureTrap, "exit_code(3)"},
		{"library", `"x_test":"<acme>"`, "", ""},
		{"stderr", ``, "", `text="no price"`},
		{"block", ``, plugin.FailureTrap, "all goroutines are asleep"},
		{"hoard", ``, plugin.FailureMemory, "out of memory"},
		{"anything", `"x_test":null`, "", ""}, // after each failure another instance serves
	} {
		logged.Reset()
		frame := &plugin.Frame{
			Model: c.model, Tenant: "acme", Metadata: long,
			Events:  []plugin.Event{{TimeNS: 7}, {TimeNS: 8}},
			Choices: []plugin.Choice{{CompletionTokens: 10}, {CompletionTokens: 20}},
		}
		shaped, err := chain.Shape(ctx, frame, new(plugin.State))
		members := shaped.Members
		var failure *plugin.Failure
		if errors.As(err, &failure); string(members) != c.want || (failure != nil) != (c.kind != "") || failure != nil && failure.Kind != c.kind {
			t.Errorf("%s: got %s, %v; want %s and failure %q", c.model, members, err, c.want, c.kind)
		}
		if !strings.Contains(logged.String(), c.logged) {
			t.Errorf("%s: the log has %q, want %q", c.model, logged.String(), c.logged)
		}
	}

	testOtherHooks(t, chain, kv, &samples)

	spec.Config = []byte(`{"refuse":true}`)
	if _, err := host.Load(ctx, spec); err == nil || !strings.Contains(err.Error(), "this configuration has no price book") {
		t.Errorf("refused by Init: got %v, want its reason", err)
	}
}

// testOtherHooks runs request, chunk and finish of the guest, and what shape
// adds beside fields.
func testOtherHooks(t *testing.T, chain *plugin.Chain, kv plugin.KV, samples *[]plugin.Sample) {
	ctx, state := context.Background(), new(plugin.State)
	request := func(model string) plugin.Verdict {
		state.Reset()
		verdict, err := chain.Request(ctx, &plugin.Frame{Model: model, Tenant: "acme", Document: []byte(`{"a":1}`)}, state)
		if err != nil {
			t.Errorf("request %s: %v", model, err)
		}
		return verdict
	}
	if d := request("denied").Deny; d == nil || d.Status != 429 || d.Code != "quota" || d.Message != `wait for {"a":1}` || d.RetryAfter != 7 {
		t.Errorf("denied: got %+v", d)
	}
	if v := request("headers"); v.Deny != nil || len(v.Headers) != 1 || v.Headers[0] != (plugin.Header{Name: "x-plan", Value: "free"}) {
		t.Errorf("headers: got %+v", v)
	}
	request("carried")
	for _, c := range []struct{ model, members, usage, headers string }{
		{"carried", `"x_test":"from request: acme"`, ``, `[]`},
		{"usage", ``, `"cost":5`, `[{x-plan paid}]`},
		{"document", `"x_test":"{\"a\":1}"`, ``, `[]`},
	} {
		shaped, err := chain.Shape(ctx, &plugin.Frame{Model: c.model, Document: []byte(`{"a":1}`)}, state)
		if got := fmt.Sprint(shaped.Headers); err != nil || string(shaped.Members) != c.members || string(shaped.Usage) != c.usage || got != c.headers {
			t.Errorf("%s: got %s, %s, %s, %v; want %+v", c.model, shaped.Members, shaped.Usage, got, err, c)
		}
	}
	chunk, err := chain.Chunk(ctx, &plugin.Frame{Model: "chunk"}, state, []byte(`{"text":"a secret"}`))
	if string(chunk) != `{"text":"a ******"}` || err != nil {
		t.Errorf("chunk: got %s, %v", chunk, err)
	}

	finished := chain.Finish(ctx, &plugin.Frame{Model: "emit", Tenant: "acme", CompletionTokens: 9}, state)
	if len(finished.Records) != 1 || len(finished.Failed) != 0 {
		t.Fatalf("emit: got %+v", finished)
	}
	r := finished.Records[0]
	if want := fmt.Sprintf(`{"tenant":"acme","tokens":9,"now":%d}`, r.ClockUnixNS); string(r.Data) != want || r.Kind != 7 || r.ClockUnixNS == 0 {
		t.Errorf("emit: got %s of kind %d, want %s of kind 7", r.Data, r.Kind, want)
	}
	finished = chain.Finish(ctx, &plugin.Frame{Model: "count"}, state)
	if len(finished.Failed) != 0 || len(finished.Writes) != 2 || len(*samples) != 1 || (*samples)[0].Value != 2.5 || (*samples)[0].Series != 1 {
		t.Fatalf("count: got %+v and %+v", finished, *samples)
	}
	if err := kv.Write(finished.Writes); err != nil {
		t.Fatal(err)
	}
	if spent, _, _ := kv.Get("guest", []byte("spent")); len(spent) != 8 || spent[0] != 12 {
		t.Errorf("spent is %x, want 12", spent)
	}
	finished = chain.Finish(ctx, &plugin.Frame{Model: "refuse to finish", Tenant: "acme"}, state)
	if len(finished.Failed) != 1 || finished.Failed[0].Kind != plugin.FailureBadResult {
		t.Errorf("refuse to finish: got %+v", finished)
	}
}

// A plugin imports what it calls and nothing more, so that it needs no grant
// for what the SDK could do.
func TestGuestImportsWhatItCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Go guest, some seconds; run without -short")
	}
	dir := t.TempDir()
	source := `package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

func main() {}

func init() { wasmeter.Register(wasmeter.Plugin{Init: func([]byte) error { return nil }, Shape: shape}) }

func shape(r wasmeter.Request, out *wasmeter.Answer) { out.Fields.Str("x_test", r.Tenant()) }
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "plain.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOEXPERIMENT=")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, output)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(module, []byte("wasmeter_v1")) {
		t.Error("a plugin that only shapes imports from wasmeter_v1")
	}
}
