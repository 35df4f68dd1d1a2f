package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
)

// Plugin is a loaded module and its instances. It is safe for concurrent use.
type Plugin struct {
	name        string
	hash        string // SHA-256 of the module's bytes, hex
	host        *Host
	logger      *slog.Logger
	spoken      *lineLimiter // guards the log against a talkative guest
	failed      *lineLimiter // guards it against a guest that fails on every call
	config      []byte
	memoryLimit uint64 // bytes of one instance
	policy      Policy
	override    bool
	fuel        int64 // budget of a call
	startSpent  int64 // fuel that the first instance's init took
	grants      Grants
	metrics     []Metric
	rules       resultRules
	isolation   Isolation
	mask        mask
	breaker     *breaker
	// stopped says that an operator has disabled the plugin. The plugins of that
	// name of all generations share it.
	stopped *atomic.Bool

	// What has happened since it was loaded, for operators.
	calls, failures atomic.Uint64
	lastFailure     atomic.Pointer[LastFailure]

	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	pool     *pool
}

// Name gives the plugin's name in the configuration.
func (p *Plugin) Name() string { return p.name }

// Breaker tells whether the plugin is called or left alone because it failed
// too often.
func (p *Plugin) Breaker() BreakerState { return p.breaker.current() }

// Stats is what a plugin takes at a moment.
type Stats struct {
	Instances   int
	MemoryBytes int64 // of their linear memories
	// Recycled counts the instances that were thrown away: after a failure, or
	// after each call where the isolation asks for it.
	Recycled uint64
	Breaker  BreakerState
}

// Stats tells what the plugin takes. It may be called at any time.
func (p *Plugin) Stats() Stats {
	return Stats{int(p.pool.instances.Load()), p.pool.memory.Load(), p.pool.recycled.Load(), p.breaker.current()}
}

// Hash gives the SHA-256 of the module, in hex.
func (p *Plugin) Hash() string { return p.hash }

// Close ends the plugin: it waits for the calls under way and releases the
// instances. Calls made later fail. If ctx ends first, what the calls still
// use is left alone.
func (p *Plugin) Close(ctx context.Context) error {
	if err := p.pool.close(ctx); err != nil {
		return err
	}
	// The runtime leaves the code to the cache, which would keep that of every
	// module that ever ran.
	return errors.Join(p.runtime.Close(ctx), p.compiled.Close(ctx))
}

// due reports whether the plugin has the hook and is not disabled.
func (p *Plugin) due(hook Hook) bool { return p.mask&hook.bit() != 0 && !p.stopped.Load() }

// epoch is some moment: durations are differences of the time since then, which
// reads one clock where time.Now reads two.
var epoch = time.Now()

// call calls a hook and adds what it answers to into. On a failure into is as
// it was. The plugin is left alone while its breaker is open.
func (p *Plugin) call(ctx context.Context, hook Hook, frame *Frame, into *result) *Failure {
	p.calls.Add(1)
	call := Call{Plugin: p.name, Hook: hook}
	var failure *Failure
	if p.breaker.allow() {
		began := time.Since(epoch)
		failure = p.checkedOutCall(ctx, frame, into, &call)
		call.Duration = time.Since(epoch) - began
		if p.breaker.record(failure != nil || call.Duration > p.host.slowCall) {
			p.logger.WarnContext(ctx, "plugin breaker turned", "state", p.breaker.current().String())
		}
	} else {
		failure = p.failure(hook, FailureBreakerOpen, errBreakerOpen)
	}
	switch {
	case failure != nil:
		call.Failure = failure.Kind
		p.report(ctx, frame, failure)
	case call.Duration > p.host.slowCall:
		// What it answered is as good as ever; the time it took is not.
		call.Failure = FailureTimeout
		p.report(ctx, frame, p.failure(hook, FailureTimeout, fmt.Errorf("took %v; at most %v are in order", call.Duration, p.host.slowCall)))
	}
	p.host.observe(call)
	return failure
}

// leaveOut is the finish of a request that a disabled plugin does not see.
// What it would have said is missing from the account, so it is counted.
func (p *Plugin) leaveOut() *Failure {
	p.host.observe(Call{Plugin: p.name, Hook: HookFinish, Failure: FailureDisabled})
	return p.failure(HookFinish, FailureDisabled, errDisabled)
}

// report logs a failure and keeps it as the last one. An account that stays
// unpriced is an operator's affair, the rest works as configured.
func (p *Plugin) report(ctx context.Context, frame *Frame, failure *Failure) {
	p.failures.Add(1)
	if failure.Kind != FailureBreakerOpen { // the reason is the failure before
		p.lastFailure.Store(&LastFailure{Time: p.host.now(), RequestID: frame.RequestID, Failure: failure})
	}
	level := slog.LevelWarn
	if failure.Hook == HookFinish && failure.Kind != FailureTimeout {
		level = slog.LevelError
	}
	if dropped, allowed := p.failed.allow(); allowed {
		p.logger.Log(ctx, level, "plugin call failed", "hook", failure.Hook.String(), "kind", string(failure.Kind), "on_error", p.policy.String(),
			"request_id", frame.RequestID, "attempt_id", frame.AttemptID, "error", failure.Err, "dropped", dropped)
	}
}

// checkedOutCall calls a hook in an instance of the pool, and notes in call
// what that took.
func (p *Plugin) checkedOutCall(ctx context.Context, frame *Frame, into *result, call *Call) *Failure {
	in, err := p.pool.take(ctx)
	if err != nil {
		kind := FailureInit
		if errors.Is(err, errPoolExhausted) || errors.Is(err, errPoolClosed) {
			kind = FailurePoolExhausted
		}
		return p.failure(call.Hook, kind, err)
	}
	failure := in.run(ctx, call.Hook, frame, into)
	call.Fuel = in.spent()
	if call.Recycled = in.spoiled || !in.renew(ctx); call.Recycled {
		p.pool.discard(ctx, in)
	} else {
		p.pool.put(in)
	}
	return failure
}

func (p *Plugin) failure(hook Hook, kind FailureKind, err error) *Failure {
	return &Failure{Plugin: p.name, Hook: hook, Kind: kind, Err: err}
}

// appendNulls appends each granted field as null, for the policy Null.
func (p *Plugin) appendNulls(dst []byte) []byte {
	for _, name := range p.grants.Fields {
		if strings.HasSuffix(name, "*") {
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":null`...)
	}
	return dst
}
