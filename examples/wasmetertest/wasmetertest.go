// Package wasmetertest runs the server's program for the tests of the examples.
package wasmetertest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const programPackage = "github.com/wasmeter/wasmeter/cmd/wasmeter"

// Build compiles the program and gives its path.
func Build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "wasmeter")
	goCommand(t, nil, "build", "-o", program, programPackage)

	// go test takes a result from its cache unless a file that the test has read
	// is changed; what the program is made of is read by others. So read it.
	sources := goCommand(t, nil, "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", programPackage)
	for dir := range strings.Lines(sources) {
		if _, err := os.ReadDir(strings.TrimSpace(dir)); err != nil {
			t.Fatal(err)
		}
	}
	return program
}

// BuildPlugin compiles a plugin in Go, a package or a file, with the command
// that the documents give.
func BuildPlugin(t *testing.T, source, wasm string) {
	t.Helper()
	goCommand(t, []string{"GOOS=wasip1", "GOARCH=wasm"},
		"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", wasm, source)
}

func goCommand(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Env = append(os.Environ(), environ...)
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	if err := command.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &messages)
	}
	return out.String()
}

// Serve runs wasmeter serve in a folder with these arguments, on a free port
// of the loopback address, and gives its URL. When the test ends, so does the
// server: it must drain and exit with 0.
func Serve(t *testing.T, program, dir string, args ...string) (url string) {
	t.Helper()
	server := exec.Command(program, append([]string{"serve"}, append(args, "--host=127.0.0.1", "--port=0")...)...)
	server.Dir = dir
	var log bytes.Buffer
	server.Stderr = &log
	banner, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(banner)
	for url == "" && lines.Scan() {
		if name, rest, ok := strings.Cut(strings.TrimSpace(lines.Text()), " "); ok && name == "url" {
			url = strings.TrimSpace(rest)
		}
	}
	if url == "" {
		err := server.Wait()
		t.Fatalf("wasmeter serve %s: %v, before its banner named a URL\n%s", strings.Join(args, " "), err, &log)
	}
	t.Cleanup(func() {
		if err := server.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		kill := time.AfterFunc(time.Minute, func() { _ = server.Process.Kill() }) // Wait reports it
		defer kill.Stop()
		if _, err := io.Copy(io.Discard, banner); err != nil {
			t.Error(err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("the server did not drain: %v\n%s", err, &log)
		}
	})
	return url
}
