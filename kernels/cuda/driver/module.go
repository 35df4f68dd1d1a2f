//go:build cuda && cgo && linux

package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"gorgonia.org/cu"
)

// fatbinMagic begins a fat binary: code for several compute capabilities, of which
// the driver takes the best. Read as little-endian. The header goes on with
// version (2 bytes), its own size (2) and that of what follows (8). Source: the
// output of nvcc 13.0 and cuobjdump.
const fatbinMagic = 0xba55ed50

// Module is kernels that the device has loaded.
type Module struct {
	device *Device
	module cu.Module
}

// Load brings an image to the device: a fat binary, a cubin or the text of PTX.
func (d *Device) Load(image []byte) (*Module, error) {
	if err := checkImage(image); err != nil {
		return nil, err
	}
	m, err := cu.LoadData(string(image))
	if err != nil {
		e := failure("cuModuleLoadData", err)
		switch e.Result {
		case NoBinaryForGPU:
			e.Found = fmt.Sprintf("the image has no code for compute capability %d.%d of %s", d.major, d.minor, d.name)
			e.Advice = "build the kernels for it (make cuda-kernels)"
		default:
			e.Found = fmt.Sprintf("an image of %d bytes, for %s and a driver of CUDA %s", len(image), d.name, d.Version())
		}
		return nil, e
	}
	return &Module{d, m}, nil
}

// checkImage refuses what is no image, or one cut short: the driver is given no
// length, and would read on behind its end.
func checkImage(image []byte) error {
	switch {
	case len(image) == 0:
		return errors.New("the image of kernels is empty: build it with make cuda-kernels")
	case len(image) >= 4 && binary.LittleEndian.Uint32(image) == fatbinMagic:
		const least = 16
		if len(image) < least {
			return fmt.Errorf("the image of kernels is cut short: %d bytes, and a fat binary's header has %d", len(image), least)
		}
		header, body := uint64(binary.LittleEndian.Uint16(image[6:])), binary.LittleEndian.Uint64(image[8:])
		if there := uint64(len(image)); header < least || header > there || body > there-header {
			return fmt.Errorf("the image of kernels is damaged: %d bytes, and its header says %d and %d", len(image), header, body)
		}
		return nil
	case bytes.HasPrefix(image, []byte("\x7fELF\x02")):
		// The section headers of a 64-bit file end it: their offset, size and number
		// are at 40, 58 and 60. Source: System V ABI, ELF header.
		const least = 64
		if len(image) < least {
			return fmt.Errorf("the image of kernels is cut short: %d bytes, and an ELF header has %d", len(image), least)
		}
		offset, there := binary.LittleEndian.Uint64(image[40:]), uint64(len(image))
		sections := uint64(binary.LittleEndian.Uint16(image[58:])) * uint64(binary.LittleEndian.Uint16(image[60:]))
		if offset > there || sections > there-offset {
			return fmt.Errorf("the image of kernels is cut short: %d bytes, and its sections end at %d", len(image), offset+sections)
		}
		return nil
	case bytes.Contains(image, []byte(".version")) && !bytes.ContainsRune(image, 0):
		return nil
	}
	return fmt.Errorf("the image of kernels begins with %q, and is neither a fat binary nor a cubin nor PTX", image[:min(len(image), 8)])
}

// Function finds a kernel by its name.
func (m *Module) Function(name string) (*Function, error) {
	f, err := m.module.Function(name)
	if err != nil {
		e := failure("cuModuleGetFunction", err)
		if e.Result == NotFound && e.Found == "" {
			e.Found = fmt.Sprintf("the image has no kernel %q", name)
			e.Advice = "it is of other sources than this program: build it again (make cuda-kernels)"
		} else if e.Found == "" {
			e.Found = fmt.Sprintf("kernel %q", name)
		}
		return nil, e
	}
	return &Function{device: m.device, function: f, name: name}, nil
}

// Close unloads the kernels. None may be under way.
func (m *Module) Close() error { return failed("cuModuleUnload", m.module.Unload()) }

// Function is a kernel.
type Function struct {
	device   *Device
	function cu.Function
	name     string
}

// Name is the kernel's name.
func (f *Function) Name() string { return f.name }

// AllowShared lets launches use up to bytes of dynamic shared memory, which is
// needed above 48 KiB. Source: CUDA C++ Programming Guide, 20.4.3 (compute
// capability 8.x: shared memory).
func (f *Function) AllowShared(bytes int) error {
	result := allowShared(f.function, bytes)
	if result == 0 {
		return nil
	}
	e := resultError("cuFuncSetAttribute", result)
	e.Found = fmt.Sprintf("%d bytes of shared memory asked for kernel %s", bytes, f.name)
	if most, err := f.device.Attribute(SharedPerBlock); err == nil {
		e.Found += fmt.Sprintf(", and %s has %d for a block, static ones included", f.device.name, most)
	}
	return e
}

// Occupancy is how many blocks of so many threads and bytes of dynamic shared
// memory a multiprocessor holds at a time.
func (f *Function) Occupancy(threads, shared int) (int, error) {
	blocks, err := f.function.MaxActiveBlocksPerMultiProcessor(threads, int64(shared))
	if err != nil {
		e := failure("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
		e.Found = fmt.Sprintf("kernel %s with %d threads and %d bytes of shared memory", f.name, threads, shared)
		return 0, e
	}
	return blocks, nil
}
