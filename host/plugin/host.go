package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// Options steer a Host.
type Options struct {
	// CacheDir keeps compiled modules between starts. It holds native code
	// that is run as it is found, so it must belong to this user alone
	// (mode 0700); it is made if it is missing. Empty: in memory only.
	CacheDir string
	// CompileCommand is a program with arguments that calls CompileInChild:
	// modules from files are compiled in such a process, which is limited to
	// 30 s of CPU time and 1 GiB of memory. It needs CacheDir. Empty: they
	// are compiled in this process, and a warning says so.
	CompileCommand []string
	// Logger receives what plugins say and how they fail. Nil: discarded.
	Logger *slog.Logger
	// Reserved are the member names of the wire's own objects, which no
	// plugin may write. ReservedUsage are those of its usage, and
	// ReservedHeaders the server's own response headers in lower case.
	Reserved, ReservedUsage, ReservedHeaders []string
	// Observer is told of every call, from the goroutine that made it. Nil:
	// nobody is.
	Observer func(Call)
	// Sampled is told the values of plugins' metrics, as Observer is. Nil:
	// they are dropped.
	Sampled func(Sample)
	// KV is where plugins remember. Nil: a MemoryKV.
	KV KV
	// Now is the time of day that plugins are shown, and that breakers go by.
	// Nil: that of this machine.
	Now func() time.Time
	// NoBreaker calls plugins however often they fail: a tool wants to know of
	// each failure, and has no requests to protect.
	NoBreaker bool
	// Interpreted runs modules without compiling them: much slower, to the same
	// results. A test compares the two.
	Interpreted bool
}

// Call is one call of a hook, for counters.
type Call struct {
	Plugin   string
	Hook     Hook
	Failure  FailureKind // empty when the call succeeded
	Fuel     int64       // units used; more than the plugin's budget if it ran out
	Duration time.Duration
	Recycled bool // its instance was thrown away
}

// slowCall is how long a call may take before it counts as a failure of its
// plugin. Fuel has ended any call well before that, so the machine is
// overloaded or the plugin's budget is too large.
const slowCall = 50 * time.Millisecond

// Host loads plugins. It owns the compilation cache that they share; each
// plugin has a wazero runtime of its own.
type Host struct {
	logger   *slog.Logger
	observer func(Call)
	sampled  func(Sample)
	kv       KV
	reserved *reservedNames
	cache    wazero.CompilationCache
	compiler *compiler        // nil without a command or a folder
	now      func() time.Time // of the wall clock; tests set it

	slowCall time.Duration // tests shorten it

	noBreaker bool

	runtimeConfig func(wazero.CompilationCache) wazero.RuntimeConfig

	// compiling serialises compilation and the first instantiation of a
	// module: with a shared cache wazero 1.12 publishes a cached module
	// before its entry code exists (its issue 2547).
	compiling sync.Mutex
}

// NewHost opens the compilation cache.
func NewHost(ctx context.Context, options Options) (*Host, error) {
	h := &Host{
		logger:   options.Logger,
		observer: options.Observer,
		sampled:  options.Sampled,
		kv:       options.KV,
		reserved: newReservedNames(&options),
		now:      options.Now,
		slowCall: slowCall,

		noBreaker: options.NoBreaker,

		runtimeConfig: runtimeConfig,
	}
	if options.Interpreted {
		h.runtimeConfig = interpreterConfig
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	if h.kv == nil {
		h.kv = NewMemoryKV()
	}
	if options.CacheDir == "" {
		h.cache = wazero.NewCompilationCache()
		return h, nil
	}
	if err := secureDir(options.CacheDir); err != nil {
		return nil, fmt.Errorf("plugin cache: %w", err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(options.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("plugin cache: %w", err)
	}
	h.cache = cache
	if len(options.CompileCommand) > 0 {
		h.compiler = &compiler{options.CompileCommand, options.CacheDir, defaultCompileLimits}
	}
	return h, nil
}

// Close releases the compilation cache. The plugins are closed before it.
func (h *Host) Close(ctx context.Context) error {
	return h.cache.Close(ctx)
}

// observe reports a call to the observer.
func (h *Host) observe(call Call) {
	if h.observer != nil {
		h.observer(call)
	}
}
