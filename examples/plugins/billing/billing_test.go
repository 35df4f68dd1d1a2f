package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/examples/wasmetertest"
	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// TestShape: a hook is a function, and a frame of the host's own encoder is all
// it needs.
func TestShape(t *testing.T) {
	t.Cleanup(func() { book = prices{} })
	if err := book.read([]byte(`{"input": 2500000, "output": 10000000}`)); err != nil {
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
		{4_000_000_000, 4_000_000_000, "50000000000"},
	} {
		frame := plugin.Frame{PromptTokens: c.prompt, CompletionTokens: c.completion}
		var out wasmeter.Answer
		shape(wasmeter.NewRequest(frame.Append(nil, plugin.HookShape)), &out)
		got, want := string(out.Fields.AppendTo(nil)), `"billing":{"cost_micro_usd":`+c.want+`,"currency":"USD"}`
		if got != want {
			t.Errorf("%d + %d tokens: got %s, want %s", c.prompt, c.completion, got, want)
		}
	}
}

// TestFinish: a client that left pays for what was made.
func TestFinish(t *testing.T) {
	t.Cleanup(func() { book, wasmeter.Outside.Records = prices{}, nil })
	if err := book.read([]byte(`{"input": 2500000, "output": 10000000}`)); err != nil {
		t.Fatal(err)
	}
	frame := plugin.Frame{Tenant: "acme", Model: "m", PromptTokens: 23, CompletionTokens: 2, Outcome: plugin.OutcomeClientAbort}
	if err := finish(wasmeter.NewRequest(frame.Append(nil, plugin.HookFinish))); err != nil {
		t.Fatal(err)
	}
	const want = `{"tenant":"acme","model":"m","cost_micro_usd":78,"currency":"USD"}` // 77.5
	if got := wasmeter.Outside.Records; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

func TestPrices(t *testing.T) {
	for config, want := range map[string]string{
		`{"input":0,"output":2000000000}`:           "",
		`{}`:                                        "missing",
		`{"input":1}`:                               "output: missing",
		`{"input":1,"ouput":2}`:                     "ouput: unknown price",
		`{"input":1,"output":2,"cached":1}`:         "cached: unknown price",
		`{"input":1,"input":1,"output":2}`:          "duplicate",
		`{"input":-1,"output":2}`:                   "input: -1 is not",
		`{"input":0.5,"output":2}`:                  "input: 0.5 is not",
		`{"input":"1","output":2}`:                  `input: "1" is not`,
		`{"input":null,"output":2}`:                 "input: null is not",
		`{"input":{"a":1},"output":2}`:              "is not a whole number",
		`{"input":1,"output":2000000001}`:           "output: 2000000001 is not",
		`{"input":1,"output":99999999999999999999}`: "output: 99999999999999999999 is not",
		`{"input":1,"output":`:                      "unexpected EOF",
	} {
		err := new(prices).read([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

type document struct {
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
	}
	Billing json.RawMessage
	// Response is in the events of a Responses stream.
	Response *document
}

// TestServed builds the plugin and runs it in a server, with the configuration
// of this folder.
func TestServed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a plugin and the server; go test ./examples/plugins/billing runs it")
	}
	program, dir := wasmetertest.Build(t), t.TempDir()
	wasmetertest.BuildPlugin(t, ".", filepath.Join(dir, "billing.wasm"))
	t.Run("answers", func(t *testing.T) { testAnswers(t, program, dir) })
	t.Run("replayed", func(t *testing.T) { testReplayed(t, program, dir) })
	t.Run("misspelt price", func(t *testing.T) { testMisspeltPrice(t, program, dir) })
	t.Run("another price", func(t *testing.T) { testAnotherPrice(t, program, filepath.Join(dir, "billing.wasm")) })
}

func testAnswers(t *testing.T, program, dir string) {
	config, err := filepath.Abs("wasmeter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	url := wasmetertest.Serve(t, program, dir, "sim", "--config="+config, "--sim-step-base=1ms")

	// The simulated device's tokens are bytes. Its prompt for chat and Responses
	// is "user: hello\nassistant: ", 23 of them.
	const chat = `{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":8`
	var costs []int
	for _, c := range []struct {
		name, path, body   string
		prompt, completion int
		cost               int // worked out by hand: 2.5 and 10 micro-dollars a token
	}{
		{"chat", "/v1/chat/completions", chat + `}`, 23, 8, 138}, // 137.5
		{"chat, streamed", "/v1/chat/completions", chat + `,"stream":true}`, 23, 8, 138},
		{"chat, two choices", "/v1/chat/completions", chat + `,"n":2}`, 23, 16, 218}, // 217.5
		{"chat, one token", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi!!"}],"max_tokens":1}`, 22, 1, 65},
		{"completion", "/v1/completions", `{"model":"sim","prompt":"hello","max_tokens":4}`, 5, 4, 53}, // 52.5
		{"completion, streamed", "/v1/completions", `{"model":"sim","prompt":"hello","max_tokens":4,"stream":true}`, 5, 4, 53},
		{"response", "/v1/responses", `{"model":"sim","input":"hello","max_output_tokens":8}`, 23, 8, 138},
		{"response, streamed", "/v1/responses", `{"model":"sim","input":"hello","max_output_tokens":8,"stream":true}`, 23, 8, 138},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, text := ask(t, url+c.path, c.body)
			if answer.Usage == nil {
				t.Fatalf("no usage in %s", text)
			}
			prompt, completion := answer.Usage.Prompt+answer.Usage.Input, answer.Usage.Completion+answer.Usage.Output
			if prompt != c.prompt || completion != c.completion {
				t.Errorf("got %d + %d tokens, want %d + %d, in %s", prompt, completion, c.prompt, c.completion, text)
			}
			if want := fmt.Sprintf(`{"cost_micro_usd":%d,"currency":"USD"}`, c.cost); string(answer.Billing) != want {
				t.Errorf("got billing %s, want %s, in %s", answer.Billing, want, text)
			}
		})
		costs = append(costs, c.cost)
	}
	// An answer's record is there before its last byte.
	if got, want := fmt.Sprint(charges(t, filepath.Join(dir, "usage.jsonl"))), fmt.Sprint(costs); got != want {
		t.Errorf("got the charges %s, want %s", got, want)
	}
}

// charges reads what requests cost from the records.
func charges(t *testing.T, path string) (costs []int) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(file) {
		var record struct {
			Emitted []struct {
				Plugin string
				Kind   int
				Data   struct {
					Model string
					Cost  int `json:"cost_micro_usd"`
				}
			}
		}
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for _, e := range record.Emitted {
			if e.Plugin != "billing" || e.Kind != charge || e.Data.Model != "sim" {
				t.Errorf("a record of another kind: %s", line)
			}
			costs = append(costs, e.Data.Cost)
		}
	}
	return costs
}

// ask gives the answer, or of a stream the last document, which must be the
// only one with a price.
func ask(t *testing.T, url, body string) (last document, text string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", body, response.StatusCode, err, all)
	}
	lines := bufio.NewScanner(bytes.NewReader(all))
	for lines.Scan() {
		data := strings.TrimPrefix(lines.Text(), "data: ")
		if !strings.HasPrefix(data, "{") {
			continue // between events, their names, [DONE]
		}
		if last.Billing != nil {
			t.Errorf("a price before the end: %s in %s", text, all)
		}
		var d document
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if last, text = d, data; d.Response != nil {
			last = *d.Response
		}
	}
	return last, text
}

// testMisspeltPrice: a server whose prices can't be read does not start.
func testMisspeltPrice(t *testing.T, program, dir string) {
	config, err := os.ReadFile("wasmeter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	misspelt := strings.Replace(string(config), "output:", "ouput:", 1)
	if err := os.WriteFile(filepath.Join(dir, "misspelt.yaml"), []byte(misspelt), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.CommandContext(t.Context(), program, "serve", "sim", "--config=misspelt.yaml", "--port=0")
	serve.Dir = dir
	out, err := serve.CombinedOutput()
	if code := serve.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "ouput: unknown price") {
		t.Errorf("exit %d, %v: %s\nwant exit 1 and the price's name", code, err, out)
	}
}
