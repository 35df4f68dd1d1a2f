//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"slices"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// graph is a captured decode step.
type graph struct {
	shape shape
	ops   []op          // the list, before it was fused
	exec  *driver.Graph // nil if it could not be captured
}

// graphOf returns the graph of the step, nil if there is none yet.
func (b *Backend) graphOf() *graph {
	for _, g := range b.graphs {
		if g.shape == b.shape && slices.Equal(g.ops, b.ops) {
			return g
		}
	}
	return nil
}

// capture keeps the step that was just launched, for others like it. It takes the
// place of a graph of that shape with another list. A failure costs speed alone, and
// is told once for each shape.
//
// The step has run before, so that all kernels are loaded: the driver loads them when
// they are first launched, and may not while it captures.
func (b *Backend) capture() error {
	at := slices.IndexFunc(b.graphs, func(g *graph) bool { return g.shape == b.shape })
	if at >= 0 {
		if err := b.graphs[at].close(); err != nil {
			return err
		}
		b.graphs = slices.Delete(b.graphs, at, at+1)
	}
	exec, err := b.stream.Capture(b.launchAll)
	if errors.Is(err, driver.ErrLost) {
		return err
	}
	if err != nil {
		b.options.Logger.Warn("decode step not captured: it runs kernel by kernel", "rows", b.shape.rows, "error", err)
	}
	b.graphs = append(b.graphs, &graph{shape: b.shape, ops: slices.Clone(b.ops), exec: exec})
	return nil
}

// dropGraphs gives all graphs back: what they point to moves.
func (b *Backend) dropGraphs() error {
	var faults []error
	for _, g := range b.graphs {
		faults = append(faults, g.close())
	}
	b.graphs = nil
	return errors.Join(faults...)
}

func (g *graph) close() error {
	if g.exec == nil {
		return nil
	}
	return g.exec.Close()
}
