package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmeter/wasmeter/host/plugin/meter"
)

// instance is one instantiated module. It serves one call at a time; whoever
// took it from the pool owns it.
type instance struct {
	plugin *Plugin
	module api.Module
	memory api.Memory
	linear *guestMemory // the same
	mask   mask

	fuel   api.MutableGlobal // what is left of budget; below 0 the guest has trapped
	budget int64

	bufferFunction api.Function
	hooks          [HookFinish + 1]api.Function // by Hook; nil for one the module does not have
	stack          [1]uint64                    // argument and result of a guest call
	weight         int64                        // bytes that the pool counts it with

	// spoiled: a call trapped, exited or was stopped. The guest's state is
	// undefined, so the instance must not be called again.
	spoiled bool

	// State of the call under way, for the host functions.
	call   callContext
	hook   Hook   // 0 in init
	layout layout // of its frame; let go of with the call
	// requestID and attemptID are those of the request, for the log.
	requestID, attemptID string
	// synthetic: the request is made up, so that the call has no effects.
	synthetic bool
	effects   effects
	scanner   jsonScanner // of the records that it emits
	clock     uint64      // ns; moves by itself, see wasi.go
	random    rand.PCG    // reseeded for each call
	said      []byte      // what the guest wrote to stderr in this call
	words     string      // last thing it logged; kept while it starts
}

// callContext hands the instance to the host functions through the context
// that wazero passes along, without allocating a value for each call.
type callContext struct {
	context.Context
	instance *instance
}

type instanceKey struct{}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if _, found := key.(instanceKey); found {
		return c.instance
	}
	return c.Context.Value(key)
}

// instantiate makes an instance and runs its init.
func (p *Plugin) instantiate(ctx context.Context) (*instance, error) {
	// A client that goes away must not cost the pool an instance.
	ctx = context.WithoutCancel(ctx)
	linear, err := newGuestMemory(p.memoryLimit)
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	module, err := p.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, linear), p.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		linear.release()
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	in := &instance{
		plugin:         p,
		module:         module,
		memory:         module.Memory(),
		linear:         linear,
		fuel:           module.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal),
		bufferFunction: module.ExportedFunction(exportBuffer),
	}
	for hook := HookRequest; hook <= HookFinish; hook++ {
		in.hooks[hook] = module.ExportedFunction(hook.export())
	}
	if err := in.init(ctx); err != nil {
		in.close(ctx)
		return nil, err
	}
	if p.isolation == Reset {
		if err := linear.snapshot(); err != nil {
			in.close(ctx)
			return nil, fmt.Errorf("keep the memory as init left it: %w", err)
		}
	}
	return in, nil
}

// renew makes an instance whose call has returned fit for the next one, as
// the plugin's isolation asks. It reports false if it can't.
func (in *instance) renew(ctx context.Context) bool {
	switch in.plugin.isolation {
	case Fresh:
		return false
	case Reset:
		if err := in.linear.reset(); err != nil {
			in.plugin.logger.DebugContext(ctx, "plugin instance not reset", "error", err)
			return false
		}
	}
	return true
}

func (in *instance) init(ctx context.Context) error {
	ctx = in.begin(ctx, in.plugin.startFuel())
	in.random.Seed(0, 0)
	failed := func(what string, err error) error {
		in.flushSaid(ctx)
		if starved := in.outOfFuel(); starved != nil {
			err = starved
		}
		if in.words != "" {
			return fmt.Errorf("%s: %w; it said: %s", what, err, in.words)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	if initialize := in.module.ExportedFunction(exportInitialize); initialize != nil {
		if err := in.invoke(ctx, initialize); err != nil {
			return failed(exportInitialize, err)
		}
	}
	config := in.plugin.config
	buffer, err := in.reserve(ctx, len(config))
	if err != nil {
		return failed("init", err)
	}
	copy(buffer, config)
	in.stack[0] = uint64(len(config))
	if err := in.invoke(ctx, in.module.ExportedFunction(exportInit)); err != nil {
		return failed("init", err)
	}
	result := int32(in.stack[0])
	if result < 0 {
		return failed("init", fmt.Errorf("the plugin refused its configuration with %d", result))
	}
	in.mask = mask(result)
	if in.plugin.pool != nil && in.mask != in.plugin.mask {
		return fmt.Errorf("init returned the mask %#x, and %#x in the first instance; it must depend on the configuration alone", result, uint32(in.plugin.mask))
	}
	in.flushSaid(ctx)
	in.words = ""
	return nil
}

// run calls a hook on frame and adds what it answers to into.
func (in *instance) run(ctx context.Context, hook Hook, frame *Frame, into *result) *Failure {
	ctx = in.begin(ctx, in.plugin.fuel)
	in.random.Seed(frame.ArrivalUnixNS, frame.RecordSeq)
	in.linear.refused = false
	in.hook, in.synthetic = hook, frame.Flags&FlagSynthetic != 0
	in.requestID, in.attemptID = frame.RequestID, frame.AttemptID
	in.effects.reset()

	frame.layout(hook.parts(in.mask), &in.layout)
	buffer, err := in.reserve(ctx, in.layout.size)
	if err != nil {
		return in.classify(ctx, hook, err)
	}
	frame.write(buffer, hook, &in.layout)
	in.stack[0] = uint64(in.layout.size)
	if err := in.invoke(ctx, in.hooks[hook]); err != nil {
		return in.classify(ctx, hook, err)
	}
	in.flushSaid(ctx)

	if err := in.answer(hook, frame, into); err != nil {
		kind := FailureBadResult
		if errors.Is(err, ErrNotGranted) {
			kind = FailureDeniedKey
		}
		return in.plugin.failure(hook, kind, err)
	}
	in.settle(into)
	return nil
}

// answer reads what the hook returned.
func (in *instance) answer(hook Hook, frame *Frame, into *result) error {
	into.carried = false
	if hook == HookFinish {
		if status := int32(in.stack[0]); status != 0 {
			return fmt.Errorf("finish returned %d; 0 is success", status)
		}
		return nil
	}
	if in.stack[0] == 0 {
		return nil
	}
	// The result stays a view of guest memory: no guest code runs until what
	// it says is copied.
	pointer, length := uint32(in.stack[0]>>32), uint32(in.stack[0])
	text, inside := in.memory.Read(pointer, length)
	if !inside {
		return fmt.Errorf("result at %d, %d bytes, is outside the memory of %d bytes", pointer, length, in.memory.Size())
	}
	return in.plugin.rules.read(hook, text, frame.Document, into)
}

// begin prepares the context of a call and gives it its fuel.
func (in *instance) begin(ctx context.Context, fuel int64) context.Context {
	in.refuel(fuel)
	in.call = callContext{Context: ctx, instance: in}
	return &in.call
}

// errRefused is a guest that gives no buffer.
var errRefused = errors.New("it gives no buffer")

// reserve asks the guest for a buffer of size bytes and gives a view of it.
func (in *instance) reserve(ctx context.Context, size int) ([]byte, error) {
	in.stack[0] = uint64(size)
	if err := in.invoke(ctx, in.bufferFunction); err != nil {
		return nil, err
	}
	pointer := uint32(in.stack[0])
	if pointer == 0 {
		return nil, fmt.Errorf("%w for %d bytes", errRefused, size)
	}
	buffer, inside := in.memory.Read(pointer, uint32(size))
	if !inside || pointer%8 != 0 {
		return nil, fmt.Errorf("%s gave %d for %d bytes; it gives an 8-aligned address inside the memory of %d bytes", exportBuffer, pointer, size, in.memory.Size())
	}
	return buffer[:size:size], nil
}

// invoke calls a guest function with in.stack as its argument and result.
func (in *instance) invoke(ctx context.Context, function api.Function) error {
	if err := function.CallWithStack(ctx, in.stack[:]); err != nil {
		in.spoiled = true
		return &guestError{err}
	}
	if int64(in.fuel.Get()) < 0 { // the guest's own looks may be rarer than its charges
		in.spoiled = true
		return &guestError{errOutOfFuel}
	}
	return nil
}

// guestError is a call that did not return.
type guestError struct{ cause error }

// Error leaves out wazero's stack trace, which names functions of the guest
// and fills many lines.
func (e *guestError) Error() string {
	line, _, _ := strings.Cut(e.cause.Error(), "\n")
	return strings.TrimSuffix(line, " (recovered by wazero)")
}

func (e *guestError) Unwrap() error { return e.cause }

// classify gives the failure of a call whose guest functions failed.
func (in *instance) classify(ctx context.Context, hook Hook, err error) *Failure {
	in.flushSaid(ctx)
	kind := FailureTrap
	switch stopped := (*guestError)(nil); {
	case errors.Is(err, errRefused):
		in.spoiled = true // it may have no room for the next call either
		kind = FailureMemory
	case !errors.As(err, &stopped):
		kind = FailureBadResult // the address of its buffer
	case in.outOfFuel() != nil:
		kind = FailureOutOfFuel
		err = fmt.Errorf("%w; it loops, or it does more in a call than its fuel in the configuration is for", in.outOfFuel())
	case in.linear.refused:
		kind = FailureMemory
	}
	return in.plugin.failure(hook, kind, err)
}

// close releases the instance. Its error is of no use: the memory goes
// whether or not the module ended well.
func (in *instance) close(ctx context.Context) {
	_ = in.module.Close(ctx)
	in.linear.release()
}
