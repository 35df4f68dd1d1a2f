package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/host/plugin/replay"
	"github.com/wasmeter/wasmeter/plugins"
)

// offline is how a command runs a plugin without a server.
type offline struct {
	setting string // of --plugin-config
	entry   string // of --plugin
	fuel    int64
}

const settingUsage = "a JSON `object`, or the server's YAML file, whose entry for the plugin says configuration, grants, fuel and match"

func (o *offline) flags(set *pflag.FlagSet) {
	set.StringVar(&o.setting, "plugin-config", "", "configuration: "+settingUsage)
	set.StringVar(&o.entry, "plugin", "", "`name` of the plugin's entry in a YAML file, where several could be meant")
	set.Int64Var(&o.fuel, "fuel", 0, "`units` of fuel a call, 0 for those of the entry, else 5000000")
}

// spec describes a plugin: a file, or one that is part of the program, with a
// setting as the flag takes it. Without an entry it may do all that it asks for.
func (o *offline) spec(file, setting string) (plugin.Spec, error) {
	spec := plugin.Spec{Name: "plugin", Grants: plugin.Everything()}
	switch setting = strings.TrimSpace(setting); {
	case setting == "":
	case setting[0] == '{':
		spec.Config = []byte(setting)
	default:
		c, err := config.Load(config.Sources{File: setting})
		if err != nil {
			return spec, err
		}
		entry, err := findEntry(c.Plugins, o.entry, file)
		if err != nil {
			return spec, fmt.Errorf("%s: %w", setting, err)
		}
		spec = entry.Spec
	}
	if spec.Path = file; strings.HasPrefix(file, builtinPrefix) {
		builtin, found := plugins.Find(strings.TrimPrefix(file, builtinPrefix))
		if !found {
			return spec, fmt.Errorf("%s: no such plugin in this program; it has %s", file, strings.Join(plugins.Names(), ", "))
		}
		spec.Path, spec.Wasm, spec.UsualGrants = "", builtin.Module, builtin.Grants
	}
	if o.fuel != 0 {
		spec.Fuel = o.fuel
	}
	return spec, nil
}

// builtinPrefix stands before the name of a plugin that is part of the program,
// where a file is expected.
const builtinPrefix = "builtin:"

// findEntry finds the entry of a file: the one of that name, else the one whose
// module has the file's name, else the only one.
func findEntry(list []config.Plugin, name, file string) (*config.Plugin, error) {
	var names, found []int
	var all []string
	for i := range list {
		all = append(all, list[i].Name)
		if list[i].Name == name {
			names = append(names, i)
		}
		if module := list[i].Path; filepath.Base(module) == filepath.Base(file) || builtinPrefix+list[i].Builtin == file {
			found = append(found, i)
		}
	}
	switch {
	case len(names) == 1:
		return &list[names[0]], nil
	case name != "":
		return nil, fmt.Errorf("no plugin is named %q; there are: %s", name, strings.Join(all, ", "))
	case len(found) == 1:
		return &list[found[0]], nil
	case len(list) == 1:
		return &list[0], nil
	case len(list) == 0:
		return nil, errors.New("the file has no plugins")
	}
	return nil, fmt.Errorf("%s could be any of %s; say which with --plugin", file, strings.Join(all, ", "))
}

// offlineHost is what modules are compiled and checked with, as in the server.
func offlineHost() plugin.Options {
	return plugin.Options{
		CacheDir:        pluginCache(slog.New(slog.DiscardHandler)),
		CompileCommand:  compileCommand(),
		Reserved:        slices.Concat(openai.Reserved(openai.Chat), openai.Reserved(openai.Responses)),
		ReservedUsage:   openai.ReservedUsage(),
		ReservedHeaders: []string{"x-request-id", "x-accel-buffering", "x-wasmeter-rewritten-by"},
	}
}

// framesFilter is the flags that choose requests.
type framesFilter struct {
	since, until    string
	tenants, models []string
}

func (f *framesFilter) flags(set *pflag.FlagSet) {
	set.StringVar(&f.since, "since", "", "first arrival: a `time` such as 2026-11-28, 2026-11-28T06:00:00Z, or 24h ago as 24h")
	set.StringVar(&f.until, "until", "", "end: requests that arrived before this `time`")
	set.StringSliceVar(&f.tenants, "tenant", nil, "only these tenants: `names`, or beginnings with * behind them")
	set.StringSliceVar(&f.models, "model", nil, "only these models: `names`, or beginnings with * behind them")
}

func (f *framesFilter) filter(now time.Time) (replay.Filter, error) {
	since, err := parseMoment(f.since, now)
	if err != nil {
		return replay.Filter{}, fmt.Errorf("--since: %w", err)
	}
	until, err := parseMoment(f.until, now)
	if err != nil {
		return replay.Filter{}, fmt.Errorf("--until: %w", err)
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return replay.Filter{}, fmt.Errorf("--until: %s is not after --since, %s", until.Format(time.RFC3339), since.Format(time.RFC3339))
	}
	return replay.Filter{Since: since, Until: until, Tenants: f.tenants, Models: f.models}, nil
}

// parseMoment reads a time, a day in UTC, or how long ago; empty is the zero
// time.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time; write 2026-11-28, 2026-11-28T06:00:00Z or, for a day ago, 24h", text)
}

// openFrames opens a file of frames, "-" for stdin.
func openFrames(path string) (*os.File, error) {
	if path == "-" {
		return os.Stdin, nil
	}
	return os.Open(path)
}

// follower reads a file that grows, until ctx ends.
type follower struct {
	ctx  context.Context
	file io.Reader
}

// followEvery is how often a follower looks for more.
const followEvery = 200 * time.Millisecond

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		n, err := f.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-ticker.C:
		}
	}
}
