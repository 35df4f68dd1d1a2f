package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asProgram makes the test binary behave as wasmeter, for tests that need
// signals. It also does as the compiler of a server in this process.
const asProgram = "BE_WASMETER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == compilePluginWord {
		main()
		return
	}
	os.Exit(m.Run())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// command runs one command line in this process.
func command(t *testing.T, environ []string, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), terminal{args: args, environ: environ, out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

// TestRefusals: each wrong command line ends with the right code and says what
// is wrong. 1 and 2 as vLLM 0.32 has them, for the flags that it has too.
func TestRefusals(t *testing.T) {
	t.Chdir(t.TempDir()) // a folder without models/
	taken := "wasmeter.yaml"
	if err := os.WriteFile(taken, []byte("server:\n  prot: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("text.gguf", []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"serve --enable-per-request-metrics --disable-log-stats", 1, "--enable-per-request-metrics: metrics.per_request: per-request metrics need the engine's statistics"},
		{"serve --per-request-spec-decode-metrics summary", 1, "--per-request-spec-decode-metrics: metrics.spec_decode: summary needs speculative decoding"},
		{"serve --speculative-method draft", 1, "engine.speculative.model: method draft needs a smaller model"},
		{"serve --speculative-method eagle", 2, `"eagle" is not one of none, ngram, draft`},
		{"serve sim --port 0 --speculative-method draft --speculative-model x.gguf", 1, "a simulated device needs no draft model"},
		{"serve --per-request-spec-decode-metrics verbose", 2, `"verbose" is not one of none, summary, detailed`},
		{"serve --port 99999", 1, "--port: server.port: 99999 is not in 0 … 65535"},
		{"serve --prot 1", 2, "unknown flag: --prot; did you mean --port?"},
		{"serve a b", 2, "accepts at most 1 arg(s), received 2"},
		{"serve --host 0.0.0.0", 1, "server.insecure: true"},
		{"serve --device cuda:1 --kv-cache-type q8_0", 1, "engine.kv_cache_type: q8_0 is not supported on cuda:1"},
		{"bench --device gpu", 1, "--device: \"gpu\" is not one of auto, cpu"},
		{"selftest --device cpu", 1, "cpu has no check of its own in this program; use cuda"},
		{"selftest --shrink 0", 1, "--shrink: 0 is not in 1"},
		{"serve --port 0 --api-keys-file none.yaml", 1, "server.api_keys_file: open none.yaml: no such file"},
		{"serve --port 0", 1, "models/ has no .gguf file; run make model, or name one"},
		{"serve --port 0 none.gguf", 1, "none.gguf: no such file"},
		{"serve --port 0 text.gguf", 1, "text.gguf"},
		{"serve --config wasmeter.yaml", 1, "wasmeter.yaml:2: server.prot: unknown key; did you mean server.port?"},
		{"serve --config none.yaml", 1, "no such file"},
		{"sevre", 2, `unknown command "sevre"`},
		{"config check", 2, "accepts 1 arg(s), received 0"},
		{"config check wasmeter.yaml", 1, "wasmeter.yaml:2: server.prot"},
		{"model info text.gguf", 1, "text.gguf"},
		{"version now", 2, `unknown command "now"`},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, out, err := command(t, nil, strings.Fields(test.args)...)
			if code != test.code || !strings.Contains(err, test.want) {
				t.Errorf("wasmeter %s: exit %d, %s\nwant %d, …%s…", test.args, code, err, test.code, test.want)
			}
			if out != "" || strings.Contains(err, "sk-secret") {
				t.Errorf("wasmeter %s printed %s%s", test.args, out, err)
			}
		})
	}
}

func TestSeveralModels(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("models", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.gguf", "b.gguf"} {
		if err := os.WriteFile(filepath.Join("models", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, err := command(t, nil, "serve", "--port=0")
	if want := "models/ has a.gguf, b.gguf; name one: wasmeter serve models/a.gguf"; code != 1 || !strings.Contains(err, want) {
		t.Errorf("exit %d, %s\nwant 1, %s", code, err, want)
	}
}

func TestConfigShow(t *testing.T) {
	code, out, err := command(t, []string{"WASMETER_ENGINE__THREADS=2"}, "config", "show", "--origin", "--port=9000")
	if code != 0 || err != "" {
		t.Fatalf("exit %d, %s", code, err)
	}
	for _, want := range []string{"port: 9000 # --port", "threads: 2 # WASMETER_ENGINE__THREADS", "max_num_seqs: 64 # default"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestExamples: every configuration in examples/config is good.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(moduleRoot, "examples/config/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if code, out, err := command(t, nil, "config", "check", file); code != 0 || !strings.HasSuffix(out, ": good\n") {
			t.Errorf("config check %s: exit %d, %s%s", file, code, out, err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"serve", "sim", "--help"}, {"config", "show", "--help"}} {
		code, out, err := command(t, nil, args...)
		if code != 0 || err != "" || !strings.Contains(out, "Usage:") {
			t.Errorf("wasmeter %v: exit %d, %s%s", args, code, out, err)
		}
	}
	_, out, _ := command(t, nil, "serve", "--help")
	for _, want := range []string{"Examples:", "\nServer:\n", "--max-num-seqs number", "(default 64)", "--no-enable-prefix-caching"} {
		if !strings.Contains(out, want) {
			t.Errorf("serve --help has no %q:\n%s", want, out)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ntext":              `plain\ntext`,
		"\x1b[31mred":              `\x1b[31mred`,
		strings.Repeat("é", 200):   strings.Repeat("é", 100) + "…",
		"{% if a %}…{% endif %}\r": `{% if a %}…{% endif %}\x0d`,
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q): got %q, want %q", text, got, want)
		}
	}
}
