//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// memory is the device's memory that the backend has taken: few large pieces, cut
// from their beginning. It is given back as a whole.
type memory struct {
	device *driver.Device
	// free and total are the device's when it was opened, budget the part that may
	// be taken.
	free, total, budget int64
	utilization         float64
	taken               int64 // of the budget
	pieces              []driver.Ptr
	rest                driver.Ptr // what is left of the last piece
	left                int64
}

// pieceBytes is the size of a piece for small things.
const pieceBytes = 4 << 20

// memoryAlignment is that of all that is taken, a multiple of what kernels ask for.
const memoryAlignment = 256

func aligned(bytes int64) int64 { return (bytes + memoryAlignment - 1) &^ (memoryAlignment - 1) }

// piece takes a piece of its own from the device.
func (m *memory) piece(bytes int64) (driver.Ptr, error) {
	if bytes > m.budget-m.taken {
		return 0, fmt.Errorf("%s more of the GPU's memory needed, and %s of %s are left: %s were free, of which gpu_memory_utilization %g may be taken; raise it, ask for less, or free memory of the GPU",
			gibibytes(bytes), gibibytes(m.budget-m.taken), gibibytes(m.budget), gibibytes(m.free), m.utilization)
	}
	p, err := m.device.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	m.taken += bytes
	m.pieces = append(m.pieces, p)
	return p, nil
}

// reserve makes a piece of so many bytes the one that is cut from.
func (m *memory) reserve(bytes int64) error {
	p, err := m.piece(bytes)
	if err == nil {
		m.rest, m.left = p, bytes
	}
	return err
}

// take returns memory, which holds anything.
func (m *memory) take(bytes int64) (driver.Ptr, error) {
	bytes = aligned(max(bytes, 1))
	switch {
	case bytes <= m.left:
	case bytes >= pieceBytes:
		return m.piece(bytes)
	default:
		if err := m.reserve(max(bytes, min(pieceBytes, m.budget-m.taken))); err != nil {
			return 0, err
		}
	}
	p := m.rest
	m.rest, m.left = m.rest+driver.Ptr(bytes), m.left-bytes
	return p, nil
}

// release gives all back. Nothing of it may be used afterwards.
func (m *memory) release() error {
	var faults []error
	for _, p := range m.pieces {
		faults = append(faults, m.device.Free(p))
	}
	m.pieces = nil
	return errors.Join(faults...)
}

// Plan implements backend.Planner: it adds up what the tensors take in this
// backend's layout, refuses more than there is, and makes room for them in one
// piece.
func (b *Backend) Plan(tensors []gguf.Tensor) error {
	var need int64
	for _, t := range tensors {
		l, err := layoutOf(t)
		if err != nil {
			return fmt.Errorf("cuda backend: %w", err)
		}
		need += aligned(l.Bytes())
	}
	m := &b.memory
	if left := m.budget - m.taken; need > left {
		return fmt.Errorf("the weights take %s of memory on %s, and %s are left: %s of %s were free, of which gpu_memory_utilization %g may be taken; use a file of smaller weights, free memory of the GPU, or use a larger one",
			gibibytes(need), b.device.Name(), gibibytes(left), gibibytes(m.free), gibibytes(m.total), m.utilization)
	}
	b.loading.total += need
	if err := b.entered(func() error { return m.reserve(need) }); err != nil {
		return fmt.Errorf("cuda backend: make room for the weights: %w", err)
	}
	return nil
}

// KVMemory implements backend.Sizer: what is left of the budget, or of the device if
// another model has been loaded onto it since, less what steps will need.
func (b *Backend) KVMemory() int64 {
	m := &b.memory
	left := m.budget - m.taken
	if err := b.entered(func() error {
		free, _, err := b.device.Memory()
		left = min(left, free-(m.free-m.budget))
		return err
	}); err != nil {
		return 0 // the cache would be the next to fail
	}
	scratch, tokens := b.drawMemory(b.widest)
	return max(0, left-b.logitsBytes(b.widest)-scratch-tokens-b.libraryMemory()-stepMemory)
}

// stepMemory is kept for the integers of steps, the kernels' own scratch and what
// the driver needs for graphs and launches.
const stepMemory = 64 << 20

func gibibytes(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
