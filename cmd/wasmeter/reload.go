package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// watchEvery is how often the plugins' files are looked at.
const watchEvery = time.Second

// reloader loads plugins again while requests go on: when a SIGHUP comes, when a
// plugin's file changes, and when an operator asks.
type reloader struct {
	logger  *slog.Logger
	plugins *generations
	// read reads the configuration as it was read at the start.
	read func() (*config.Config, error)

	mu    sync.Mutex // guards what follows; one reload at a time
	now   *config.Config
	watch *plugin.Watch
}

func newReloader(logger *slog.Logger, plugins *generations, c *config.Config, read func() (*config.Config, error)) *reloader {
	return &reloader{logger: logger, plugins: plugins, read: read, now: c, watch: plugin.NewWatch(specs(c.Chain()))}
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
			changed := r.watch.Changed(specs(r.now.Chain()))
			r.mu.Unlock()
			if changed {
				r.logger.Info("reloading", "reason", "a plugin's file has changed")
				_ = r.reload(ctx) // it is logged
			}
		}
	}
}

// reload reads the configuration and loads its plugins. What is wrong is logged
// and returned, and changes nothing.
func (r *reloader) reload(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.read()
	if err == nil {
		err = r.plugins.current.Reload(ctx, specs(next.Chain()))
	}
	if err != nil {
		r.logger.Error("not reloaded; the plugins that ran go on", "error", err)
		return err
	}
	if names := next.Changed(r.now); len(names) > 0 {
		r.logger.Warn("these keys have changed and wait for a restart", "keys", strings.Join(names, ", "))
	}
	r.now.Plugins = next.Plugins
	r.watch = plugin.NewWatch(specs(r.now.Chain()))
	return nil
}

// serveAdmin listens for operators until the returned function is called.
func serveAdmin(c *config.Config, logger *slog.Logger, a host.Admin) (stop func(), err error) {
	if c.Access.Admin == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", c.Access.Admin)
	if err != nil {
		return nil, fmt.Errorf("server.admin: %w", err)
	}
	s, ended := a.Server(), make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the operators' listener has ended", "error", err)
		}
	}()
	logger.Info("serving operators", "address", l.Addr().String())
	return func() {
		closing(logger, "operators' listener", s.Close)
		<-ended
	}, nil
}
