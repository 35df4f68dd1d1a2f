package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/hub"
	"github.com/wasmeter/wasmeter/hub/hubtest"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

func TestPull(t *testing.T) {
	data := bytes.Repeat([]byte("no model "), 100_000)
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": {Commit: testCommit, Files: map[string][]byte{"m-Q4_K_M.gguf": data, "m-Q8_0.gguf": data[1:]}}})
	cache := t.TempDir()
	environ := []string{h.Endpoint(), "HF_HUB_CACHE=" + cache, "HF_HOME=" + cache}
	code, out, errs := command(t, environ, "pull", "org/repo")
	want := filepath.Join(cache, "models--org--repo", "snapshots", testCommit, "m-Q4_K_M.gguf")
	if code != 0 || out != want+"\n" {
		t.Fatalf("exit %d, printed %s%s\nwant %s", code, out, errs, want)
	}
	if got, err := os.ReadFile(want); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file differs: %v", err)
	}
	if lines := strings.Split(strings.TrimSpace(errs), "\n"); len(lines) > 12 || lines[len(lines)-1] != "m-Q4_K_M.gguf: 100% of 878.9 KiB" || strings.ContainsAny(errs, "\r\x1b") {
		t.Errorf("progress, not on a terminal:\n%q", errs)
	}
	if code, out, errs = command(t, environ, "pull", "org/repo"); code != 0 || out != want+"\n" || errs != "already in the cache\n" {
		t.Errorf("again: exit %d, %s%s", code, out, errs)
	}
	code, out, errs = command(t, environ, "pull", "org/repo:Q2_K")
	if code != 1 || out != "" || !strings.Contains(errs, "wasmeter: pull org/repo:Q2_K: no GGUF file \"Q2_K\"; there are:\n  m-Q4_K_M.gguf (878.9 KiB)") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	// serve takes the same cache, and without a hub too; this is no model.
	for _, environ := range [][]string{environ, append(environ, "HF_HUB_OFFLINE=1"), append(environ, "HF_ENDPOINT=http://127.0.0.1:1")} {
		code, _, errs = command(t, environ, "serve", "org/repo", "--port", "0")
		if code != 1 || !strings.Contains(errs, want+": byte 0: not a GGUF file") {
			t.Errorf("serve org/repo with %q: exit %d, %s", environ[len(environ)-1], code, errs)
		}
	}
}

func TestPullRefusals(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/mamba": {Commit: testCommit, Files: map[string][]byte{
		"config.json": []byte(`{"model_type": "mamba"}`), "model.safetensors": []byte("many bytes")}}})
	environ := []string{h.Endpoint(), "HF_HUB_CACHE=" + t.TempDir(), "HF_HOME=/none"}
	for _, test := range []struct {
		args    string
		environ []string
		code    int
		want    string
	}{
		{"pull", nil, 2, "accepts 1 arg(s), received 0"},
		{"pull repo", nil, 1, `"repo" is not the name of a repository; write org/repo`},
		{"pull org/repo", nil, 1, "neither HOME nor HF_HOME is set"},
		{"pull org/repo", []string{"HOME=/none", "HF_ENDPOINT=nowhere"}, 1, `HF_ENDPOINT: "nowhere" is not an address`},
		{"pull org/repo", []string{"HOME=/none", "HF_HUB_OFFLINE=1"}, 1, "HF_HUB_OFFLINE is set, and revision main is not in the cache, /none/.cache/huggingface/hub"},
		{"pull org/mamba", environ, 1, `config.json: model_type "mamba" is not supported; supported are gemma3_text, llama`},
	} {
		code, out, errs := command(t, test.environ, strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(errs, test.want) || out != "" {
			t.Errorf("wasmeter %s: exit %d, %s%s\nwant %d, …%s…", test.args, code, out, errs, test.code, test.want)
		}
	}
}

func TestHubModel(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("models/folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]bool{
		"":                   false,
		"org/repo":           true,
		"org/repo:Q8_0@v1":   true,
		"models/folder":      false,
		"models/none":        false, // models is a folder
		"hf.co/models/none":  true,
		"none/m.gguf":        false,
		"none/m.GGUF":        false,
		"none/a.safetensors": false,
		"./org/repo":         false,
		"/org/repo":          false,
		"m.gguf":             false,
		"a/b/c":              false,
	} {
		if _, got := hubModel(model); got != want {
			t.Errorf("%q names a model of a hub: got %t, want %t", model, got, want)
		}
	}
}

// The bar with a clock of the test: what a terminal shows of each line.
func TestProgressBar(t *testing.T) {
	var out strings.Builder
	at := time.Unix(1000, 0)
	p := &progress{out: &out, bar: true, say: func(line string) { fmt.Fprintln(&out, line) }, now: func() time.Time { return at }}
	for _, step := range []struct {
		after time.Duration
		p     hub.Progress
	}{
		{0, hub.Progress{File: "sub/a\x1b[2J.gguf", Done: 1 << 20, Size: 4 << 20}},
		{time.Millisecond, hub.Progress{File: "sub/a\x1b[2J.gguf", Done: 1<<20 + 1, Size: 4 << 20}}, // too soon to draw
		{time.Second, hub.Progress{File: "sub/a\x1b[2J.gguf", Done: 2 << 20, Size: 4 << 20}},
		{0, hub.Progress{File: "sub/a\x1b[2J.gguf", Note: "trying again in 1s"}},
		{time.Second, hub.Progress{File: "sub/a\x1b[2J.gguf", Done: 4 << 20, Size: 4 << 20}},
		{0, hub.Progress{File: "a-name-of-a-file-that-is-long.safetensors", Done: 0, Size: 0}},
	} {
		at = at.Add(step.after)
		p.report(step.p)
	}
	p.end()
	want := []string{
		`a\x1b[2J.gguf                █████░░░░░░░░░░░░░░░  25% of 4.0 MiB`,
		`a\x1b[2J.gguf                ██████████░░░░░░░░░░  50% of 4.0 MiB, 1023.0 KiB/s, 2s left`,
		`sub/a\x1b[2J.gguf: trying again in 1s`,
		`a\x1b[2J.gguf                ████████████████████ 100% of 4.0 MiB, 1.5 MiB/s`,
		`…le-that-is-long.safetensors ████████████████████ 100% of 0 bytes`,
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var lines []string
	for _, line := range got {
		for part := range strings.SplitSeq(line, "\r\x1b[K") {
			if part != "" {
				lines = append(lines, part)
			}
		}
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestServeFromHub: a folder of safetensors is fetched, quantized and served
// under the name of its repository; without a hub the cache does.
func TestServeFromHub(t *testing.T) {
	const testdata = "../../engine/checkpoint/testdata"
	files := make(map[string][]byte)
	entries, err := os.ReadDir(filepath.Join(testdata, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(testdata, "llama", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if files["tokenizer.json"], err = os.ReadFile(filepath.Join(testdata, "tokenizer-llama-bpe.json")); err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/tiny": {Commit: testCommit, Files: files}})
	environ := []string{"HF_HUB_CACHE=" + t.TempDir(), "HF_HOME=" + t.TempDir()}
	texts := make(map[string]string)
	for _, test := range []struct {
		name    string
		environ []string
		args    []string
	}{
		{"first", []string{h.Endpoint()}, []string{"org/tiny"}},
		{"offline", []string{h.Endpoint(), "HF_HUB_OFFLINE=1"}, []string{"org/tiny"}},
		{"hub is gone", []string{"HF_ENDPOINT=http://127.0.0.1:1"}, []string{"org/tiny"}},
		{"quantized", []string{h.Endpoint()}, []string{"org/tiny", "--quantize=q8_0"}},
		{"file, quantized", nil, []string{filepath.Join(testdata, "llama.gguf"), "--quantize=q8_0", "--served-model-name=org/tiny"}},
	} {
		before := len(h.Requests())
		p := startServe(t, append(environ, test.environ...), test.args...)
		body := `{"model": "org/tiny", "messages": [{"role": "user", "content": "The other dog"}], "max_tokens": 12, "temperature": 0, "ignore_eos": true}`
		answer, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(data), `"completion_tokens":12`) {
			t.Errorf("%s: %s %s, %v", test.name, answer.Status, data, err)
		}
		_ = answer.Body.Close() // it was only read
		_, rest, _ := strings.Cut(string(data), `"content":`)
		texts[test.name], _, _ = strings.Cut(rest, `,"`)
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t); code != 0 {
			t.Errorf("%s: exit %d: %s", test.name, code, p.logged())
		}
		fetched := strings.Contains(p.logged(), `progress="model-00001-of-00002.safetensors: 100% of 73.7 KiB"`)
		if (test.name == "first") != fetched {
			t.Errorf("%s: fetched %t; the log: %s", test.name, fetched, p.logged())
		}
		if n := len(h.Requests()) - before; test.name == "offline" && n != 0 {
			t.Errorf("offline, the hub was asked %d times", n)
		}
	}
	if texts["first"] == "" || texts["first"] != texts["offline"] || texts["first"] != texts["hub is gone"] {
		t.Errorf("the same weights answer %q", texts)
	}
	if texts["quantized"] == "" || texts["quantized"] != texts["file, quantized"] {
		t.Errorf("the same weights, quantized, answer %q", texts)
	}
}

// TestPullInterrupted: a signal leaves a partial file, from which the next pull
// goes on.
func TestPullInterrupted(t *testing.T) {
	data := bytes.Repeat([]byte("no model "), 1_000_000)
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": {Commit: testCommit, Files: map[string][]byte{"m-Q8_0.gguf": data}}})
	half, signalled := make(chan struct{}), make(chan struct{})
	h.WrapStore = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Range") != "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		close(half)
		select {
		case <-signalled:
		case <-r.Context().Done():
		}
	}
	cache := t.TempDir()
	environ := []string{h.Endpoint(), "HF_HUB_CACHE=" + cache, "HF_HOME=" + cache}
	c := exec.Command(os.Args[0], "pull", "org/repo")
	var log bytes.Buffer
	c.Env, c.Stderr = slices.Concat(os.Environ(), []string{asProgram + "=1"}, environ), &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	partial := filepath.Join(cache, "models--org--repo", "blobs", hubtest.SHA256(data)+".incomplete")
	for deadline := time.Now().Add(20 * time.Second); ; { // until the first bytes are written
		if info, err := os.Stat(partial); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was written in 20 s")
		}
		runtime.Gosched()
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // the code tells
	close(signalled)
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(log.String(), "the same command goes on from there") {
		t.Errorf("interrupted: exit %d, %s", code, &log)
	}
	before, err := os.Stat(partial)
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, environ, "pull", "org/repo")
	if got, err := os.ReadFile(strings.TrimSpace(out)); code != 0 || err != nil || !bytes.Equal(got, data) {
		t.Errorf("again: exit %d, %s, %v", code, errs, err)
	}
	requests := h.Requests()
	if got, want := requests[len(requests)-1].Range, fmt.Sprintf("bytes=%d-", before.Size()); got != want {
		t.Errorf("the second pull asked for %q, want %q", got, want)
	}
}
