//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// maxFlights is the number of steps that may be under way.
const maxFlights = 2

// flight is what a step under way has of its own on the host. On the device, steps
// follow each other in the stream and use the same memory.
type flight struct {
	step         uint64
	rows         int        // of the batch
	draws, top   int        // tokens drawn, and the log probabilities with each
	words        hostMemory // the integers, until they are uploaded
	drawn        hostMemory // the tokens
	begun, ended *driver.Event
}

// prepare makes what every step needs.
func (f *flight) prepare(d *driver.Device) (err error) {
	if f.begun, err = d.NewEvent(); err != nil {
		return err
	}
	f.ended, err = d.NewEvent()
	return err
}

// close gives everything back; what was not made is nil.
func (f *flight) close() error {
	var faults []error
	for _, e := range []*driver.Event{f.begun, f.ended} {
		if e != nil {
			faults = append(faults, e.Close())
		}
	}
	faults = append(faults, f.words.close(), f.drawn.close())
	*f = flight{}
	return errors.Join(faults...)
}

// Sync implements backend.Backend.
func (b *Backend) Sync() error {
	defer func() { b.out.sampled = 0 }()
	if b.queued != b.awaited {
		panic("cuda backend: Sync with a step under way")
	}
	if err := b.Queue(); err != nil {
		return err
	}
	f, err := b.wait()
	if err == nil {
		err = b.out.fault()
	}
	return b.failed(f, err)
}

// Queue implements backend.Drawer.
func (b *Backend) Queue() error {
	defer b.list.reset()
	if b.lost != nil {
		return b.lost
	}
	if b.queued-b.awaited == maxFlights {
		panic("cuda backend: Queue with as many steps under way as may be")
	}
	b.steps++
	f := &b.flights[b.queued%maxFlights]
	f.step, f.rows, f.draws = b.steps, b.batch.Rows(), 0
	err := b.err
	if err == nil {
		if err = b.device.Enter(); err == nil {
			err = b.start(f)
			b.device.Leave()
		}
	}
	if err == nil {
		b.queued++
	}
	return b.failed(f, err)
}

// Wait implements backend.Drawer.
func (b *Backend) Wait() ([]sample.Token, error) {
	f, err := b.wait()
	var tokens []sample.Token
	if err == nil {
		tokens, err = b.tokensOf(f)
	}
	return tokens, b.failed(f, err)
}

// wait waits for the earliest step under way.
func (b *Backend) wait() (*flight, error) {
	if b.queued == b.awaited {
		panic("cuda backend: Wait without a step under way")
	}
	f := &b.flights[b.awaited%maxFlights]
	b.awaited++
	if b.lost != nil {
		return f, b.lost
	}
	if err := b.device.Enter(); err != nil {
		return f, err
	}
	defer b.device.Leave()
	if err := f.ended.Sync(); err != nil {
		return f, err
	}
	took, err := f.ended.Since(f.begun)
	b.computed += took
	return f, err
}

// failed is a step's error as callers see it.
func (b *Backend) failed(f *flight, err error) error {
	switch {
	case err == nil:
		return nil
	case b.lost != nil:
		return b.lost
	case errors.Is(err, backend.ErrNotFinite):
		return err
	case errors.Is(err, driver.ErrLost):
		b.lost = b.lostError(f, err)
		return b.lost
	}
	return fmt.Errorf("step %d of %d rows: %w", f.step, f.rows, err)
}

// lostError is what every step says from now on.
func (b *Backend) lostError(f *flight, err error) error {
	how := "; WASMETER_CUDA_SYNC=1 waits for each kernel, and so names the one that fails"
	if b.options.Synchronous {
		how = ""
	}
	return fmt.Errorf("step %d of %d rows on %s: %w: %w%s", f.step, f.rows, b.Name(), backend.ErrLost, err, how)
}

// hostMemory is pinned memory that can be replaced.
type hostMemory struct{ *driver.Pinned }

// bytes is the memory; nil if there is none.
func (m hostMemory) bytes() []byte {
	if m.Pinned == nil {
		return nil
	}
	return m.Bytes()
}

// replace takes other memory. No copy may be under way.
func (m *hostMemory) replace(d *driver.Device, size int) error {
	if err := m.close(); err != nil {
		return err
	}
	var err error
	m.Pinned, err = d.Pinned(size)
	return err
}

func (m *hostMemory) close() error {
	if m.Pinned == nil {
		return nil
	}
	err := m.Free()
	m.Pinned = nil
	return err
}
