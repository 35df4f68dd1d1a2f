// Package clients_test runs the examples of this folder against the server's
// program, as README.md says to run them.
package clients_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/examples/wasmetertest"
)

const modelFile = "../../models/SmolLM2-135M-Instruct.Q4_1.gguf"

// TestClients installs the official clients, once in the user's cache folder,
// and runs every example.
func TestClients(t *testing.T) {
	if os.Getenv("WASMETER_CLIENT_TESTS") != "1" {
		t.Skip("it installs clients from package registries; WASMETER_CLIENT_TESTS=1 go test ./examples/clients runs it")
	}
	url, words := serve(t)
	environ := append(os.Environ(), "OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY=none", "MODEL=", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")

	t.Run("python", func(t *testing.T) {
		python := filepath.Join(venv(t), "bin", "python")
		for _, c := range []struct {
			script, word string
			answers      int
		}{
			{"chat.py", words.water, 1},
			{"chat_stream.py", words.water, 1},
			{"completions.py", words.france, 1},
			{"responses.py", words.water, 2},
		} {
			t.Run(c.script, func(t *testing.T) {
				checkAnswers(t, run(t, ".", environ, python, c.script), c.answers, c.word)
			})
		}
	})
	t.Run("node", func(t *testing.T) {
		checkAnswers(t, run(t, nodeFolder(t), environ, "node", "chat.js"), 2, words.water)
	})
	t.Run("go", func(t *testing.T) {
		if out, err := try(t, "go", environ, "go", "mod", "download"); err != nil {
			t.Skipf("go mod download: %v\n%s", err, out)
		}
		checkAnswers(t, run(t, "go", environ, "go", "run", "."), 2, words.water)
	})
	t.Run("curl", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip(err)
		}
		checkCurl(t, run(t, ".", environ, "sh", "curl.sh"))
	})
}

// expected are words of the answers: none when the model that gives them is
// simulated.
type expected struct{ water, france string }

// serve starts the server on the real model, or without it on a simulated one.
func serve(t *testing.T) (url string, words expected) {
	t.Helper()
	program := wasmetertest.Build(t)
	if _, err := os.Stat(modelFile); err != nil {
		t.Logf("%v; the clients ask a simulated model, whose words are not checked; make model fetches the real one", err)
		return wasmetertest.Serve(t, program, ".", "sim", "--enable-per-request-metrics", "--sim-step-base=1ms"), expected{}
	}
	return wasmetertest.Serve(t, program, ".", modelFile, "--enable-per-request-metrics"), expected{water: "H2O", france: "Paris"}
}

// try runs a command in a folder and gives all that it printed.
func try(t *testing.T, dir string, environ []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = dir, environ
	command.WaitDelay = 10 * time.Second // its children may hold the output open
	out, err := command.CombinedOutput()
	return string(out), err
}

// run runs an example, which must exit with 0.
func run(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, environ, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// venv is a Python environment with the packages of requirements.txt.
func venv(t *testing.T) string {
	return installed(t, "requirements.txt", func(dir string) []command {
		return []command{
			{".", []string{"python3", "-m", "venv", dir}},
			{".", []string{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"}},
		}
	})
}

// nodeFolder is a copy of node/ with the packages of its package.json.
func nodeFolder(t *testing.T) string {
	dir := installed(t, "node/package.json", func(dir string) []command {
		return []command{
			{".", []string{"cp", "node/package.json", dir}},
			{dir, []string{"npm", "install", "--silent", "--no-audit", "--no-fund"}},
		}
	})
	run(t, ".", os.Environ(), "cp", "node/chat.js", dir)
	return dir
}

type command struct {
	dir  string
	args []string
}

// installed gives the folder that the commands fill from a list of packages. It
// is kept for the next test run, under a name that changes with the list; the
// test is skipped when a command fails, since a registry may be out of reach.
func installed(t *testing.T, list string, commands func(dir string) []command) string {
	t.Helper()
	packages, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	dir := filepath.Join(cache, fmt.Sprintf("wasmeter-examples-%.8x", sha256.Sum256(packages)))
	done := filepath.Join(dir, "installed") // written last
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands(dir) {
		if out, err := try(t, c.dir, os.Environ(), c.args[0], c.args[1:]...); err != nil {
			t.Skipf("%s: %v\n%s", strings.Join(c.args, " "), err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

var (
	usageLine  = regexp.MustCompile(`(?m)^(\d+) prompt tokens, (\d+) completion tokens$`)
	metricLine = regexp.MustCompile(`(?m)^([a-z_]+) +(\S+)$`)
)

// metricNames are the members of the documented object, in their order.
var metricNames = []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"}

// checkAnswers reads what an example printed: each answer's text, a line of its
// usage and a line for each of its metrics. All answer the same greedy request,
// so they are equal, whichever way they came.
func checkAnswers(t *testing.T, out string, answers int, word string) {
	t.Helper()
	usages := usageLine.FindAllStringSubmatchIndex(out, -1)
	if len(usages) != answers {
		t.Fatalf("got %d answers with usage, want %d, in\n%s", len(usages), answers, out)
	}
	first, start := "", 0
	for i, at := range usages {
		text, end := strings.TrimSpace(out[start:at[0]]), len(out)
		if i+1 < len(usages) {
			end = usages[i+1][0]
		}
		metrics := metricLine.FindAllStringSubmatchIndex(out[at[1]:end], len(metricNames))
		if len(metrics) != len(metricNames) {
			t.Fatalf("answer %d: got %d metrics, want %v, in\n%s", i, len(metrics), metricNames, out)
		}
		if start = at[1] + metrics[len(metrics)-1][1]; i == 0 {
			first = text
		}
		if text == "" || text != first || !strings.Contains(text, word) {
			t.Errorf("answer %d: got %q; want text with %q, the same in all answers: %q", i, text, word, first)
		}
		prompt, completion := number(t, out[at[2]:at[3]]), number(t, out[at[4]:at[5]])
		if prompt < 1 || completion < 2 {
			t.Errorf("answer %d: %v prompt and %v completion tokens", i, prompt, completion)
		}
		checkMetrics(t, metricLine.FindAllStringSubmatch(out[at[1]:start], -1), completion)
	}
}

// checkMetrics checks that the five add up, as the metrics object is documented.
func checkMetrics(t *testing.T, metrics [][]string, tokens float64) {
	t.Helper()
	values := make(map[string]float64)
	for i, m := range metrics {
		if m[1] != metricNames[i] {
			t.Fatalf("metric %d is %s, want %s", i, m[1], metricNames[i])
		}
		if values[m[1]] = number(t, m[2]); values[m[1]] < 0 {
			t.Errorf("%s is %s", m[1], m[2])
		}
	}
	generation, inference := values["generation_time_ms"], values["time_to_first_token_ms"]+values["generation_time_ms"]
	for name, want := range map[string]float64{
		"mean_itl_ms":       generation / (tokens - 1),
		"tokens_per_second": tokens / inference * 1000,
	} {
		// The server rounds to 6 places; the rest is float arithmetic.
		if got := values[name]; math.Abs(got-want) > 5e-7+1e-9*want {
			t.Errorf("%s: got %v, want %v of %v tokens and %v", name, got, want, tokens, values)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		t.Fatalf("%q is not a number", text)
	}
	return n
}

// checkCurl reads what curl.sh printed: the documents as they came.
func checkCurl(t *testing.T, out string) {
	t.Helper()
	for text, want := range map[string]int{
		"\nPOST ":                            5,
		`"object":"chat.completion",`:        1,
		`"object":"text_completion",`:        1,
		`"object":"response",`:               1,
		"data: [DONE]":                       1,
		`"metrics":{"time_to_first_token_ms`: 4,
		`"completion_tokens":`:               3,
		`"output_tokens":`:                   1,
		`"tokens":[`:                         1,
	} {
		if got := strings.Count(out, text); got != want {
			t.Errorf("got %q %d times, want %d, in\n%s", text, got, want, out)
		}
	}
}
