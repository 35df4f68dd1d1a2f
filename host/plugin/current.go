package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
)

// Current is the set that requests begin with. Reload replaces it; the
// requests under way go on with theirs. It is safe for concurrent use.
type Current struct {
	host *Host
	set  atomic.Pointer[Set] // nil when closed

	reloading sync.Mutex     // one Reload or Close at a time
	open      sync.WaitGroup // sets whose plugins are not closed
}

// NewCurrent begins with a set of no plugins.
func NewCurrent(h *Host) *Current {
	c := &Current{host: h}
	c.put(&Set{chains: make(map[uint64]*Chain)})
	c.set.Load().uses.Store(1)
	return c
}

// put makes a set the one that requests begin with.
func (c *Current) put(s *Set) (before *Set) {
	c.open.Add(1)
	s.closed = func(s *Set) {
		// The goroutine ends with the set, and Close waits for it: the last
		// request of a set shall not wait for the end of its plugins.
		go func() {
			defer c.open.Done()
			if err := s.letGo(context.Background()); err != nil {
				c.host.logger.Error("plugins not closed", "error", err)
			}
		}()
	}
	return c.set.Swap(s)
}

// errCurrentClosed is a Reload after Close.
var errCurrentClosed = errors.New("the server is closing")

// Reload loads the plugins of specs and lets requests begin with them. Every
// fault is found before: then the plugins that run go on running, and the
// error says which plugin is at fault and why.
func (c *Current) Reload(ctx context.Context, specs []Spec) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	running := c.set.Load()
	if running == nil {
		return errCurrentClosed
	}
	next, err := newSet(ctx, c.host, specs, running)
	if err != nil {
		return err
	}
	c.put(next)
	running.Release()
	c.host.logger.InfoContext(ctx, "plugins loaded", "plugins", slog.AnyValue(describeSet(next)))
	return nil
}

// describeSet lists names and the first digits of hashes.
func describeSet(s *Set) string {
	var text strings.Builder
	for i, p := range s.Plugins() {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(p.name + " " + p.hash[:12])
	}
	return text.String()
}

// Acquire gives the current set to a request, which releases it at its end;
// nil, which is a set without plugins, when there is none.
func (c *Current) Acquire() *Set {
	if c == nil {
		return nil
	}
	for {
		s := c.set.Load()
		if s == nil || s.acquire() {
			return s
		}
		// Its owner has let it go, so another one is there.
	}
}

// Close waits until the requests under way have released their sets and all
// plugins are closed, or ctx ends.
func (c *Current) Close(ctx context.Context) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	c.set.Swap(nil).Release()
	ended := make(chan struct{})
	go func() {
		c.open.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close plugins: requests are still under way: %w", ctx.Err())
	}
}
