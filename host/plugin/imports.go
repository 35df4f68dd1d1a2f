package plugin

import (
	"context"
	"errors"
	"math"
	"time"
)

// Errors of the imports, as guests see them.
const (
	errorAbsent      int32 = -1
	errorDenied      int32 = -2
	errorTooLarge    int32 = -3
	errorBadPointer  int32 = -4
	errorQuota       int32 = -5
	errorUnavailable int32 = -6
)

// abiFunctions are the functions of module wasmeter_v1. A module that imports
// one without its grant was refused at load.
var abiFunctions = map[string]hostFunction{
	"log": func(ctx context.Context, in *instance, stack []uint64) {
		level := min(uint32(stack[0]), uint32(len(logLevels)-1))
		if text, inside := in.memory.Read(uint32(stack[1]), min(uint32(stack[2]), maxLogLine)); inside {
			in.log(ctx, logLevels[level], text)
		}
	},
	"emit": func(_ context.Context, in *instance, stack []uint64) {
		kind, result := int32(stack[0]), errorBadPointer
		if data, inside := in.memory.Read(uint32(stack[1]), uint32(stack[2])); inside {
			result = in.emit(kind, data)
		}
		stack[0] = uint64(uint32(result))
	},
	"metric_add": func(_ context.Context, in *instance, stack []uint64) {
		stack[0] = uint64(uint32(in.sample(Counter, uint32(stack[0]), uint32(stack[1]), math.Float64frombits(stack[2]))))
	},
	"metric_observe": func(_ context.Context, in *instance, stack []uint64) {
		stack[0] = uint64(uint32(in.sample(Histogram, uint32(stack[0]), uint32(stack[1]), math.Float64frombits(stack[2]))))
	},
	"kv_get": kvGet,
	"kv_set": kvSet,
	"kv_add": kvAdd,
	"now_unix_ns": func(_ context.Context, in *instance, stack []uint64) {
		if in.effects.clock == 0 {
			in.effects.clock = in.plugin.host.now().UnixNano()
		}
		stack[0] = uint64(in.effects.clock)
	},
}

// kvGet writes as much of the value as the guest's buffer takes, and tells
// its whole length.
func kvGet(_ context.Context, in *instance, stack []uint64) {
	result := errorBadPointer
	defer func() { stack[0] = uint64(uint32(result)) }()
	key, keyInside := in.memory.Read(uint32(stack[0]), uint32(stack[1]))
	buffer, bufferInside := in.memory.Read(uint32(stack[2]), uint32(stack[3]))
	if !keyInside || !bufferInside {
		return
	}
	value, found, err := in.read(key)
	switch {
	case err != nil:
		result = errorOf(err)
	case !found:
		result = errorAbsent
	default:
		copy(buffer, value)
		result = int32(len(value))
	}
}

func kvSet(_ context.Context, in *instance, stack []uint64) {
	result := errorBadPointer
	defer func() { stack[0] = uint64(uint32(result)) }()
	key, keyInside := in.memory.Read(uint32(stack[0]), uint32(stack[1]))
	value, valueInside := in.memory.Read(uint32(stack[2]), uint32(stack[3]))
	if !keyInside || !valueInside {
		return
	}
	result = errorOf(in.set(key, value, seconds(stack[4])))
}

// kvAdd has its errors far below any sum.
func kvAdd(_ context.Context, in *instance, stack []uint64) {
	code := func(e int32) int64 { return math.MinInt64 - int64(e) }
	result := code(errorBadPointer)
	defer func() { stack[0] = uint64(result) }()
	key, inside := in.memory.Read(uint32(stack[0]), uint32(stack[1]))
	if !inside {
		return
	}
	sum, err := in.add(key, int64(stack[2]), seconds(stack[3]))
	if result = sum; err != nil {
		result = code(errorOf(err))
	}
}

// seconds reads a time to live: an unsigned number of seconds.
func seconds(v uint64) time.Duration { return time.Duration(uint32(v)) * time.Second }

// errorOf gives the code of an error of the key-value store, 0 for none.
func errorOf(err error) int32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTooLarge), errors.Is(err, ErrOverflow):
		return errorTooLarge
	case errors.Is(err, ErrQuota):
		return errorQuota
	case errors.Is(err, ErrNotCounter):
		return errorDenied
	}
	return errorUnavailable
}
