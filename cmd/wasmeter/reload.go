package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// watchEvery is how often the files of the configuration, plugins, keys and token
// are looked at.
const watchEvery = time.Second

// reloader takes over what can change while requests go on: plugins, API keys,
// the operators' token, the log's level. It does when a SIGHUP comes, when the
// configuration's file or one of theirs changes, and when an operator asks; all of it or nothing.
type reloader struct {
	logger  *slog.Logger
	plugins *generations
	// read reads the configuration as it was read at the start.
	read func() (*config.Config, error)
	// changes are made in this order, after the plugins.
	changes []change
	// failed is told of a reload that changed nothing.
	failed func()

	mu    sync.Mutex // guards what follows; one reload at a time
	begun *config.Config
	files []string // that are watched
	watch *plugin.Watch
}

// change is a part of the configuration that a reload takes over.
type change struct {
	name string
	// prepare checks what is next and changes nothing. apply then can't fail; it
	// says what has changed, "" if nothing has.
	prepare func(next *config.Config) (apply func() string, err error)
}

func newReloader(logger *slog.Logger, plugins *generations, c *config.Config, read func() (*config.Config, error), failed func(), changes ...change) *reloader {
	files := watchedFiles(c)
	return &reloader{logger: logger, plugins: plugins, read: read, changes: changes, failed: failed, begun: c, files: files, watch: plugin.NewWatch(files)}
}

// watchedFiles are those whose change is a reason to reload.
func watchedFiles(c *config.Config) []string {
	files := []string{c.File()}
	for _, p := range c.Chain() {
		files = append(files, p.Path)
	}
	files = append(files, c.Access.APIKeysFile)
	if c.Access.Admin != "" {
		files = append(files, c.Access.AdminTokenFile)
	}
	var named []string
	for _, f := range files {
		if f != "" {
			named = append(named, f)
		}
	}
	return named
}

// run reloads until ctx ends.
func (r *reloader) run(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.logger.Info("reloading", "reason", "SIGHUP")
			_ = r.reload(ctx) // it is logged
		case <-ticker.C:
			r.mu.Lock()
			changed := r.watch.Changed(r.files)
			r.mu.Unlock()
			if len(changed) > 0 {
				r.logger.Info("reloading", "reason", "files have changed", "files", strings.Join(changed, ", "))
				_ = r.reload(ctx) // it is logged
			}
		}
	}
}

// reload reads the configuration again and takes over what can change. What is
// wrong is logged and returned, and changes nothing.
func (r *reloader) reload(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, changed, err := r.takeOver(ctx)
	if err != nil {
		r.failed()
		r.logger.Error("not reloaded; all goes on as it was", "error", err)
		return err
	}
	if len(changed) == 0 {
		r.logger.Info("reloaded; nothing has changed")
	} else {
		r.logger.Info("reloaded", changed...)
	}
	if names := next.Changed(r.begun); len(names) > 0 {
		r.logger.Warn("these keys have changed and wait for a restart", "keys", strings.Join(names, ", "))
	}
	return nil
}

// takeOver lists what has changed, as attributes of a line of the log.
func (r *reloader) takeOver(ctx context.Context) (next *config.Config, changed []any, err error) {
	// The files are looked at before they are read: one that changes meanwhile is
	// a reason to reload once more.
	if file := r.begun.File(); file != "" {
		r.watch.Changed([]string{file})
	}
	if next, err = r.read(); err != nil {
		return nil, nil, err
	}
	r.files = watchedFiles(next)
	r.watch.Changed(r.files)

	var faults []error
	applies := make([]func() string, len(r.changes))
	for i, c := range r.changes {
		if applies[i], err = c.prepare(next); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, nil, err
	}
	_, before := r.plugins.current.Status()
	if err := r.plugins.current.Reload(ctx, specs(next.Chain())); err != nil {
		return nil, nil, err
	}
	_, after := r.plugins.current.Status()
	if what := pluginChanges(before, after); what != "" {
		changed = append(changed, "plugins", what)
	}
	for i, c := range r.changes {
		if what := applies[i](); what != "" {
			changed = append(changed, c.name, what)
		}
	}
	return next, changed, nil
}

// pluginChanges names the plugins that came with +, those that are other ones
// with ~ and those that went with -.
func pluginChanges(before, after []plugin.Status) string {
	var changes []string
	generations := make(map[string]uint64)
	for _, p := range before {
		generations[p.Name] = p.Generation
	}
	for _, p := range after {
		switch generation, known := generations[p.Name]; {
		case !known:
			changes = append(changes, "+"+p.Name)
		case generation != p.Generation:
			changes = append(changes, "~"+p.Name)
		}
		delete(generations, p.Name)
	}
	for _, p := range before {
		if _, gone := generations[p.Name]; gone {
			changes = append(changes, "-"+p.Name)
		}
	}
	return strings.Join(changes, " ")
}

// changeLevel takes over the log's level.
func changeLevel(level *slog.LevelVar) change {
	return change{"log_level", func(next *config.Config) (func() string, error) {
		return func() string {
			before, after := level.Level(), levelOf(next.Log.Level)
			level.Set(after)
			if before == after {
				return ""
			}
			return fmt.Sprintf("%s to %s", before, after)
		}, nil
	}}
}

// changeKeys takes over who may ask; set hands the keys to the server, whose
// address is open to other machines or not.
func changeKeys(logger *slog.Logger, c *config.Config, ring *keys.Ring, set func(*keys.Ring)) change {
	return change{"api_keys", func(next *config.Config) (func() string, error) {
		after, err := loadKeys(next, os.Getenv)
		if err != nil {
			return nil, err
		}
		if err := c.Host.Server.Open(after.Len()); err != nil {
			return nil, err
		}
		return func() string {
			changes := strings.Join(after.Changes(ring), " ")
			if ring.Len() > 0 && after.Len() == 0 {
				logger.Warn("there are no API keys any more: whoever reaches the server is served")
			}
			ring = after
			set(after)
			return changes
		}, nil
	}}
}
