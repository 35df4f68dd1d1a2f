// Package cpu is the backend that computes on the host's processor. Its kernels
// are those of kernels/cpu; here are the weights in their layout, the paged
// cache, and the threads that share the work.
//
// The result of a row depends on that row's inputs alone, bit for bit: not on
// the other rows of the batch, nor on how a prompt was cut into steps, nor on
// the number of threads. The kernels give each element a fixed order of
// operations, and attention has a fixed split of the positions (attention.go).
package cpu

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Options steer the backend.
type Options struct {
	// Threads is the number of threads that compute, the caller's included.
	// 0: GOMAXPROCS, which honours the CPU limit of a container. More than that
	// make every step slower, because they wait for each other.
	Threads int
	// Level names the instructions to use, as kernels/cpu.ParseLevel reads it.
	// Empty: the machine's best.
	Level string
	// MaxRows is the largest number of rows of a batch. 0: 512.
	MaxRows int
	// KVType is how keys and values are stored, KVF16 or KVQ8. Empty: KVF16.
	KVType string
	// Logger gets warnings. Nil: nobody does.
	Logger *slog.Logger
}

// The largest options that can be meant.
const (
	maxThreads = 1024
	maxMaxRows = 1 << 16
)

// Validate reports every option that cannot be.
func (o Options) Validate() error {
	var faults []error
	if o.Threads < 0 || o.Threads > maxThreads {
		faults = append(faults, fmt.Errorf("threads: %d is not between 0 and %d; 0 takes the free cores", o.Threads, maxThreads))
	}
	if o.MaxRows < 0 || o.MaxRows > maxMaxRows {
		faults = append(faults, fmt.Errorf("max rows: %d is not between 0 and %d; 0 takes 512", o.MaxRows, maxMaxRows))
	}
	if o.KVType != "" && o.KVType != KVF16 && o.KVType != KVQ8 {
		faults = append(faults, fmt.Errorf("cache type: %q is not one of %s, %s", o.KVType, KVF16, KVQ8))
	}
	if o.Level != "" {
		if _, err := kernels.ParseLevel(o.Level); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// withDefaults fills the zero values.
func (o Options) withDefaults() Options {
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Level == "" {
		o.Level = kernels.Best().String()
	}
	if o.MaxRows == 0 {
		o.MaxRows = 512
	}
	if o.KVType == "" {
		o.KVType = KVF16
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Backend implements backend.Backend. It is owned by one goroutine; its threads
// run only inside the methods' calls.
type Backend struct {
	ops     *kernels.Ops
	workers *workers
	maxRows int
	kvType  string
	memory  memory // of weights and caches
	system  fs.FS  // where the system says what memory there is
	closed  bool

	// The step: set by Begin, read until Sync.
	batch *backend.Batch
	err   error // the first

	// Space that the operations share, as large as the widest weight asks.
	branch  []float32 // a product before it is added or gated [rows, rows of the weight]
	sampled tensor    // the rows whose logits are wanted [len(Sample), cols]
	logits  []float32 // [len(Sample), vocab]
	angles  []angles  // of the step's positions, for each rope
	tiles   []tile    // the step's rows, cut for attention
	parts   []float32 // partial attention, if a sequence is shared by threads

	// The tasks, kept so that a phase does not allocate.
	embedTask    embedTask
	normTask     normTask
	addNormTask  addNormTask
	rotateTask   rotateTask
	storeTask    storeTask
	quantizeTask quantizeTask
	productTask  productTask
	attendTask   attendTask
	shareTask    shareTask
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Sharer  = (*Backend)(nil)
)

// New makes a backend; Close ends its threads.
func New(o Options) (*Backend, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("cpu backend: %w", err)
	}
	o = o.withDefaults()
	level, err := kernels.ParseLevel(o.Level)
	if err != nil {
		return nil, fmt.Errorf("cpu backend: %w", err)
	}
	ops, err := kernels.Select(level)
	if err != nil {
		return nil, fmt.Errorf("cpu backend: %w", err)
	}
	if free := runtime.GOMAXPROCS(0); o.Threads > free {
		o.Logger.Warn("more threads than cores: steps will be slower than with fewer", "threads", o.Threads, "cores", free)
	}
	return &Backend{ops: ops, workers: newWorkers(ops, o.Threads), maxRows: o.MaxRows, kvType: o.KVType, system: os.DirFS("/")}, nil
}

// scratch is a thread's own space. It is sized between phases.
type scratch struct {
	thread int                                     // which one's
	row    []float32                               // the norm of a row, or a padded head
	tail   [tailTokens * kernels.GroupRows]float32 // the products of a partial group

	quants []int8         // one row of keys or values, quantised
	meta   []kernels.Meta // alike

	attention attentionScratch
}

// Name implements backend.Backend.
func (b *Backend) Name() string {
	threads := "1 thread"
	if n := len(b.workers.scratch); n > 1 {
		threads = fmt.Sprintf("%d threads", n)
	}
	return fmt.Sprintf("cpu %s, %s", b.ops.Level(), threads)
}

// MaxRows implements backend.Backend.
func (b *Backend) MaxRows() int { return b.maxRows }

// Begin implements backend.Backend.
func (b *Backend) Begin(batch *backend.Batch) {
	if batch.Rows() > b.maxRows {
		panic(fmt.Sprintf("cpu backend: batch of %d rows, at most %d are allowed", batch.Rows(), b.maxRows))
	}
	b.batch, b.err = batch, nil
	for i := range b.angles {
		b.angles[i].valid = false
	}
	b.cutTiles()
}

// Sync implements backend.Backend. Every operation is done when it returns, so
// there is nothing to wait for.
func (b *Backend) Sync() error { return b.err }

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.workers.close()
	return b.memory.release()
}

// grow returns a slice of at least n elements, with x's storage if it suffices.
// The contents are not kept.
func grow[T any](x []T, n int) []T {
	if n <= cap(x) {
		return x[:n]
	}
	return make([]T, n, n+n/4)
}
