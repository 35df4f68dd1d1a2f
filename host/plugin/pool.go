package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// checkoutWait is how long a call waits for a free instance: guest calls
// take microseconds, so a longer wait means the guests hang.
const checkoutWait = 5 * time.Millisecond

var (
	errPoolExhausted = errors.New("no free instance")
	errPoolClosed    = errors.New("the plugin is closed")
)

// pool keeps a plugin's idle instances. At most size exist; they are made
// when first needed. A sync.Pool would drop instances at every garbage
// collection, and making one takes a Go guest milliseconds.
type pool struct {
	size int
	make func(context.Context) (*instance, error)
	// permits holds one for each instance that may be taken: size less those
	// that callers hold.
	permits chan struct{}
	closed  chan struct{}

	mu sync.Mutex
	// idle instances, the last used at the end: its memory is still in the
	// processor's caches, so that it is taken first.
	idle []*instance

	closing sync.Once
	drained error // result of the first close

	// What there is, for Plugin.Stats.
	instances atomic.Int64
	memory    atomic.Int64 // bytes of their linear memories
	recycled  atomic.Uint64
}

// newPool makes a pool of GOMAXPROCS + 2 instances: no more calls can run at
// once, and the rest cover goroutines that were descheduled inside one.
func newPool(makeInstance func(context.Context) (*instance, error)) *pool {
	size := runtime.GOMAXPROCS(0) + 2
	p := &pool{
		size:    size,
		make:    makeInstance,
		permits: make(chan struct{}, size),
		closed:  make(chan struct{}),
		idle:    make([]*instance, 0, size),
	}
	for range size {
		p.permits <- struct{}{}
	}
	return p
}

// seed puts the first instance, made at load, into the pool.
func (p *pool) seed(in *instance) {
	<-p.permits
	p.instances.Add(1)
	p.put(in)
}

// take hands out an idle instance, or makes one, or waits a moment.
func (p *pool) take(ctx context.Context) (*instance, error) {
	select {
	case <-p.closed:
		return nil, errPoolClosed
	default:
	}
	select {
	case <-p.permits:
		return p.permitted(ctx)
	default:
	}
	timer := time.NewTimer(checkoutWait)
	defer timer.Stop()
	select {
	case <-p.permits:
		return p.permitted(ctx)
	case <-timer.C:
		return nil, fmt.Errorf("%w of %d in %v", errPoolExhausted, p.size, checkoutWait)
	case <-p.closed:
		return nil, errPoolClosed
	}
}

// permitted finds an instance, or makes one, for a permit that take holds.
func (p *pool) permitted(ctx context.Context) (*instance, error) {
	if in := p.pop(); in != nil {
		return in, nil
	}
	in, err := p.make(ctx)
	if err != nil {
		p.permits <- struct{}{}
		return nil, err
	}
	p.instances.Add(1)
	return in, nil
}

// pop takes the instance that was used last, or nil if none is idle.
func (p *pool) pop() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	in := p.idle[last]
	p.idle = p.idle[:last]
	return in
}

// put returns an instance that is fit for the next call. It lets go of the
// caller's context, which may hold a whole request, of its strings, and of what it
// emitted.
func (p *pool) put(in *instance) {
	in.call, in.requestID, in.attemptID, in.layout = callContext{}, "", "", layout{}
	in.scanner.reset(nil)
	p.weigh(in, int64(in.memory.Size()))
	p.mu.Lock()
	p.idle = append(p.idle, in)
	p.mu.Unlock()
	p.permits <- struct{}{}
}

// discard closes an instance and gives its permit back.
func (p *pool) discard(ctx context.Context, in *instance) {
	p.weigh(in, 0)
	p.instances.Add(-1)
	p.recycled.Add(1)
	in.close(ctx)
	p.permits <- struct{}{}
}

// weigh counts the memory of an instance. It seldom changes.
func (p *pool) weigh(in *instance, bytes int64) {
	if bytes != in.weight {
		p.memory.Add(bytes - in.weight)
		in.weight = bytes
	}
}

// close waits until all permits are back and closes the instances.
func (p *pool) close(ctx context.Context) error {
	p.closing.Do(func() {
		close(p.closed)
		for range p.size {
			select {
			case <-p.permits:
			case <-ctx.Done():
				p.drained = fmt.Errorf("close plugin: calls are still running: %w", ctx.Err())
				return
			}
		}
		for in := p.pop(); in != nil; in = p.pop() {
			in.close(ctx)
		}
	})
	return p.drained
}
