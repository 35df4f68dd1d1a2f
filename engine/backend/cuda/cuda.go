//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// Backend implements backend.Backend on one device. It is owned by one goroutine at
// a time; what calls the driver ties it to its thread for as long.
type Backend struct {
	list // the operations of the step

	options Options
	device  *driver.Device
	kernels *kernels.Kernels
	stream  *driver.Stream
	memory  memory
	loading upload
	closed  bool
	lost    error // after which nothing works

	// widest is the largest number of rows of a weight: the vocabulary.
	widest    int
	blockSize int // of the cache
	products  map[productKey]*kernels.Product
	library   library // cuBLASLt, if it is used
	// Memory of zeros that kernels share.
	matMulScratch, decodeScratch driver.Ptr
	squares                      driver.Ptr // float32 [MaxRows, squaresParts], of the product that ran last
	squaresParts                 int
	theirs                       func(*op) bool // libraryTakes, made once

	// The step: set by Begin, read until Sync or Queue.
	batch *backend.Batch
	err   error // the first before Sync
	steps uint64
	shape shape
	fused []op
	words integersBuffer
	out   results
	drawn drawn

	graphs []*graph

	// Steps take turns in flights. queued and awaited count them: those between are
	// under way.
	flights         [maxFlights]flight
	queued, awaited uint64

	computed time.Duration // by the device, in all steps
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Planner = (*Backend)(nil)
	_ backend.Sizer   = (*Backend)(nil)
	_ backend.Timer   = (*Backend)(nil)
	_ backend.Drawer  = (*Backend)(nil)
)

// Open opens a device and loads the kernels onto it. Errors say what was found and
// what to do.
func Open(o Options) (backend.Backend, error) {
	b, err := open(o, kernels.Image())
	if err != nil {
		return nil, err
	}
	return b, nil
}

// withDefaults fills the zero values.
func (o Options) withDefaults() Options {
	if o.MaxRows == 0 {
		o.MaxRows = 512
	}
	if o.MaxSeqs == 0 {
		o.MaxSeqs = 64
	}
	if o.Utilization == 0 {
		o.Utilization = 0.9
	}
	if o.Progress == nil {
		o.Progress = func(done, total int64) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// open is Open with the image that has the kernels.
func open(o Options, image []byte) (b *Backend, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("cuda backend: %w", err)
	}
	o = o.withDefaults()
	device, err := driver.Open(driver.Options{Path: o.Driver, Ordinal: o.Ordinal})
	if err != nil {
		return nil, fmt.Errorf("cuda backend: %w", err)
	}
	b = &Backend{options: o, device: device, products: make(map[productKey]*kernels.Product)}
	b.theirs = b.libraryTakes
	if err := b.entered(func() error { return b.prepare(image) }); err != nil {
		return nil, fmt.Errorf("cuda backend: %w", errors.Join(err, b.Close()))
	}
	return b, nil
}

// prepare makes what every step needs.
func (b *Backend) prepare(image []byte) (err error) {
	free, total, err := b.device.Memory()
	if err != nil {
		return err
	}
	b.memory = memory{device: b.device, free: free, total: total, budget: int64(float64(free) * b.options.Utilization), utilization: b.options.Utilization}
	if b.kernels, err = kernels.New(b.device, image); err != nil {
		return err
	}
	if b.stream, err = b.device.NewStream(); err != nil {
		return err
	}
	for i := range b.flights {
		if err := b.flights[i].prepare(b.device); err != nil {
			return err
		}
	}
	b.loading = upload{device: b.device, stream: b.stream}
	if b.matMulScratch, err = b.zeros(b.kernels.MatMulScratch()); err != nil {
		return err
	}
	return b.openLibrary()
}

// entered runs do with the device's context on a locked thread.
func (b *Backend) entered(do func() error) error {
	if err := b.device.Enter(); err != nil {
		return err
	}
	defer b.device.Leave()
	return do()
}

// zeros takes memory that begins as zeros.
func (b *Backend) zeros(bytes int64) (driver.Ptr, error) {
	p, err := b.memory.take(bytes)
	if err != nil {
		return 0, err
	}
	if err := b.stream.Fill(p, 0, bytes); err != nil {
		return 0, err
	}
	return p, b.stream.Sync()
}

// Name implements backend.Backend.
func (b *Backend) Name() string {
	return fmt.Sprintf("cuda:%d %s, %s", b.options.Ordinal, b.device.Name(), gibibytes(b.memory.total))
}

// MaxRows implements backend.Backend.
func (b *Backend) MaxRows() int { return b.options.MaxRows }

// NewTensor implements backend.Backend.
func (b *Backend) NewTensor(cols int) (backend.Tensor, error) {
	t := &tensor{cols: cols}
	err := b.entered(func() error {
		b.library.widest = max(b.library.widest, cols)
		p, err := b.memory.take(4 * int64(b.options.MaxRows) * int64(cols))
		t.data = uint64(p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cuda backend: %w", err)
	}
	return t, nil
}

// Begin implements backend.Backend.
func (b *Backend) Begin(batch *backend.Batch) {
	if batch.Rows() > b.options.MaxRows {
		panic(fmt.Sprintf("cuda backend: batch of %d rows, at most %d are allowed", batch.Rows(), b.options.MaxRows))
	}
	b.batch, b.err = batch, nil
	b.list.reset()
}

// DeviceTime implements backend.Timer.
func (b *Backend) DeviceTime() time.Duration { return b.computed }

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.lost != nil {
		// The context is gone, and all that was in it; asking would repeat the error.
		_ = b.device.Close()
		return nil
	}
	err := b.entered(b.release)
	return errors.Join(err, b.device.Close())
}

// release gives everything back; what was not made is nil.
func (b *Backend) release() error {
	var faults []error
	if b.queued != b.awaited { // nobody wants what is under way
		faults = append(faults, b.stream.Sync())
	}
	faults = append(faults, b.library.close(), b.dropGraphs(), b.loading.close(), b.words.close(b.device), b.out.close())
	for i := range b.flights {
		faults = append(faults, b.flights[i].close())
	}
	if b.stream != nil {
		faults = append(faults, b.stream.Close())
	}
	if b.kernels != nil {
		faults = append(faults, b.kernels.Close())
	}
	return errors.Join(append(faults, b.memory.release())...)
}
