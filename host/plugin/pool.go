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

// makeWait is how long a call waits for an instance whose init is slow: a Go
// runtime starts in some 20 ms. One that takes longer is there for later calls.
const makeWait = 250 * time.Millisecond

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
	// slow says that making one may take so long that a call must not wait for
	// the end of it.
	slow bool
	// permits holds one for each instance that may be taken: size less those
	// that callers hold.
	permits chan struct{}
	closed  chan struct{}

	mu sync.Mutex
	// idle instances, the last used at the end: its memory is still in the
	// processor's caches, so that it is taken first.
	idle []*instance
	// abandoned: the pool was closed before all instances were back. Those that
	// come back later are closed.
	abandoned bool

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
	if p.slow {
		return p.makeAside(ctx)
	}
	in, err := p.make(ctx)
	if err != nil {
		p.permits <- struct{}{}
		return nil, err
	}
	p.instances.Add(1)
	return in, nil
}

// makeAside makes an instance in a goroutine of its own and waits a while for it.
// The goroutine holds the permit until the instance has an owner or is idle, so
// that close waits for it.
func (p *pool) makeAside(ctx context.Context) (*instance, error) {
	type made struct {
		in  *instance
		err error
	}
	handover, gone := make(chan made), make(chan struct{})
	go func() {
		in, err := p.make(context.WithoutCancel(ctx))
		if err == nil {
			p.instances.Add(1)
		}
		select {
		case handover <- made{in, err}:
		case <-gone:
			if err != nil {
				p.permits <- struct{}{}
				return
			}
			p.put(in)
		}
	}()
	timer := time.NewTimer(makeWait)
	defer timer.Stop()
	select {
	case m := <-handover:
		if m.err != nil {
			p.permits <- struct{}{}
			return nil, m.err
		}
		return m.in, nil
	case <-timer.C:
		close(gone)
		return nil, fmt.Errorf("%w: the init of another one has not ended in %v", errPoolExhausted, makeWait)
	case <-p.closed:
		close(gone)
		return nil, errPoolClosed
	}
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
	abandoned := p.abandoned
	if !abandoned {
		p.idle = append(p.idle, in)
	}
	p.mu.Unlock()
	if abandoned {
		p.release(context.Background(), in) // no caller waits for it
	}
	p.permits <- struct{}{}
}

// discard closes an instance and gives its permit back.
func (p *pool) discard(ctx context.Context, in *instance) {
	p.recycled.Add(1)
	p.release(ctx, in)
	p.permits <- struct{}{}
}

// release closes an instance that nobody will take again.
func (p *pool) release(ctx context.Context, in *instance) {
	p.weigh(in, 0)
	p.instances.Add(-1)
	in.close(ctx)
}

// weigh counts the memory of an instance. It seldom changes.
func (p *pool) weigh(in *instance, bytes int64) {
	if bytes != in.weight {
		p.memory.Add(bytes - in.weight)
		in.weight = bytes
	}
}

// close waits until all permits are back and closes the instances. If ctx ends
// first, it closes those that are idle; the others are closed as they come back.
func (p *pool) close(ctx context.Context) error {
	p.closing.Do(func() {
		close(p.closed)
		p.drained = p.drain(ctx)
		p.mu.Lock()
		idle := p.idle
		p.idle, p.abandoned = nil, true
		p.mu.Unlock()
		for _, in := range idle {
			p.release(ctx, in)
		}
	})
	return p.drained
}

// drain waits for all permits.
func (p *pool) drain(ctx context.Context) error {
	for range p.size {
		select {
		case <-p.permits:
		case <-ctx.Done():
			return fmt.Errorf("close plugin: calls are still running: %w", ctx.Err())
		}
	}
	return nil
}
