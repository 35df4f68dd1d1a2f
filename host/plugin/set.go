package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// maxPlugins bounds a set: each plugin is a bit of the key of its chains.
const maxPlugins = 64

// Set is the plugins of one configuration, a generation. It never changes.
// Requests hold it from their beginning to their end; when its owner and all
// of them have released it, its plugins are closed, but for those that a
// later set goes on with.
type Set struct {
	// generation counts the sets of a Current, from 1; 0 is the one that begins
	// without plugins.
	generation uint64

	members []member
	uses    atomic.Int64 // the owner and the requests
	closed  func(*Set)   // called once, when nobody uses it

	mu     sync.RWMutex      // guards chains
	chains map[uint64]*Chain // by the members that they have
}

// member is a plugin of a set and the requests it is for.
type member struct {
	*held
	match Match
	path  string // of the module's file; empty for one built in
}

// held is a plugin that one set or several of a row have.
type held struct {
	plugin     *Plugin
	spec       Spec         // what it was made of, with neither module nor match
	generation uint64       // that it was loaded for
	loaded     time.Time    // when
	uses       atomic.Int64 // sets
}

// newSet loads the plugins of specs. Those that running has as well, made of
// the same bytes and the same configuration, are taken over as they are. The
// error names the plugin; then nothing is left of the set.
func newSet(ctx context.Context, h *Host, specs []Spec, running *Set) (_ *Set, err error) {
	if len(specs) > maxPlugins {
		return nil, fmt.Errorf("%d plugins; at most %d", len(specs), maxPlugins)
	}
	s := &Set{generation: running.generation + 1, chains: make(map[uint64]*Chain)}
	s.uses.Store(1)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.letGo(ctx))
		}
	}()
	for i := range specs {
		m, err := running.takeOver(&specs[i])
		if err != nil {
			return nil, fmt.Errorf("plugin %q: %w", specs[i].Name, err)
		}
		fresh := m == nil
		if fresh {
			p, err := h.Load(ctx, specs[i])
			if err != nil {
				return nil, specs[i].explain(err)
			}
			if before := running.named(p.name); before != nil {
				p.stopped = before.stopped
			}
			m = &held{plugin: p, spec: likeness(specs[i]), generation: s.generation, loaded: h.now()}
			m.uses.Add(1)
		}
		s.members = append(s.members, member{m, specs[i].Match, specs[i].Path})
		if !fresh {
			continue
		}
		for trial := range m.plugin.selfTest(ctx) {
			if trial.Err != nil {
				return nil, fmt.Errorf("plugin %q: self-test: hook %s, given %s: %w", m.plugin.name, trial.Hook, trial.Given, specs[i].explain(trial.Err))
			}
		}
	}
	return s, s.checkTogether()
}

// likeness is a spec without what may differ in a plugin that stays.
func likeness(spec Spec) Spec {
	if spec.Path != "" {
		spec.Path = "a file" // a built-in module is trusted more
	}
	spec.Wasm, spec.Match = nil, Match{}
	return spec
}

// takeOver gives the plugin of the set that spec describes too, used once
// more; nil if there is none.
func (s *Set) takeOver(spec *Spec) (*held, error) {
	for _, m := range s.members {
		if m.plugin.name != spec.Name || !reflect.DeepEqual(m.spec, likeness(*spec)) {
			continue
		}
		hash, err := moduleHash(spec)
		if err != nil || hash != m.plugin.hash {
			return nil, err
		}
		m.uses.Add(1)
		return m.held, nil
	}
	return nil, nil
}

// moduleHash gives the SHA-256 of a spec's module, in hex.
func moduleHash(spec *Spec) (string, error) {
	wasm := spec.Wasm
	if spec.Path != "" {
		var err error
		if wasm, err = readModule(spec.Path); err != nil {
			return "", err
		}
	}
	digest := sha256.Sum256(wasm)
	return hex.EncodeToString(digest[:]), nil
}

// checkTogether refuses plugins that would meet in one chain and not agree.
func (s *Set) checkTogether() error {
	var faults []error
	for i := range s.members {
		for j := range s.members[:i] {
			later, earlier := &s.members[i], &s.members[j]
			if earlier.plugin.name == later.plugin.name {
				faults = append(faults, fmt.Errorf("two plugins are named %q", later.plugin.name))
			} else if earlier.match.meets(&later.match) {
				if _, err := NewChain(earlier.plugin, later.plugin); err != nil {
					faults = append(faults, err)
				}
			}
		}
	}
	return errors.Join(faults...)
}

// Chain gives the plugins for a request, in the order of the configuration.
// It may be called from any goroutine that holds the set.
func (s *Set) Chain(model, tenant string, endpoint Endpoint) *Chain {
	if s == nil {
		return nil
	}
	var key uint64
	for i := range s.members {
		if s.members[i].match.covers(model, tenant, endpoint) {
			key |= 1 << i
		}
	}
	s.mu.RLock()
	chain, known := s.chains[key]
	s.mu.RUnlock()
	if known {
		return chain
	}
	var plugins []*Plugin
	for i := range s.members {
		if key&(1<<i) != 0 {
			plugins = append(plugins, s.members[i].plugin)
		}
	}
	chain, err := NewChain(plugins...)
	if err != nil {
		// Any two of them were checked when the set was made.
		panic(fmt.Sprintf("plugin: a set of plugins that disagree: %v", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.chains) < maxChains {
		s.chains[key] = chain
	}
	return chain
}

// maxChains bounds the chains that a set keeps. There are as many as there
// are combinations of matches, of which a configuration has few.
const maxChains = 1024

// Plugins lists the set's plugins in their order.
func (s *Set) Plugins() []*Plugin {
	if s == nil {
		return nil
	}
	plugins := make([]*Plugin, len(s.members))
	for i := range s.members {
		plugins[i] = s.members[i].plugin
	}
	return plugins
}

// named gives the plugin of that name, nil if there is none.
func (s *Set) named(name string) *Plugin {
	for i := range s.members {
		if s.members[i].plugin.name == name {
			return s.members[i].plugin
		}
	}
	return nil
}

// acquire uses the set for a request; it reports false if nobody does any
// more.
func (s *Set) acquire() bool {
	for {
		n := s.uses.Load()
		if n == 0 {
			return false
		}
		if s.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends a use of the set. Whoever acquired it calls it once.
func (s *Set) Release() {
	if s == nil {
		return
	}
	switch n := s.uses.Add(-1); {
	case n < 0:
		panic("plugin: a set is released more often than it was acquired")
	case n == 0:
		s.closed(s)
	}
}

// letGo closes the plugins that no other set has.
func (s *Set) letGo(ctx context.Context) error {
	var faults []error
	for _, m := range s.members {
		if m.uses.Add(-1) > 0 {
			continue
		}
		if err := m.plugin.Close(ctx); err != nil {
			faults = append(faults, fmt.Errorf("close plugin %q: %w", m.plugin.name, err))
		}
	}
	return errors.Join(faults...)
}
