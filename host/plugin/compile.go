package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
)

// compileLimits bound a process that compiles a module. A module of 44 KB
// can be made that takes 43 s and 1.2 GiB, though it keeps every other limit.
type compileLimits struct {
	cpu    time.Duration // whole seconds
	memory uint64        // bytes
	wall   time.Duration // for a machine that is too busy to give it its CPU time
}

var defaultCompileLimits = compileLimits{cpu: 30 * time.Second, memory: 1 << 30, wall: 2 * time.Minute}

// compiler compiles modules in a process of their own.
type compiler struct {
	command []string // Options.CompileCommand
	dir     string   // the compilation cache
	limits  compileLimits
}

// compile puts the compiled form of a module into the cache folder, where
// this process finds it.
func (c *compiler) compile(ctx context.Context, wasm []byte) error {
	digest := sha256.Sum256(wasm)
	done := filepath.Join(c.dir, "within-limits-"+hex.EncodeToString(digest[:]))
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.limits.wall)
	defer cancel()
	args := append(c.command[1:len(c.command):len(c.command)], c.dir,
		strconv.Itoa(int(c.limits.cpu/time.Second)), strconv.FormatUint(c.limits.memory, 10))
	child := exec.CommandContext(ctx, c.command[0], args...)
	child.Stdin = bytes.NewReader(wasm)
	child.Env = []string{fmt.Sprintf("GOMEMLIMIT=%d", c.limits.memory/4*3)}
	said := &firstBytes{most: 4 << 10}
	child.Stderr = said
	if err := child.Run(); err != nil {
		return c.explain(ctx, err, string(said.bytes))
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// explain says why a child ended.
func (c *compiler) explain(ctx context.Context, err error, said string) error {
	const advice = "; the module asks too much of the compiler: build it with optimization and with less inlining"
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		return fmt.Errorf("compile: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("compile: stopped after %v%s", c.limits.wall, advice)
	case exit.ProcessState.UserTime()+exit.ProcessState.SystemTime() >= c.limits.cpu-time.Second/2:
		return fmt.Errorf("compile: it took more than %v of CPU time%s", c.limits.cpu, advice)
	case strings.Contains(said, "out of memory") || strings.Contains(said, "allocate"): // what a Go runtime says, and its race detector
		return fmt.Errorf("compile: it took more than %d MiB of memory%s", c.limits.memory>>20, advice)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	if line == "" {
		line = exit.String()
	}
	return errors.New(line)
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	bytes []byte
	most  int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.bytes = append(f.bytes, p[:min(len(p), f.most-len(f.bytes))]...)
	return len(p), nil
}

// CompileInChild is the whole work of the process that Options.CompileCommand
// starts: it reads a metered module from stdin and puts its compiled form
// into the cache folder. args are those that the host appended to the
// command.
func CompileInChild(ctx context.Context, args []string, stdin io.Reader) error {
	if len(args) != 3 {
		return fmt.Errorf("%d arguments; the plugin host gives 3", len(args))
	}
	cpu, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return fmt.Errorf("seconds of CPU time: %w", err)
	}
	memory, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("bytes of memory: %w", err)
	}
	if err := limitProcess(cpu, memory); err != nil {
		return fmt.Errorf("limit the compiler: %w", err)
	}
	if err := secureDir(args[0]); err != nil {
		return fmt.Errorf("plugin cache: %w", err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(args[0])
	if err != nil {
		return fmt.Errorf("plugin cache: %w", err)
	}
	wasm, err := io.ReadAll(io.LimitReader(stdin, 2*maxModuleBytes))
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(cache))
	_, err = runtime.CompileModule(ctx, wasm)
	if err != nil {
		err = fmt.Errorf("compile: %w", err)
	}
	return errors.Join(err, runtime.Close(ctx), cache.Close(ctx))
}

// runtimeConfig is the same in the child and in the server, since the cache
// keeps what was compiled with another apart.
func runtimeConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().WithCompilationCache(cache)
}

func interpreterConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigInterpreter().WithCompilationCache(cache)
}
