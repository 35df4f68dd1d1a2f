// Package plugins tests the examples that are written in several languages.
package plugins

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/sdk/toolchain/toolchaintest"
)

const prices = `{"input": 2500000, "output": 10000000}`

// billings are the billing example in each language. All but the one in Go are
// committed with their module, since not every machine has the compiler.
var billings = []struct{ language, folder string }{
	{"go", "billing"},
	{"zig", "billing-zig"},
	{"c", "billing-c"},
	{"rust", "billing-rust"},
	{"assemblyscript", "billing-assemblyscript"},
}

// module gives the bytes of a billing example.
func module(t testing.TB, language, folder string) []byte {
	t.Helper()
	path := filepath.Join(folder, "billing.wasm")
	if language == "go" {
		path = filepath.Join(t.TempDir(), "billing.wasm")
		build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./"+folder)
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOEXPERIMENT=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, out)
		}
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestBillingIsTheSame: the example gives the same bytes in every language.
func TestBillingIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest, some seconds; run without -short")
	}
	ctx := context.Background()
	host, err := plugin.NewHost(ctx, plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(ctx)
	for _, b := range billings {
		t.Run(b.language, func(t *testing.T) {
			spec := plugin.Spec{
				Name: "billing", Wasm: module(t, b.language, b.folder), Config: []byte(prices),
				Grants: plugin.Grants{Fields: []string{"billing"}, Emit: true}, OnError: plugin.Closed,
			}
			loaded, err := host.Load(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close(ctx)
			chain, err := plugin.NewChain(loaded)
			if err != nil {
				t.Fatal(err)
			}
			// Worked out by hand: 2.5 and 10 micro-dollars a token.
			for _, c := range []struct {
				prompt, completion uint32
				want               string
			}{
				{0, 0, "0"},
				{1, 0, "3"}, // 2.5
				{0, 1, "10"},
				{3, 0, "8"}, // 7.5
				{23, 8, "138"},
				{math.MaxUint32, math.MaxUint32, "53687091188"}, // 53687091187.5
			} {
				frame := &plugin.Frame{
					Tenant: `the "acme" people`, Model: "mödel\xff\n", // not what a name should be
					PromptTokens: c.prompt, CompletionTokens: c.completion,
					// A frame of any size leaves the price as it is.
					Metadata: strings.Repeat("m", int(c.prompt%100_000)),
				}
				state := new(plugin.State)
				shaped, err := chain.Shape(ctx, frame, state)
				want := fmt.Sprintf(`"billing":{"cost_micro_usd":%s,"currency":"USD"}`, c.want)
				if err != nil || string(shaped.Members) != want {
					t.Errorf("%d + %d tokens: got %s, %v; want %s", c.prompt, c.completion, shaped.Members, err, want)
				}
				finished := chain.Finish(ctx, frame, state)
				want = fmt.Sprintf(`{"tenant":"the \"acme\" people","model":"mödel`+"\uFFFD"+`\n","cost_micro_usd":%s,"currency":"USD"}`, c.want)
				if records := finished.Records; len(records) != 1 || records[0].Kind != 1 || string(records[0].Data) != want {
					t.Errorf("%d + %d tokens: the records are %+v, failed %v; want one of kind 1, %s", c.prompt, c.completion, records, finished.Failed, want)
				}
			}
			testRefusals(t, host, spec)
			testCases(t, spec)
		})
	}
}

// BenchmarkAccount is all that the example adds to an answer of 1 KiB, in each
// language: shape is the hook, its checks and the splice; account has the
// finish hook with its record as well.
func BenchmarkAccount(b *testing.B) {
	ctx := context.Background()
	host, err := plugin.NewHost(ctx, plugin.Options{Observer: func(plugin.Call) {}})
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close(ctx)
	body := []byte(`{"text":"` + strings.Repeat("0123456789abcdef", 64) + `","usage":{"prompt_tokens":300}}`)
	frame := &plugin.Frame{
		RequestID: "chatcmpl-0123456789abcdef", Tenant: "acme", Model: "SmolLM2-135M-Instruct", KeyName: "production",
		PromptTokens: 300, CompletionTokens: 128, Outcome: plugin.OutcomeStop, Endpoint: plugin.EndpointChat, HTTPStatus: 200, N: 1, Prompts: 1,
	}
	for _, example := range billings {
		loaded, err := host.Load(ctx, plugin.Spec{
			Name: "billing", Wasm: module(b, example.language, example.folder), Config: []byte(prices),
			Grants: plugin.Grants{Fields: []string{"billing"}, Emit: true},
		})
		if err != nil {
			b.Fatal(err)
		}
		chain, err := plugin.NewChain(loaded)
		if err != nil {
			b.Fatal(err)
		}
		document, state := make([]byte, 0, 2*len(body)), new(plugin.State)
		shape := func(b *testing.B) {
			shaped, err := chain.Shape(ctx, frame, state)
			if err != nil {
				b.Fatal(err)
			}
			document = plugin.Splice(append(document[:0], body...), shaped.Members)
		}
		b.Run(example.language+"/shape", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				shape(b)
			}
		})
		b.Run(example.language+"/account", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				shape(b)
				if done := chain.Finish(ctx, frame, state); len(done.Records) != 1 {
					b.Fatalf("got %+v, want one record", done)
				}
				state.Reset()
			}
		})
		if err := loaded.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// testRefusals: a book that can't be read is refused, with the reason.
func testRefusals(t *testing.T, host *plugin.Host, spec plugin.Spec) {
	for config, want := range map[string]string{
		`{"input":0,"output":2000000000}`:           "",
		`{}`:                                        "missing",
		`{"input":1}`:                               "output: missing",
		`{"input":1,"ouput":2}`:                     "ouput: unknown price",
		`{"input":1,"\u006futput":2}`:               "",
		`{"input":-1,"output":2}`:                   "input: -1 is not",
		`{"input":0.5,"output":2}`:                  "input: 0.5 is not",
		`{"input":"1","output":2}`:                  `input: "1" is not`,
		`{"input":null,"output":2}`:                 "input: null is not",
		`{"input":{"a":[1,"}"]},"output":2}`:        "is not a whole number",
		`{"input":1,"output":2000000001}`:           "output: 2000000001 is not",
		`{"input":1,"output":99999999999999999999}`: "output: 99999999999999999999 is not",
	} {
		spec.Config = []byte(config)
		loaded, err := host.Load(context.Background(), spec)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
		if err == nil {
			if err := loaded.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBillingIsBuiltFromItsSource: the committed module is what its source
// gives.
func TestBillingIsBuiltFromItsSource(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers, some seconds each; run without -short")
	}
	for _, b := range billings {
		if b.language == "go" {
			continue // it is not committed
		}
		t.Run(b.language, func(t *testing.T) {
			t.Parallel()
			toolchaintest.Compare(t, b.folder, filepath.Join(b.folder, "billing.wasm"))
		})
	}
}
