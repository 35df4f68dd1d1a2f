//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// Sync implements backend.Backend: all of the step's work with the device is here.
func (b *Backend) Sync() error {
	defer b.list.reset()
	if b.lost != nil {
		return b.lost
	}
	b.steps++
	err := b.err
	if err == nil {
		err = b.device.Enter()
		if err == nil {
			err = b.step()
			b.device.Leave()
		}
	}
	b.out.sampled = 0
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backend.ErrNotFinite):
		return err
	case errors.Is(err, driver.ErrLost):
		b.lost = b.lostError(err)
		return b.lost
	}
	return fmt.Errorf("step %d of %d rows: %w", b.steps, b.batch.Rows(), err)
}

// lostError is what every step says from now on.
func (b *Backend) lostError(err error) error {
	how := "; WASMETER_CUDA_SYNC=1 waits for each kernel, and so names the one that fails"
	if b.options.Synchronous {
		how = ""
	}
	return fmt.Errorf("step %d of %d rows on %s: %w: %w%s", b.steps, b.batch.Rows(), b.Name(), backend.ErrLost, err, how)
}

// step does what the list says, and waits for it.
func (b *Backend) step() error {
	b.shape = shapeOf(b.batch, max(b.blockSize, 1), b.logitsRows())
	if err := b.growWords(4 * b.shape.words()); err != nil {
		return err
	}
	b.shape.fill(b.words.host.Bytes(), b.batch, max(b.blockSize, 1))
	captured := b.shape.captured && !b.options.Synchronous
	var known *graph
	if captured {
		known = b.graphOf()
	}
	if known == nil || known.exec == nil {
		b.fused = fuse(b.fused[:0], b.ops, b.shape.rows <= kernels.MaxNormRows, b.shape.sampled <= kernels.MaxNormRows)
		if err := b.describe(b.fused); err != nil {
			return err
		}
	}
	if err := b.run(known); err != nil {
		if !errors.Is(err, driver.ErrLost) {
			// What was queued before the error must not run into the next step.
			err = errors.Join(err, b.stream.Sync())
		}
		return err
	}
	if captured && known == nil {
		if err := b.capture(); err != nil {
			return err
		}
	}
	return b.out.fault()
}

// run queues the step between two marks, and waits for the second.
func (b *Backend) run(known *graph) error {
	if err := b.stream.Record(b.begun); err != nil {
		return err
	}
	if err := b.stream.CopyToDevice(b.words.device, b.words.host, 0, 4*b.shape.words()); err != nil {
		return err
	}
	var err error
	if known != nil && known.exec != nil {
		err = b.stream.LaunchGraph(known.exec)
	} else {
		err = b.launchAll()
	}
	if err != nil {
		return err
	}
	if err := b.out.fetchLast(b.stream, b.logitsRows()); err != nil {
		return err
	}
	if err := b.stream.Record(b.ended); err != nil {
		return err
	}
	if err := b.ended.Sync(); err != nil {
		return err
	}
	took, err := b.ended.Since(b.begun)
	b.computed += took
	return err
}

// integersBuffer is the step's integers on the host and on the device.
type integersBuffer struct {
	host   *driver.Pinned
	device driver.Ptr
}

// leastWords is the size that the buffer begins with, in bytes: a step of 512 rows of
// 64 sequences of 8000 tokens.
const leastWords = 256 << 10

// growWords makes room for so many bytes of integers, twice what there was if that is
// not enough: this happens a few times in a server's life, as contexts grow.
func (b *Backend) growWords(bytes int) error {
	have := 0
	if b.words.host != nil {
		have = len(b.words.host.Bytes())
	}
	if bytes <= have {
		return nil
	}
	size := max(powerOfTwo(bytes), leastWords)
	// Captured steps read the integers where they were.
	if err := errors.Join(b.dropGraphs(), b.words.close(b.device)); err != nil {
		return err
	}
	var err error
	if b.words.host, err = b.device.Pinned(size); err != nil {
		return fmt.Errorf("make room for the step's integers: %w", err)
	}
	if b.words.device, err = b.device.Alloc(int64(size)); err != nil {
		return fmt.Errorf("make room for the step's integers: %w", errors.Join(err, b.words.close(b.device)))
	}
	return nil
}

// close gives both back.
func (w *integersBuffer) close(d *driver.Device) error {
	var faults []error
	if w.host != nil {
		faults = append(faults, w.host.Free())
	}
	faults = append(faults, d.Free(w.device))
	*w = integersBuffer{}
	return errors.Join(faults...)
}
