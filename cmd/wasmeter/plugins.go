package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// chain is the loaded plugins and what runs them.
type chain struct {
	host    *plugin.Host
	plugins []*plugin.Plugin
	chain   *plugin.Chain // nil for none
}

// loadPlugins loads the configured chain; counts is told of what they do, kv is where they
// remember.
func loadPlugins(ctx context.Context, c *config.Config, logger *slog.Logger, counts *counts, kv plugin.KV) (*chain, error) {
	list := c.Chain()
	if len(list) == 0 {
		return &chain{}, nil
	}
	h, err := plugin.NewHost(ctx, plugin.Options{
		CacheDir: pluginCache(logger),
		Logger:   logger,
		Observer: counts.call,
		Sampled:  counts.sample,
		KV:       kv,
		// A plugin is called for every endpoint.
		Reserved:        slices.Concat(openai.Reserved(openai.Chat), openai.Reserved(openai.Responses)),
		ReservedUsage:   openai.ReservedUsage(),
		ReservedHeaders: []string{"x-request-id", "x-accel-buffering", "x-wasmeter-rewritten"},
	})
	if err != nil {
		return nil, err
	}
	loaded := &chain{host: h}
	if err := loaded.load(ctx, list); err != nil {
		loaded.close(logger)
		return nil, err
	}
	return loaded, nil
}

func (l *chain) load(ctx context.Context, list []config.Plugin) error {
	for _, p := range list {
		spec := p.Spec
		if p.Builtin != "" {
			spec.Wasm = plugins.Metrics() // the one name that the configuration allows
		}
		loaded, err := l.host.Load(ctx, spec)
		if err != nil {
			return err
		}
		l.plugins = append(l.plugins, loaded)
	}
	var err error
	if l.chain, err = plugin.NewChain(l.plugins...); err != nil {
		return fmt.Errorf("plugins: %w", err)
	}
	return nil
}

// close ends the plugins, after the server that calls them.
func (l *chain) close(logger *slog.Logger) {
	ctx := context.Background() // the command's own has ended
	for _, p := range l.plugins {
		closing(logger, "plugin "+p.Name(), func() error { return p.Close(ctx) })
	}
	if l.host != nil {
		closing(logger, "plugin host", func() error { return l.host.Close(ctx) })
	}
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
