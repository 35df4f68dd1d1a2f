package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Status is what operators are told of a plugin.
type Status struct {
	Name string
	Hash string // SHA-256 of the module, hex
	Path string // the module's file; empty for one built in
	// Generation is the reload that loaded it, 1 for the start, at the time
	// Loaded. A reload that takes it over leaves both as they are.
	Generation uint64
	Loaded     time.Time

	Hooks  []Hook
	Grants Grants
	Match  Match
	Policy Policy
	// Disabled says that an operator has stopped it.
	Disabled bool
	Stats
	// Calls and Failures count since it was loaded. A call of a plugin that is
	// left alone counts as both.
	Calls, Failures uint64
	LastFailure     *LastFailure // nil if there was none
}

// LastFailure is how a plugin's call failed the last time.
type LastFailure struct {
	*Failure
	Time      time.Time
	RequestID string
}

// Status tells of the plugins that requests begin with, in their order, and
// of which generation they are: reloads that succeeded, the start included.
func (c *Current) Status() (generation uint64, plugins []Status) {
	set := c.Acquire()
	if set == nil {
		return 0, nil
	}
	defer set.Release()
	plugins = make([]Status, len(set.members))
	for i := range set.members {
		plugins[i] = set.members[i].status()
	}
	return set.generation, plugins
}

func (m *member) status() Status {
	p := m.plugin
	s := Status{
		Name: p.name, Hash: p.hash, Path: m.path, Generation: m.generation, Loaded: m.loaded,
		Grants: p.grants, Match: m.match, Policy: p.policy, Disabled: p.stopped.Load(), Stats: p.Stats(),
		Calls: p.calls.Load(), Failures: p.failures.Load(), LastFailure: p.lastFailure.Load(),
	}
	for hook := HookRequest; hook <= HookFinish; hook++ {
		if p.mask&hook.bit() != 0 {
			s.Hooks = append(s.Hooks, hook)
		}
	}
	return s
}

// errDisabled is the reason of a finish that was left out.
var errDisabled = errors.New("an operator has disabled it")

// UnknownError is a name that no plugin has.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("no plugin is named %q; there are none", e.Name)
	}
	return fmt.Sprintf("no plugin is named %q; there are %s", e.Name, strings.Join(e.Known, ", "))
}

// find gives a plugin of the current set, which the caller releases.
func (c *Current) find(name string) (*Set, *Plugin, error) {
	set := c.Acquire()
	if set == nil {
		return nil, nil, errCurrentClosed
	}
	p := set.named(name)
	if p == nil {
		unknown := &UnknownError{Name: name}
		for _, p := range set.Plugins() {
			unknown.Known = append(unknown.Known, p.name)
		}
		set.Release()
		return nil, nil, unknown
	}
	return set, p, nil
}

// Disable stops a plugin at once, in the requests under way too: its hooks
// are left out whatever its policy, and its finish is missing from the
// accounts, which say so. Reloads leave it disabled, with another module too,
// until Enable or until a reload has no plugin of that name.
func (c *Current) Disable(name string) error {
	return c.turn(name, true, "plugin disabled by an operator")
}

// Enable ends what Disable began.
func (c *Current) Enable(name string) error {
	return c.turn(name, false, "plugin enabled by an operator")
}

func (c *Current) turn(name string, stop bool, message string) error {
	set, p, err := c.find(name)
	if err != nil {
		return err
	}
	defer set.Release()
	if p.stopped.Swap(stop) != stop {
		p.logger.Warn(message)
	}
	return nil
}

// SelfTest calls a plugin's hooks as it is done when it is loaded, whether or
// not it is disabled. The calls have no effects.
func (c *Current) SelfTest(ctx context.Context, name string) ([]Trial, error) {
	set, p, err := c.find(name)
	if err != nil {
		return nil, err
	}
	defer set.Release()
	var trials []Trial
	for t := range p.selfTest(ctx) {
		trials = append(trials, t)
	}
	return trials, nil
}
