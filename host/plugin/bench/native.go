package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// nativeMain is a file that makes a program of a plugin's package: in its init,
// behind those of all other files, it measures the hooks and exits.
//
//go:embed native.go.txt
var nativeMain []byte

// nativeRun is what that program is told, on stdin.
type nativeRun struct {
	Config  []byte
	Calls   int
	WarmUp  int
	Longest int64 // ns
	Hooks   []string
	Frames  [][][]byte // by hook
}

// native measures the source in a folder and adds the times to hooks.
func native(ctx context.Context, o Options, config []byte, frames []*plugin.Frame, hooks []Hook) error {
	temp, err := os.MkdirTemp("", "wasmeter-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	program, err := buildNative(ctx, o.Native, temp)
	if err != nil {
		return fmt.Errorf("native: %w", err)
	}
	run := nativeRun{Config: config, Calls: o.Calls, WarmUp: min(warmUp, o.Calls), Longest: int64(o.Longest)}
	if len(config) == 0 {
		run.Config = []byte("{}")
	}
	for i := range hooks {
		hook := hookNamed(hooks[i].Hook)
		var encoded [][]byte
		for _, f := range given(hook, frames) {
			encoded = append(encoded, f.Append(nil, hook))
		}
		run.Hooks, run.Frames = append(run.Hooks, hooks[i].Hook), append(run.Frames, encoded)
	}
	input, err := json.Marshal(run)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, program)
	var out, said bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("native: run %s: %w: %s", o.Native, err, last(said.String()))
	}
	var times [][]int64
	if err := json.Unmarshal(out.Bytes(), &times); err != nil || len(times) != len(hooks) {
		return fmt.Errorf("native: %s: unusable output of %d bytes: %w", o.Native, out.Len(), err)
	}
	for i := range hooks {
		if times[i] == nil {
			return fmt.Errorf("native: the source in %s has no hook %s, which the module has; is it another plugin's?", o.Native, hooks[i].Hook)
		}
		t := timesOf(times[i])
		hooks[i].Native = &t
	}
	return nil
}

func hookNamed(name string) plugin.Hook {
	for hook := plugin.HookRequest; hook < plugin.HookFinish; hook++ {
		if hook.String() == name {
			return hook
		}
	}
	return plugin.HookFinish
}

// buildNative builds a plugin's package for this machine, with nativeMain laid
// over its folder, which stays as it is.
func buildNative(ctx context.Context, folder, temp string) (program string, err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if sources, err := filepath.Glob(filepath.Join(folder, "*.go")); err != nil || len(sources) == 0 {
		return "", errors.Join(fmt.Errorf("%s has no Go files; name the folder of the plugin's source", folder), err)
	}
	replace := make(map[string]string)
	for name, text := range map[string][]byte{
		"zz_wasmeter_bench.go": nativeMain,
		"zz_wasmeter_bench.s":  nil, // functions without a body are allowed beside assembly
	} {
		from := filepath.Join(temp, name)
		if err := os.WriteFile(from, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(folder, name)] = from
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(temp, "native.exe") // Windows wants the ending, nobody minds it
	build := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", program, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s with go: %w: %s", folder, err, last(string(out)))
	}
	return program, nil
}

// last gives the end of what a program said.
func last(text string) string {
	const most = 2000
	return strings.TrimSpace(text[max(len(text)-most, 0):])
}
