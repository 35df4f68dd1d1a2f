package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options steer the engine. Zero values are filled by Default; Validate says
// what is wrong with the rest.
type Options struct {
	// MaxNumSeqs bounds the sequences that run at once. Default 64, 1 … 65536.
	MaxNumSeqs int
	// MaxNumBatchedTokens is the token budget of a step: the rows computed at
	// once. It bounds the time between two tokens while prompts are computed.
	// Default 512, 1 … the backend's largest batch.
	MaxNumBatchedTokens int
	// ITLTarget is the time between two tokens that steps are kept near while
	// prompts are computed beside sequences that decode: fewer prompt tokens join a
	// step when it would take longer, and never less than 32. 0 … 1 minute; 0
	// leaves it to MaxNumBatchedTokens. Default 200 ms.
	ITLTarget time.Duration
	// MaxModelLen bounds prompt and output of one sequence together, in tokens.
	// 0 takes the model's context, cut to what the KV cache holds.
	MaxModelLen int
	// BlockSize is the number of positions of a KV block. A power of two,
	// 8 … 256; default 16.
	BlockSize int
	// KVCacheMemory bounds the memory for keys and values, in bytes. Default 1 GiB; on
	// a GPU, what engine.gpu_memory_utilization leaves of its memory. A GPU's is taken
	// at once, the machine's as sequences need it.
	KVCacheMemory int64
	// PrefixCaching keeps the keys and values of ended sequences, as long as
	// nobody else needs the memory, for those that begin alike. Of the machine's
	// memory that is what sequences have needed so far, a block for each of
	// MaxNumSeqs, and more when texts come again that it was too little for. Default
	// true.
	PrefixCaching bool
	// SchedulingPolicy is who comes first when there is not room for all:
	// PolicyFCFS, who came first; PolicyPriority, who has the lower priority, even
	// if others run already, and of equals who came first. Default PolicyFCFS.
	SchedulingPolicy string
	// Speculative guesses tokens that are checked several at a time.
	Speculative Speculative
	// MaxQueuedRequests and MaxQueuedTokens bound what waits: sequences, and
	// their prompt tokens. Defaults 1024 and 0; 0 is no bound.
	MaxQueuedRequests, MaxQueuedTokens int
	// Listener observes the engine.
	Listener Listener
	// Now is the monotonic clock; its readings are positive and never fall.
	// Default: time since the process started.
	Now func() time.Duration
	// Logger takes warnings and errors. Default: nowhere.
	Logger *slog.Logger
}

// The values of Options.SchedulingPolicy, in vLLM's words.
const (
	PolicyFCFS     = "fcfs"
	PolicyPriority = "priority"
)

// Default are the options that need no thought.
func Default() Options {
	return Options{
		MaxNumSeqs:          64,
		MaxNumBatchedTokens: 512,
		ITLTarget:           200 * time.Millisecond,
		BlockSize:           16,
		KVCacheMemory:       1 << 30,
		PrefixCaching:       true,
		SchedulingPolicy:    PolicyFCFS,
		Speculative:         Speculative{Method: SpeculativeNone, NumTokens: 8, NgramMin: 2, NgramMax: 8},
		MaxQueuedRequests:   1024,
	}
}

// Validate collects every fault.
func (o Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.MaxNumSeqs >= 1 && o.MaxNumSeqs <= 1<<16, "max_num_seqs: %d is not in 1 … 65536", o.MaxNumSeqs)
	check(o.MaxNumBatchedTokens >= 1 && o.MaxNumBatchedTokens <= 1<<20, "max_num_batched_tokens: %d is not in 1 … 1048576", o.MaxNumBatchedTokens)
	check(o.ITLTarget >= 0 && o.ITLTarget <= time.Minute, "itl_target: %s is not in 0s … 1m; 0s is no target", o.ITLTarget)
	check(o.MaxModelLen >= 0, "max_model_len: %d is negative; use 0 for the model's own", o.MaxModelLen)
	check(o.BlockSize >= 8 && o.BlockSize <= 256 && o.BlockSize&(o.BlockSize-1) == 0, "block_size: %d is not a power of two in 8 … 256; use 16 or 32", o.BlockSize)
	check(o.KVCacheMemory > 0, "kv_cache_memory: %d bytes is not positive", o.KVCacheMemory)
	check(o.SchedulingPolicy == PolicyFCFS || o.SchedulingPolicy == PolicyPriority, "scheduling_policy: %q is not one of fcfs, priority", o.SchedulingPolicy)
	check(o.MaxQueuedRequests >= 0, "max_queued_requests: %d is negative; use 0 for no bound", o.MaxQueuedRequests)
	check(o.MaxQueuedTokens >= 0, "max_queued_tokens: %d is negative; use 0 for no bound", o.MaxQueuedTokens)
	return errors.Join(append(faults, o.Speculative.faults()...)...)
}

// processStart is the origin of the default clock, one second back so that
// every reading is positive.
var processStart = time.Now().Add(-time.Second)

// monotonic is the default clock.
func monotonic() time.Duration { return time.Since(processStart) }
