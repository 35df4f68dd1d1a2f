package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a wasmeter that runs on its own, to be sent signals.
type process struct {
	*exec.Cmd
	url string
	log text
}

// logged is what the process has written to its log so far.
func (p *process) logged() string { return p.log.String() }

// text gathers what another goroutine writes.
type text struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (b *text) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// start runs serve sim until its banner names a URL.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startServe(t, nil, append([]string{"sim"}, args...)...)
}

// startServe is start of any model, with more in the environment.
func startServe(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], append([]string{"serve", "--port=0"}, args...)...)}
	p.Env = slices.Concat(os.Environ(), []string{asProgram + "=1"}, environ)
	p.Stderr = &p.log
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // it has ended, if the test passed
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if name, url, ok := strings.Cut(strings.TrimSpace(lines.Text()), " "); ok && name == "url" {
			p.url = strings.TrimSpace(url)
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return p
		}
	}
	_ = p.Wait() // the log says why
	t.Fatalf("no URL in the banner; the log: %s", &p.log)
	return nil
}

// end waits for the exit code.
func (p *process) end(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() }) // seen as code -1
	defer timer.Stop()
	_ = p.Wait() // a code that is not 0 is an error too
	return p.ProcessState.ExitCode()
}

// client gives up: a test must not wait for ever.
var client = &http.Client{Timeout: 20 * time.Second}

const question = `{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":8}`

// TestServeSim: the whole program answers, with the metrics object that the
// default plugin makes, and drains on SIGTERM.
func TestServeSim(t *testing.T) {
	p := start(t, "--enable-per-request-metrics", "--sim-step-base=1ms")
	response, err := client.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	var answer struct {
		Usage   struct{ Completion_tokens int }
		Metrics *struct {
			Generation_time_ms *float64
			Tokens_per_second  *float64
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || response.StatusCode != 200 {
		t.Fatalf("status %d, %v: %s", response.StatusCode, err, body)
	}
	if answer.Usage.Completion_tokens != 8 || answer.Metrics == nil || answer.Metrics.Tokens_per_second == nil {
		t.Fatalf("want 8 tokens with metrics, got %s", body)
	}
	// Eight tokens take seven steps after the first, of a millisecond at least.
	if ms := answer.Metrics.Generation_time_ms; ms == nil || *ms < 7 {
		t.Errorf("want a generation_time_ms of 7 or more, got %s", body)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained || !strings.Contains(p.log.String(), "drained") {
		t.Errorf("exit %d after SIGTERM, want 0; the log: %s", code, &p.log)
	}
}

// TestSecondSignal: the first signal lets a stream go on, the second ends all.
func TestSecondSignal(t *testing.T) {
	p := start(t, "--sim-step-base=500ms")
	stream := strings.Replace(question, `"max_tokens":8`, `"max_tokens":2000,"stream":true`, 1)
	response, err := client.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Readiness falls when the first signal has been taken.
	for deadline := time.Now().Add(10 * time.Second); ; {
		r, err := client.Get(p.url + "/health/ready")
		if err != nil {
			break // it listens no more
		}
		r.Body.Close()
		if r.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("ready for 10 s after SIGTERM")
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the first signal ended it: %v; the log: %s", err, &p.log)
	}
	if code := p.end(t); code != exitCut || strings.Contains(p.log.String(), "msg=drained") {
		t.Errorf("exit %d after the second signal, want %d; the log: %s", code, exitCut, &p.log)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	code, out, text := command(t, nil, "serve", "sim", "--port", port)
	if code != exitNotStart || out != "" || !strings.Contains(text, "server.port: listen tcp 127.0.0.1:"+port) {
		t.Errorf("exit %d, %s%s\nwant 1 and the address", code, out, text)
	}
}

func TestPluginThatIsNone(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "plugins:\n  - {name: bad, path: bad.wasm, grants: {fields: [x]}}\n"
	if err := os.WriteFile("w.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"": `plugin "bad"`, "text": `plugin "bad"`} {
		if err := os.WriteFile("bad.wasm", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, err := command(t, nil, "serve", "sim", "--port=0", "--config=w.yaml"); code != exitNotStart || !strings.Contains(err, want) {
			t.Errorf("a plugin of %q: exit %d, %s\nwant 1 and %s", content, code, err, want)
		}
	}
}
