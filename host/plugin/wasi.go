package plugin

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// Error numbers of WASI preview 1.
const (
	errnoSuccess = 0
	errnoBadFile = 8
	errnoFault   = 21
	errnoInvalid = 28
)

// A guest's clock is no clock: it begins at a fixed date and moves one
// millisecond at each reading, so that a runtime that waits for time to pass
// gets on, and no guest learns the time without a grant.
const (
	clockEpoch = 946_684_800_000_000_000 // 2000-01-01 in ns
	clockTick  = 1_000_000               // ns
)

// hostFunction is one import: it reads its arguments from stack and writes
// its result to stack[0].
type hostFunction func(ctx context.Context, in *instance, stack []uint64)

// wasiFunctions are the ten calls of WASI preview 1 that Go's runtime
// imports, with neither files nor sockets behind them, and the five more that
// its package syscall imports: without those no guest could use the packages
// time, fmt or encoding/json.
var wasiFunctions = map[string]hostFunction{
	"args_get":          wasiNothing,
	"args_sizes_get":    wasiNoSizes,
	"environ_get":       wasiNothing,
	"environ_sizes_get": wasiNoSizes,
	"sched_yield":       wasiNothing,
	"clock_time_get":    wasiClock,
	"fd_write":          wasiWrite,
	"poll_oneoff":       wasiPoll,
	"proc_exit":         wasiExit,
	"random_get":        wasiRandom,

	"fd_close":            wasiNoFile,
	"fd_fdstat_get":       wasiNoFile,
	"fd_fdstat_set_flags": wasiNoFile,
	"fd_prestat_get":      wasiNoFile,
	"fd_prestat_dir_name": wasiNoFile,
}

// instantiateImports defines the two modules that a plugin may import from.
func instantiateImports(ctx context.Context, r wazero.Runtime) error {
	wasi := r.NewHostModuleBuilder(wasiModule)
	for name, call := range wasiFunctions {
		define(wasi, name, wasiRules[name], call)
	}
	if _, err := wasi.Instantiate(ctx); err != nil {
		return fmt.Errorf("define %s: %w", wasiModule, err)
	}
	abi := r.NewHostModuleBuilder(importModule)
	for _, rule := range importRules {
		define(abi, rule.name, rule.signature, abiFunctions[rule.name])
	}
	if _, err := abi.Instantiate(ctx); err != nil {
		return fmt.Errorf("define %s: %w", importModule, err)
	}
	return nil
}

func define(module wazero.HostModuleBuilder, name string, s signature, call hostFunction) {
	fuel := fuelOfImport(name)
	module.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		in := ctx.Value(instanceKey{}).(*instance)
		in.charge(fuel)
		call(ctx, in, stack)
	}), valueTypes(s.params), valueTypes(s.results)).Export(name)
}

func wasiNothing(_ context.Context, _ *instance, stack []uint64) {
	// sched_yield has no argument and all three have a result.
	stack[0] = errnoSuccess
}

// wasiNoFile answers what asks about a file: there is no such file.
func wasiNoFile(_ context.Context, _ *instance, stack []uint64) { stack[0] = errnoBadFile }

// wasiNoSizes answers args_sizes_get and environ_sizes_get: none, 0 bytes.
func wasiNoSizes(_ context.Context, in *instance, stack []uint64) {
	count, size := uint32(stack[0]), uint32(stack[1])
	stack[0] = errnoFault
	if in.memory.WriteUint32Le(count, 0) && in.memory.WriteUint32Le(size, 0) {
		stack[0] = errnoSuccess
	}
}

func wasiClock(_ context.Context, in *instance, stack []uint64) {
	const realtime, monotonic = 0, 1
	id, result := uint32(stack[0]), uint32(stack[2])
	in.clock += clockTick
	at := in.clock
	switch id {
	case realtime:
		at += clockEpoch
	case monotonic:
	default:
		stack[0] = errnoInvalid
		return
	}
	stack[0] = errnoFault
	if in.memory.WriteUint64Le(result, at) {
		stack[0] = errnoSuccess
	}
}

// wasiWrite takes output for stderr, at most 2 KiB a call; a guest that has
// more calls again.
func wasiWrite(ctx context.Context, in *instance, stack []uint64) {
	const stderr = 2
	file, vectors, count, result := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if file != stderr {
		stack[0] = errnoBadFile
		return
	}
	if count > maxIovecs {
		stack[0] = errnoInvalid
		return
	}
	stack[0] = errnoFault
	list, inside := in.memory.Read(vectors, count*8)
	if !inside {
		return
	}
	written := 0
	for ; len(list) > 0; list = list[8:] {
		pointer, length := binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:])
		text, inside := in.memory.Read(pointer, length)
		if !inside {
			return
		}
		text = text[:min(len(text), maxLogLine-written)]
		in.charge(hostByteFuel * int64(len(text)))
		taken := in.say(ctx, text)
		written += taken
		if taken < int(length) {
			break
		}
	}
	if in.memory.WriteUint32Le(result, uint32(written)) {
		stack[0] = errnoSuccess
	}
}

// wasiPoll never waits: it moves the guest's clock to the latest time that
// it would have waited for and reports every subscription as ready.
func wasiPoll(_ context.Context, in *instance, stack []uint64) {
	const subscriptionSize, eventSize, clockTag, absolute = 48, 32, 0, 1
	subscriptions, events, count, result := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if count == 0 || count > maxIovecs {
		stack[0] = errnoInvalid
		return
	}
	stack[0] = errnoFault
	asked, inside := in.memory.Read(subscriptions, count*subscriptionSize)
	if !inside {
		return
	}
	ready, inside := in.memory.Read(events, count*eventSize)
	if !inside {
		return
	}
	in.charge(hostByteFuel * int64(len(asked)+len(ready)))
	began := in.clock
	for i := range int(count) {
		var s [subscriptionSize]byte // the two tables may overlap
		copy(s[:], asked[i*subscriptionSize:])
		e := ready[i*eventSize:][:eventSize]
		clear(e)
		copy(e, s[:8]) // userdata
		e[10] = s[8]   // type
		if s[8] != clockTag {
			binary.LittleEndian.PutUint16(e[8:], errnoBadFile)
			continue
		}
		wait := binary.LittleEndian.Uint64(s[24:])
		until := began + wait
		if binary.LittleEndian.Uint16(s[40:])&absolute != 0 {
			until = wait
		}
		// A wait of centuries would leave the clock at its end.
		const century = 100 * 365 * 24 * 3600 * 1_000_000_000
		if until > in.clock && until-began < century {
			in.clock = until
		}
	}
	if in.memory.WriteUint32Le(result, count) {
		stack[0] = errnoSuccess
	}
}

// wasiExit ends the instance: no hook of a plugin exits.
func wasiExit(ctx context.Context, in *instance, stack []uint64) {
	// As on Unix only the low byte counts; wazero gives the highest codes a
	// meaning of its own.
	code := uint32(stack[0]) & 0xff
	// The error would say that the module is closed already.
	_ = in.module.CloseWithExitCode(ctx, code)
	panic(sys.NewExitError(code))
}

// wasiRandom gives numbers that are the same for the same call, so that a
// replay is exact. They are no secret.
func wasiRandom(_ context.Context, in *instance, stack []uint64) {
	pointer, length := uint32(stack[0]), uint32(stack[1])
	if length > maxRandomBytes {
		stack[0] = errnoInvalid
		return
	}
	stack[0] = errnoFault
	buffer, inside := in.memory.Read(pointer, length)
	if !inside {
		return
	}
	in.charge(hostByteFuel * int64(length))
	for len(buffer) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], in.random.Uint64())
		buffer = buffer[copy(buffer, word[:]):]
	}
	stack[0] = errnoSuccess
}
