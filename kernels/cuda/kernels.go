//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// Kernels launches the kernels on one device. Like the device, it is used by one
// goroutine, between Enter and Leave. Its methods put work on a stream and
// return; they allocate nothing.
type Kernels struct {
	module    *driver.Module
	vector    vectorKernels
	attention attentionKernels
	matrix    matrixKernels

	processors int // multiprocessors of the device
	args       arguments
}

// New loads the kernels onto a device, out of Image or of another image of the same
// sources.
func New(d *driver.Device, image []byte) (*Kernels, error) {
	processors, err := d.Attribute(driver.Multiprocessors)
	if err != nil {
		return nil, err
	}
	module, err := d.Load(image)
	if err != nil {
		return nil, fmt.Errorf("load kernels: %w", err)
	}
	k := &Kernels{module: module, processors: processors}
	l := loader{module: module}
	k.vector.load(&l)
	k.attention.load(&l)
	k.matrix.load(&l)
	if len(l.faults) > 0 {
		return nil, fmt.Errorf("load kernels: %w", errors.Join(append(l.faults, module.Close())...))
	}
	return k, nil
}

// Close takes the kernels from the device.
func (k *Kernels) Close() error { return k.module.Close() }

// Processors is the number of the device's multiprocessors.
func (k *Kernels) Processors() int { return k.processors }

// loader takes functions out of a module and gathers what is missing.
type loader struct {
	module *driver.Module
	faults []error
}

// function returns the kernel of a name. shared is the most dynamic shared memory
// that a launch of it will ask for, in bytes: with a kernel's static memory, more
// than 48 KiB are given only to those that have said so.
func (l *loader) function(name string, shared int) *driver.Function {
	f, err := l.module.Function(name)
	if err == nil && shared > 0 {
		err = f.AllowShared(shared)
	}
	if err != nil {
		l.faults = append(l.faults, err)
	}
	return f
}

// arguments is a kernel's list of arguments, one word each, in the order of its
// parameters. It is kept in Kernels, so that a launch does not allocate.
type arguments struct {
	words [32]uint64
	n     int
}

// begin empties the list.
func (k *Kernels) begin() *arguments {
	k.args.n = 0
	return &k.args
}

func (a *arguments) word(w uint64) *arguments {
	a.words[a.n] = w
	a.n++
	return a
}

// pointers appends addresses, of which 0 is the null pointer.
func (a *arguments) pointers(list ...driver.Ptr) *arguments {
	for _, p := range list {
		a.word(uint64(p))
	}
	return a
}

// ints appends numbers that fit into an int32.
func (a *arguments) ints(list ...int) *arguments {
	for _, v := range list {
		a.word(uint64(uint32(int32(v))))
	}
	return a
}

func (a *arguments) floats(list ...float32) *arguments {
	for _, v := range list {
		a.word(uint64(math.Float32bits(v)))
	}
	return a
}

// launch runs f on a grid of blocks of threads, with some bytes of dynamic shared
// memory.
func (a *arguments) launch(s *driver.Stream, f *driver.Function, grid [3]uint32, threads, shared int) error {
	return s.Launch(f, driver.Launch{Grid: grid, Block: [3]uint32{uint32(threads), 1, 1}, Shared: uint32(shared)}, a.words[:a.n])
}

// grid is a grid of one dimension.
func grid(blocks int) [3]uint32 { return [3]uint32{uint32(blocks), 1, 1} }

func divUp(a, b int) int { return (a + b - 1) / b }
