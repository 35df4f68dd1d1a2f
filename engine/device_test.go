package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// device is a toy with a clock, that can be lost.
type device struct {
	*toy
	lose atomic.Bool
	// busy is what each step takes by the device's own clock; 0: it has none.
	busy, total time.Duration
}

func (d *device) Forward(b *backend.Batch) ([]float32, error) {
	if d.lose.Load() {
		return nil, fmt.Errorf("toy: %w", backend.ErrLost)
	}
	d.total += d.busy
	return d.toy.Forward(b)
}

func (d *device) DeviceTime() time.Duration { return d.total }

// TestLostDevice: all that runs or waits fails with the reason, and so does what
// comes later.
func TestLostDevice(t *testing.T) {
	d := &device{toy: newToy()}
	d.gate = make(chan struct{})
	e := newEngine(t, d, func(o *Options) { o.MaxNumSeqs = 1 })
	running, waiting := submit(t, e, ask("a")), submit(t, e, ask("b"))
	d.gate <- struct{}{} // the first step has begun
	if err := e.Err(); err != nil {
		t.Errorf("before it is lost: %v", err)
	}
	d.lose.Store(true)
	close(d.gate)
	for name, s := range map[string]*Stream{"running": running, "waiting": waiting} {
		if last := collect(t, s)[0].last; last.Finish != Failed || !errors.Is(last.Err, ErrLost) {
			t.Errorf("%s: ended with %v, %v; want error, ErrLost", name, last.Finish, last.Err)
		}
	}
	if err := e.Err(); !errors.Is(err, ErrLost) {
		t.Errorf("the engine's error is %v, want ErrLost", err)
	}
	if _, err := e.Submit(ask("c")); !errors.Is(err, ErrLost) {
		t.Errorf("submit: %v, want ErrLost", err)
	}
}

// TestDeviceTime: the device's own clock is believed where there is one. The
// host's goes on by a millisecond with each reading.
func TestDeviceTime(t *testing.T) {
	for _, c := range []struct{ busy, want time.Duration }{{0, time.Millisecond}, {7 * time.Microsecond, 7 * time.Microsecond}} {
		d := &device{toy: newToy(), busy: c.busy}
		d.total = time.Hour // it has computed before
		r := ask("a")
		r.MaxTokens = 5
		last := collect(t, submit(t, newEngine(t, d, nil), r))[0].last
		steps := time.Duration(last.Life.CompletionTokens)
		// The model's time before the first step is not the request's.
		if got := last.Life.DeviceTime; steps != 5 || got != steps*c.want {
			t.Errorf("a device that takes %s a step: %s for %d steps, want %s", c.busy, got, steps, steps*c.want)
		}
	}
}
