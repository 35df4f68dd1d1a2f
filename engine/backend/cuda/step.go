//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// start does what the list says: it uploads the step's integers, launches the step,
// and asks for its results, all in the stream.
func (b *Backend) start(f *flight) error {
	b.shape = shapeOf(b.batch, max(b.blockSize, 1), b.logitsRows())
	f.draws = len(b.batch.Draws)
	if f.draws > 0 {
		b.shape = b.shape.drawing(b.batch)
		f.top = b.shape.top
	}
	bytes := 4 * (b.shape.words() + pairWords*pairs(b.batch))
	if err := b.growWords(bytes); err != nil {
		return err
	}
	b.shape.fill(f.words.bytes(), b.batch, max(b.blockSize, 1))
	b.shape.fillDrawn(f.words.bytes(), b.batch, b.drawn.stride)
	b.shape.fillDraws(f.words.bytes(), b.batch)
	if f.draws > 0 {
		b.drawn.stride = kernels.DrawnBytes(f.top) / 4
	}
	captured := b.shape.captured && !b.options.Synchronous
	var known *graph
	if captured {
		known = b.graphOf()
	}
	if known == nil || known.exec == nil {
		b.fused = fuse(b.fused[:0], b.ops, conditions{
			few: b.shape.rows <= kernels.MaxNormRows, fewSampled: b.shape.sampled <= kernels.MaxNormRows, singles: b.shape.runs == 0,
			tiled: b.shape.rows > kernels.MaxNormRows, theirs: b.theirs,
		})
		if err := b.describe(b.fused); err != nil {
			return err
		}
	}
	err := b.run(f, bytes, known)
	if err == nil && captured && known == nil {
		err = b.capture()
	}
	if err != nil && !errors.Is(err, driver.ErrLost) {
		// What was queued before the error must not run into the next step.
		err = errors.Join(err, b.stream.Sync())
	}
	return err
}

// run queues the step between two marks.
func (b *Backend) run(f *flight, bytes int, known *graph) error {
	if err := b.stream.Record(f.begun); err != nil {
		return err
	}
	if err := b.stream.CopyToDevice(b.words.device, f.words.Pinned, 0, bytes); err != nil {
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
	if f.draws > 0 {
		err = b.stream.CopyToHost(f.drawn.Pinned, 0, b.drawn.tokens, f.draws*kernels.DrawnBytes(f.top))
	} else {
		err = b.out.fetchLast(b.stream, b.logitsRows())
	}
	if err != nil {
		return err
	}
	return b.stream.Record(f.ended)
}

// integersBuffer is where the device has the step's integers.
type integersBuffer struct {
	device driver.Ptr
	bytes  int
}

// leastWords is the size that the buffers begin with, in bytes: a step of 512 rows of
// 64 sequences of 8000 tokens.
const leastWords = 256 << 10

// growWords makes room for so many bytes of integers, twice what there was if that is
// not enough: this happens a few times in a server's life, as contexts grow.
func (b *Backend) growWords(bytes int) error {
	if bytes <= b.words.bytes {
		return nil
	}
	if err := b.replaceWords(max(powerOfTwo(bytes), leastWords)); err != nil {
		return fmt.Errorf("make room for the step's integers: %w", err)
	}
	return nil
}

// replaceWords waits for a step under way: it reads the integers where they are, and
// so do captured steps.
func (b *Backend) replaceWords(size int) error {
	if err := errors.Join(b.stream.Sync(), b.dropGraphs(), b.words.close(b.device)); err != nil {
		return err
	}
	for i := range b.flights {
		if err := b.flights[i].words.replace(b.device, size); err != nil {
			return err
		}
	}
	var err error
	if b.words.device, err = b.device.Alloc(int64(size)); err == nil {
		b.words.bytes = size
	}
	return err
}

// close gives the memory back.
func (w *integersBuffer) close(d *driver.Device) error {
	err := d.Free(w.device)
	*w = integersBuffer{}
	return err
}
