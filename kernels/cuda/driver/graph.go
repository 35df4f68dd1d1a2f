//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"unsafe"
)

// Graph is work that was recorded once and is launched in one call, with the
// arguments that it was recorded with.
type Graph struct {
	exec unsafe.Pointer // a CUgraphExec, nil after Close
}

// Capture records what do puts into the stream instead of running it. Only
// launches, copies, fills and events may be asked for inside; the driver refuses
// what can't be recorded, such as Alloc and Sync.
func (s *Stream) Capture(do func() error) (*Graph, error) {
	if result := beginCapture(s.stream); result != 0 {
		return nil, resultError("cuStreamBeginCapture", result)
	}
	before := s.last
	err := do()
	s.last = before // nothing has run
	graph, result := endCapture(s.stream)
	if result != 0 {
		err = errors.Join(err, resultError("cuStreamEndCapture", result))
	}
	if graph == nil {
		return nil, err
	}
	var exec unsafe.Pointer
	if err == nil {
		if exec, result = instantiate(graph); result != 0 {
			err = resultError("cuGraphInstantiate", result)
		}
	}
	// What can be launched holds all that it needs of the graph.
	if result = destroyGraph(graph); result != 0 {
		err = errors.Join(err, resultError("cuGraphDestroy", result))
	}
	if err != nil {
		return nil, err
	}
	return &Graph{exec}, nil
}

// LaunchGraph puts the recorded work into the queue.
func (s *Stream) LaunchGraph(g *Graph) error {
	if result := launchGraph(g.exec, s.stream); result != 0 {
		return resultError("cuGraphLaunch", result)
	}
	s.last = "a graph"
	return nil
}

// Close gives the graph back. It must not be under way.
func (g *Graph) Close() error {
	if g.exec == nil {
		return nil
	}
	exec := g.exec
	g.exec = nil
	if result := destroyExec(exec); result != 0 {
		return resultError("cuGraphExecDestroy", result)
	}
	return nil
}
