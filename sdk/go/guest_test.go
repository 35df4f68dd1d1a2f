package wasmeter_test

import (
	"context"
	"errors"
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
	host, err := plugin.NewHost(ctx, plugin.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(ctx)
	spec := plugin.Spec{
		Name: "guest", Wasm: module, Config: []byte(`{"book":1}`),
		Grants: plugin.Grants{Fields: []string{"x_test"}}, OnError: plugin.Closed,
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

	spec.Config = []byte(`{"refuse":true}`)
	if _, err := host.Load(ctx, spec); err == nil || !strings.Contains(err.Error(), "this configuration has no price book") {
		t.Errorf("refused by Init: got %v, want its reason", err)
	}
}
