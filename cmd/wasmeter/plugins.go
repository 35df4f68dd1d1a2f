package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// generations is the loaded plugins and what runs them.
type generations struct {
	host    *plugin.Host
	current *plugin.Current
}

// pluginOptions are what every plugin of this program is compiled and checked
// with, in the server and beside it.
func pluginOptions(logger *slog.Logger) plugin.Options {
	return plugin.Options{
		CacheDir:       pluginCache(logger),
		CompileCommand: compileCommand(),
		Logger:         logger,
		// A plugin is called for every endpoint.
		Reserved:        slices.Concat(openai.Reserved(openai.Chat), openai.Reserved(openai.Responses)),
		ReservedUsage:   openai.ReservedUsage(),
		ReservedHeaders: []string{"x-request-id", "x-accel-buffering", "x-wasmeter-rewritten-by"},
	}
}

// loadPlugins loads the configured chain, which may be empty and filled by a
// reload; counts is told of what they do, kv is where they remember.
func loadPlugins(ctx context.Context, c *config.Config, logger *slog.Logger, counts *counts, kv plugin.KV) (*generations, error) {
	options := pluginOptions(logger)
	options.Observer, options.Sampled, options.KV = counts.call, counts.sample, kv
	h, err := plugin.NewHost(ctx, options)
	if err != nil {
		return nil, err
	}
	loaded := &generations{host: h, current: plugin.NewCurrent(h)}
	if err := loaded.current.Reload(ctx, specs(c.Chain())); err != nil {
		loaded.close(logger)
		return nil, err
	}
	return loaded, nil
}

// specs are the plugins of a configuration, with the modules that are part of
// the program.
func specs(list []config.Plugin) []plugin.Spec {
	specs := make([]plugin.Spec, len(list))
	for i, p := range list {
		specs[i] = p.Spec
		if p.Builtin != "" {
			builtin, _ := plugins.Find(p.Builtin) // the configuration allows no other
			specs[i].Wasm, specs[i].UsualGrants = builtin.Module, builtin.Grants
		}
	}
	return specs
}

// list gives the plugins that requests begin with.
func (g *generations) list() []*plugin.Plugin {
	set := g.current.Acquire()
	defer set.Release()
	return set.Plugins()
}

// close ends the plugins, after the server that calls them.
func (g *generations) close(logger *slog.Logger) {
	ctx := context.Background() // the command's own has ended
	closing(logger, "plugins", func() error { return g.current.Close(ctx) })
	closing(logger, "plugin host", func() error { return g.host.Close(ctx) })
}

// pluginCache is the folder that keeps compiled plugins between starts, "" when
// this user has no place for it.
func pluginCache(logger *slog.Logger) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		logger.Debug("plugins are compiled at each start", "error", err)
		return ""
	}
	return filepath.Join(dir, "wasmeter", "plugins")
}
