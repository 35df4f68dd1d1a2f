// Package plugins_test runs the plugin of the project's README.
package plugins_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/examples/wasmetertest"
)

const readme = "../../README.md"

// block is the README's first block of code in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n```"+language+"\n")
	code, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("%s has no block of %s", readme, language)
	}
	return code
}

// TestREADME builds the README's plugin, serves with the README's configuration
// and asks.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a plugin and the server; go test ./examples/plugins runs it")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": block(t, "go"), "wasmeter.yaml": block(t, "yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wasmetertest.BuildPlugin(t, filepath.Join(dir, "main.go"), filepath.Join(dir, "billing.wasm"))
	url := wasmetertest.Serve(t, wasmetertest.Build(t), dir, "sim", "--config=wasmeter.yaml", "--sim-step-base=1ms")

	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":8}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// "user: hello\nassistant: " has 23 bytes, which are the tokens of the
	// simulated device; 3 · 23 + 12 · 8 = 165.
	if want := `"billing":{"cost_micro_usd":165}`; !strings.Contains(string(answer), want) {
		t.Errorf("got %s, want %s in it", answer, want)
	}
}
