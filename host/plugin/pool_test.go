package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestPoolExhausted(t *testing.T) {
	b := newBench(t)
	p := b.mustLoad(t, goodGuest(`{"fields":{"x_test":1}}`))
	var held []*instance
	for range p.pool.size {
		in, err := p.pool.take(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, in)
	}
	_, err := shape(t, p)
	var failure *Failure
	if !errors.As(err, &failure) || failure.Kind != FailurePoolExhausted || !errors.Is(err, errPoolExhausted) {
		t.Errorf("all instances are taken: got %v, want pool_exhausted", err)
	}
	for _, in := range held {
		p.pool.put(in)
	}
	if got, err := shape(t, p); got != `"x_test":1` || err != nil {
		t.Errorf("instances are back: got %s, %v", got, err)
	}
}

func TestPoolIsFilledLazily(t *testing.T) {
	p := newBench(t).mustLoad(t, goodGuest(`{}`))
	for range 3 * p.pool.size {
		if _, err := shape(t, p); err != nil {
			t.Fatal(err)
		}
	}
	if made := len(p.pool.idle); made != 1 {
		t.Errorf("%d instances for calls one after the other, want 1", made)
	}
}

func TestStats(t *testing.T) {
	for _, c := range []struct {
		name string
		body []byte
		spec func(*Spec)
		want Stats
	}{
		{"sound", opI64(0), func(*Spec) {}, Stats{1, 2 * wasmPage, 0, BreakerClosed}},
		{"grows", code(opI32(1), opGrow(), opDrop, opI64(0)), func(*Spec) {}, Stats{1, 6 * wasmPage, 0, BreakerClosed}},
		{"traps", opUnreachable, func(*Spec) {}, Stats{0, 0, 4, BreakerClosed}},
		{"fresh", opI64(0), func(s *Spec) { s.Isolation = Fresh }, Stats{0, 0, 4, BreakerClosed}},
	} {
		p := newBench(t).mustLoad(t, goodGuest("").with(exportShape, c.body), c.spec, func(s *Spec) { s.OnError = Open })
		for range 4 {
			if _, err := shape(t, p); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Stats(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestCloseWaitsForCalls(t *testing.T) {
	p, err := newBench(t).Load(context.Background(), Spec{Name: "test", Wasm: goodGuest(`{}`).assemble()})
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.pool.take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- p.Close(context.Background()) }()
	<-p.pool.closed
	select {
	case err := <-closed:
		t.Fatalf("closed with a call under way: %v", err)
	default:
	}
	p.pool.put(in)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if failure := p.call(context.Background(), HookShape, &Frame{}, new(result)); failure == nil || !errors.Is(failure, errPoolClosed) {
		t.Errorf("a call after the end: got %v, want %v", failure, errPoolClosed)
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	p, err := newBench(t).Load(context.Background(), Spec{Name: "test", Wasm: goodGuest(`{}`).assemble()})
	if err != nil {
		t.Fatal(err)
	}
	var held []*instance
	for range 3 {
		in, err := p.pool.take(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, in)
	}
	p.pool.put(held[0])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "calls are still running") {
		t.Errorf("got %v, want the context's end", err)
	}
	// The idle instance is closed; the others are as they come back, well or not.
	if got := p.Stats(); got.Instances != 2 || !held[0].module.IsClosed() {
		t.Errorf("%d instances with two calls under way, want 2; idle one closed: %v", got.Instances, held[0].module.IsClosed())
	}
	p.pool.put(held[1])
	p.pool.discard(context.Background(), held[2])
	if got := p.Stats(); got.Instances != 0 || got.MemoryBytes != 0 {
		t.Errorf("all calls have ended: %d instances of %d bytes, want none", got.Instances, got.MemoryBytes)
	}
	for i, in := range held {
		if !in.module.IsClosed() {
			t.Errorf("instance %d is not closed", i)
		}
	}
}

// A guest whose first init is slow may make its later ones last much longer, as
// long as its fuel allows. A request does not wait for that, and what was made is
// there for later ones.
func TestSlowInitIsNotWaitedFor(t *testing.T) {
	p := newBench(t).mustLoad(t, goodGuest(`{}`))
	first, err := p.pool.take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	instantiate, end, begun := p.pool.make, make(chan struct{}), make(chan struct{}, 2)
	p.pool.slow = true
	p.pool.make = func(ctx context.Context) (*instance, error) {
		begun <- struct{}{}
		<-end
		return instantiate(ctx)
	}
	if _, err := shape(t, p); failureOf(t, err) != FailurePoolExhausted || !strings.Contains(err.Error(), "init") {
		t.Errorf("while an init runs: got %v, want pool_exhausted and why", err)
	}
	<-begun
	close(end)
	p.pool.put(first)
	for range p.pool.size { // the permit of the instance that is made comes back last
		<-p.pool.permits
	}
	for range p.pool.size {
		p.pool.permits <- struct{}{}
	}
	if got := p.Stats().Instances; got != 2 || len(p.pool.idle) != 2 {
		t.Errorf("%d instances, %d idle, want the one that was made beside the first", got, len(p.pool.idle))
	}
	if _, err := shape(t, p); err != nil {
		t.Errorf("with an idle instance: %v", err)
	}
	if len(begun) > 0 {
		t.Error("another instance was made though one was idle")
	}
}

// A guest decides by the fuel of its first init whether requests may wait for
// those of others.
func TestSlowStartIsMadeAside(t *testing.T) {
	for name, turns := range map[string]int32{"quick": 1, "slow": 4_000_000} {
		spin := code( // memory[0] counts down from turns
			opI32(0), opI32(turns), []byte{0x36, 0x02, 0x00},
			[]byte{0x03, 0x40}, opI32(0), opI32(0), []byte{0x28, 0x02, 0x00}, opI32(1), []byte{0x6b, 0x36, 0x02, 0x00},
			opI32(0), []byte{0x28, 0x02, 0x00, 0x0d, 0x00, 0x0b}, opI32(int32(maskShape)))
		p := newBench(t).mustLoad(t, goodGuest(`{}`).with(exportInit, spin))
		if p.pool.slow != (name == "slow") {
			t.Errorf("%s: an init of %d units is slow: %v", name, p.startSpent, p.pool.slow)
		}
		held, err := p.pool.take(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shape(t, p); err != nil { // needs a second instance
			t.Errorf("%s: %v", name, err)
		}
		p.pool.put(held)
	}
}

// Many goroutines share one plugin whose guest traps in every third call of
// an instance; each answer is whole or a trap, and no permit is lost.
func TestConcurrentCalls(t *testing.T) {
	load, store := []byte{0x28, 0x02, 0x00}, []byte{0x36, 0x02, 0x00}
	const answer = `{"fields":{"x_test":{"a":[1,2,3]}}}`
	const want = `"x_test":{"a":[1,2,3]}`
	g := goodGuest(answer).with(exportShape, code(
		opI32(0), opI32(0), load, opI32(1), []byte{0x6a}, store, // memory[0]++
		opI32(0), load, opI32(3), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}, // if memory[0] == 3, unreachable
		opI64(int64(guestResultAt)<<32|int64(len(answer)))))
	for name, spec := range map[string]func(*Spec){
		"from a file": func(*Spec) {},
		"built in":    func(s *Spec) { s.Path, s.Wasm = "", g.assemble() },
	} {
		t.Run(name, func(t *testing.T) {
			host, err := NewHost(context.Background(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = host.Close(context.Background()) })
			p := (&bench{Host: host}).mustLoad(t, g, spec)
			const goroutines, callsEach = 8, 60
			faults := make(chan error, goroutines*callsEach)
			traps := make(chan struct{}, goroutines*callsEach)
			var running sync.WaitGroup
			for worker := range goroutines {
				running.Go(func() {
					frame := &Frame{PromptTokens: uint32(worker)}
					var into result
					for range callsEach {
						into.begin()
						// Past the breaker, which would leave such a guest alone.
						failure := p.checkedOutCall(context.Background(), frame, &into, &Call{Hook: HookShape})
						switch {
						case failure == nil && string(into.members) == want:
						case failure != nil && failure.Kind == FailureTrap:
							traps <- struct{}{}
						case failure != nil && failure.Kind == FailurePoolExhausted:
						default:
							faults <- fmt.Errorf("got %s, %w; want %s or a trap", into.members, failure, want)
						}
					}
				})
			}
			running.Wait()
			close(faults)
			for err := range faults {
				t.Error(err)
			}
			if len(traps) == 0 {
				t.Error("no call trapped; the guest is wrong")
			}
			if free := len(p.pool.permits); free != p.pool.size {
				t.Errorf("%d of %d permits are free", free, p.pool.size)
			}
		})
	}
}

// Several plugins load at once through one compilation cache on disk; see
// Host.compiling.
func TestConcurrentLoads(t *testing.T) {
	dir := t.TempDir() + "/cache"
	wasm := goodGuest(`{"fields":{"x_test":1}}`).assemble()
	for round := range 3 { // compiled first, read from the cache afterwards
		host, err := NewHost(context.Background(), Options{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		for range 6 {
			running.Go(func() {
				p, err := host.Load(context.Background(), Spec{Name: "test", Wasm: wasm, Grants: Grants{Fields: []string{"x_test"}}})
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				var into result
				if failure := p.call(context.Background(), HookShape, &Frame{}, &into); failure != nil || string(into.members) != `"x_test":1` {
					t.Errorf("round %d: got %s, %v", round, into.members, failure)
				}
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestShapeAllocatesNothing(t *testing.T) {
	host, err := NewHost(context.Background(), Options{Observer: func(Call) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	var plugins []*Plugin
	for _, name := range []string{"x_a", "x_b"} {
		p, err := host.Load(context.Background(), Spec{
			Name: name, Wasm: goodGuest(`{"fields":{"` + name + `":{"n":1.5}}}`).assemble(), Grants: Grants{Fields: []string{name}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close(context.Background()) })
		plugins = append(plugins, p)
	}
	chain, err := NewChain(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, frame, state := context.Background(), fullFrame(), new(State)
	if n := testing.AllocsPerRun(500, func() {
		if _, err := chain.Shape(ctx, frame, state); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a call of two plugins, want none", n)
	}
}

// Shape and finish with a record, as a billing plugin has them.
func TestFinishAllocatesNothing(t *testing.T) {
	chain, frame, state := billing(t), fullFrame(), new(State)
	if n := testing.AllocsPerRun(500, func() { account(t, chain, frame, state) }); n != 0 {
		t.Errorf("%v allocations for shape and finish, want none", n)
	}
}

func BenchmarkShapeAndFinish(b *testing.B) {
	chain, frame, state := billing(b), fullFrame(), new(State)
	b.ReportAllocs()
	for b.Loop() {
		account(b, chain, frame, state)
	}
}

// billing is a chain of one plugin that shapes and emits.
func billing(t testing.TB) *Chain {
	t.Helper()
	host, err := NewHost(context.Background(), Options{Observer: func(Call) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	const record, fields = `{"tenant":"acme","cost_micro_usd":215}`, `{"fields":{"billing":{"cost_micro_usd":215}}}`
	g := emitter(1, record, opI32(0)).with(exportInit, opI32(int32(maskShape|maskFinish)))
	g.data = append(g.data, guestData{guestResultAt + 4096, fields})
	g.with(exportShape, opI64(int64(guestResultAt+4096)<<32|int64(len(fields))))
	p, err := host.Load(context.Background(), Spec{Name: "billing", Wasm: g.assemble(), Grants: Grants{Fields: []string{"billing"}, Emit: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return newChain(t, p)
}

func account(t testing.TB, chain *Chain, frame *Frame, state *State) {
	if _, err := chain.Shape(context.Background(), frame, state); err != nil {
		t.Fatal(err)
	}
	if finished := chain.Finish(context.Background(), frame, state); len(finished.Records) != 1 {
		t.Fatalf("got %+v, want one record", finished)
	}
	state.Reset()
}
