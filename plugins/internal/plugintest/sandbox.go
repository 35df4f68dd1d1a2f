// Package plugintest runs built-in plugins in the sandbox, for their tests: with
// the committed module, as the server does, and beside it their hooks as
// ordinary functions.
package plugintest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// NewHost makes a sandbox with the server's own reserved names. Modules that it
// has compiled once are not compiled again.
func NewHost(t testing.TB, o plugin.Options) *plugin.Host {
	t.Helper()
	o.CacheDir = filepath.Join(t.TempDir(), "modules")
	o.Reserved, o.ReservedUsage = openai.Reserved(openai.Chat), openai.ReservedUsage()
	ctx := context.Background()
	host, err := plugin.NewHost(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close(ctx) })
	return host
}

// Load loads a plugin as the only one of its chain, with the self-test that the
// server begins with.
func Load(t testing.TB, host *plugin.Host, spec plugin.Spec) *plugin.Chain {
	t.Helper()
	ctx, current := context.Background(), plugin.NewCurrent(host)
	if err := current.Reload(ctx, []plugin.Spec{spec}); err != nil {
		t.Fatal(err)
	}
	set := current.Acquire()
	t.Cleanup(func() {
		set.Release()
		if err := current.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	chain, err := plugin.NewChain(set.Plugins()...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// LoadFault gives what is said of a plugin that must not load, "" if it loads.
func LoadFault(t testing.TB, host *plugin.Host, spec plugin.Spec) string {
	t.Helper()
	ctx, current := context.Background(), plugin.NewCurrent(host)
	err := current.Reload(ctx, []plugin.Spec{spec})
	if err := current.Close(ctx); err != nil {
		t.Error(err)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// Native runs a hook as an ordinary function and gives its result document.
func Native(hook plugin.Hook, f func(wasmeter.Request, *wasmeter.Answer), frame *plugin.Frame) string {
	var out wasmeter.Answer
	f(wasmeter.NewRequest(frame.Append(nil, hook)), &out)
	return string(out.AppendTo(nil))
}

// Configured gives the built-in plugin of that name as a configuration file has
// it, with its module.
func Configured(t testing.TB, file, name string) plugin.Spec {
	t.Helper()
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Plugins {
		if p.Builtin == name {
			p.Wasm = plugins.Module(name)
			return p.Spec
		}
	}
	t.Fatalf("%s has no plugin with builtin: %s", file, name)
	return plugin.Spec{}
}

// README gives the path of a file with the first block of YAML in the README.md
// beside the test.
func README(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n```yaml\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatal("README.md has no block of YAML")
	}
	file := filepath.Join(t.TempDir(), "README.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
