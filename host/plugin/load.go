package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"github.com/wasmeter/wasmeter/host/plugin/meter"
)

// Load reads, checks, compiles and initialises a plugin. Every fault that
// can be seen before running it is in the error.
func (h *Host) Load(ctx context.Context, spec Spec) (*Plugin, error) {
	p, err := h.load(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("plugin %q: %w", spec.Name, err)
	}
	return p, nil
}

func (h *Host) load(ctx context.Context, spec Spec) (*Plugin, error) {
	if err := spec.validate(h.reserved); err != nil {
		return nil, err
	}
	wasm := spec.Wasm
	if spec.Path != "" {
		var err error
		if wasm, err = readModule(spec.Path); err != nil {
			return nil, err
		}
	}
	digest := sha256.Sum256(wasm)
	hash := hex.EncodeToString(digest[:])
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, hash) {
		return nil, fmt.Errorf("the module has sha256 %s, the configuration pins %s; restore the file or, if the change is meant, pin the new hash", hash, strings.ToLower(spec.SHA256))
	}
	if err := checkModule(wasm, spec.memoryLimit(), &spec.Grants); err != nil {
		return nil, fmt.Errorf("module refused: %w", err)
	}
	config := spec.Config
	if len(config) == 0 {
		config = []byte("{}")
	}
	metered, err := meter.Rewrite(wasm)
	if err != nil {
		return nil, fmt.Errorf("module refused: %w", err)
	}
	if spec.Path != "" {
		if err := h.compileApart(ctx, spec.Name, metered); err != nil {
			return nil, err
		}
	}
	p := &Plugin{
		name:        spec.Name,
		hash:        hash,
		host:        h,
		logger:      h.logger.With("plugin", spec.Name),
		spoken:      newLineLimiter(),
		failed:      newLineLimiter(),
		config:      config,
		memoryLimit: uint64(spec.memoryLimit()),
		policy:      spec.OnError,
		override:    spec.Override,
		fuel:        spec.fuel(),
		grants:      spec.Grants,
		metrics:     slices.Clone(spec.Metrics),
		isolation:   spec.Isolation,
		breaker:     &breaker{now: h.now, never: h.noBreaker},
		stopped:     new(atomic.Bool),
		runtime:     wazero.NewRuntimeWithConfig(ctx, h.runtimeConfig(h.cache)),
	}
	p.rules = resultRules{grants: &p.grants, reserved: h.reserved}
	if err := p.start(ctx, metered); err != nil {
		closeErr := p.runtime.Close(ctx)
		if p.compiled != nil {
			closeErr = errors.Join(closeErr, p.compiled.Close(ctx))
		}
		if closeErr != nil {
			return nil, fmt.Errorf("%w (and closing it: %w)", err, closeErr)
		}
		return nil, err
	}
	return p, nil
}

// compileApart compiles a module that is not trusted where it can do no harm.
func (h *Host) compileApart(ctx context.Context, name string, wasm []byte) error {
	if h.compiler == nil {
		h.logger.WarnContext(ctx, "plugin is compiled inside the server, without limits: there is no compiler command or no cache folder", "plugin", name)
		return nil
	}
	return h.compiler.compile(ctx, wasm)
}

// start compiles the module, makes its first instance and fills the pool
// with it.
func (p *Plugin) start(ctx context.Context, wasm []byte) error {
	p.host.compiling.Lock()
	defer p.host.compiling.Unlock()

	if err := instantiateImports(ctx, p.runtime); err != nil {
		return err
	}
	var err error
	if p.compiled, err = p.runtime.CompileModule(ctx, wasm); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	first, err := p.instantiate(ctx)
	if err != nil {
		return err
	}
	if err := p.checkMask(first); err != nil {
		first.close(ctx)
		return err
	}
	p.mask, p.startSpent = first.mask, first.spent()
	p.pool = newPool(p.instantiate)
	p.pool.slow = p.startSpent > quickStart
	p.pool.seed(first)
	return nil
}

// checkMask refuses what the first instance expects in vain.
func (p *Plugin) checkMask(first *instance) error {
	m := first.mask
	if unknown := m &^ maskKnown; unknown != 0 {
		return fmt.Errorf("init returned the mask %#x; bits %#x are not of ABI v1", uint32(m), uint32(unknown))
	}
	for hook := HookRequest; hook <= HookFinish; hook++ {
		if m&hook.bit() != 0 && first.hooks[hook] == nil {
			return fmt.Errorf("init sets the bit of hook %s, and the module does not export %q", hook, hook.export())
		}
	}
	g := &p.grants
	for _, needed := range []struct {
		bit     mask
		what    string
		granted bool
		key     string
	}{
		{maskRequestBody, "the request document", g.ReadRequest, "read.request"},
		{maskResponseBody, "the response document", g.ReadResponse, "read.response"},
		{maskChunk, "hook chunk", g.ReadResponse, "read.response"},
		{maskChunk, "hook chunk", g.Rewrite, "rewrite"},
	} {
		if m&needed.bit != 0 && !needed.granted {
			return denied("init asks for %s, which needs the configuration key grants.%s: true; set it if the plugin may do that", needed.what, needed.key)
		}
	}
	return nil
}

// readModule reads a module's file without trusting its size.
func readModule(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	wasm, err := io.ReadAll(io.LimitReader(file, maxModuleBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return wasm, nil
}
