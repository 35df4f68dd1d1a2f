package plugin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
	guarded     bool // the wall clock stops its calls
	rules       resultRules
	mask        mask

	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	pool     *pool
}

// Name gives the plugin's name in the configuration.
func (p *Plugin) Name() string { return p.name }

// Hash gives the SHA-256 of the module, in hex.
func (p *Plugin) Hash() string { return p.hash }

// Close ends the plugin: it waits for the calls under way and releases the
// instances. Calls made later fail. If ctx ends first, what the calls still
// use is left alone.
func (p *Plugin) Close(ctx context.Context) error {
	if err := p.pool.close(ctx); err != nil {
		return err
	}
	return p.runtime.Close(ctx)
}

// shape calls the shape hook and appends the members it gives to dst. On a
// failure dst is returned as it was.
func (p *Plugin) shape(ctx context.Context, frame *Frame, dst []byte) ([]byte, *Failure) {
	began := time.Now()
	members, failure := p.checkedOutShape(ctx, frame, dst)
	if failure == nil {
		p.host.observe(p, HookShape, "", began)
		return members, nil
	}
	p.host.observe(p, HookShape, failure.Kind, began)
	if dropped, allowed := p.failed.allow(); allowed {
		p.logger.WarnContext(ctx, "plugin call failed", "hook", HookShape.String(), "kind", string(failure.Kind),
			"on_error", p.policy.String(), "error", failure.Err, "dropped", dropped)
	}
	return dst, failure
}

func (p *Plugin) checkedOutShape(ctx context.Context, frame *Frame, dst []byte) ([]byte, *Failure) {
	in, err := p.pool.take(ctx)
	if err != nil {
		kind := FailureInit
		if errors.Is(err, errPoolExhausted) || errors.Is(err, errPoolClosed) {
			kind = FailurePoolExhausted
		}
		return dst, p.failure(HookShape, kind, err)
	}
	members, failure := in.shape(ctx, frame, dst)
	if in.spoiled {
		p.pool.discard(ctx, in)
	} else {
		p.pool.put(in)
	}
	return members, failure
}

func (p *Plugin) failure(hook Hook, kind FailureKind, err error) *Failure {
	return &Failure{Plugin: p.name, Hook: hook, Kind: kind, Err: err}
}

// appendNulls appends each granted field as null, for the policy Null.
func (p *Plugin) appendNulls(dst []byte) []byte {
	for _, name := range p.rules.fields {
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
