//go:build cuda && cgo && linux

package driver

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"gorgonia.org/cu"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver/shim"
)

const (
	// library is the driver's name for the dynamic loader, on every distribution.
	library = "libcuda.so.1"
	// minVersion is the oldest driver that takes what nvcc 13.0 makes, as the
	// driver counts: 1000 for a major version, 10 for a minor one. Source: CUDA
	// Compatibility, minor version compatibility.
	minVersion = 13000
	// minVersionDriver is the release of the driver that minVersion came with.
	minVersionDriver = "580"
	// minMajor is the least compute capability that the kernels are compiled for:
	// they use cp.async and bf16 products, which 8.0 brought.
	minMajor = 8
)

// Options say which device to open.
type Options struct {
	// Path is the driver's library, libcuda.so.1 if empty. A process uses one.
	Path string
	// Ordinal is the device's number, from 0, in the driver's order.
	Ordinal int
}

// Device is one GPU with its primary context, which libraries of the process
// share. It is owned by one goroutine.
type Device struct {
	device  cu.Device
	context cu.CUContext
	name    string
	// major.minor is the compute capability.
	major, minor int
	version      int
	closed       bool
}

// Open loads the driver, unless that has happened, and retains a device's primary
// context. Errors say what was found and what to do.
func Open(o Options) (*Device, error) {
	path := cmp.Or(o.Path, library)
	if err := load(path); err != nil {
		return nil, err
	}
	d := &Device{version: cu.Version()}
	if d.version < minVersion {
		return nil, fmt.Errorf("the CUDA driver %s is too old: it supports CUDA %s, and the kernels need %s; install the NVIDIA driver %s or a later one",
			path, versionText(d.version), versionText(minVersion), minVersionDriver)
	}
	count, err := cu.NumDevices()
	if err != nil {
		return nil, failed("cuDeviceGetCount", err)
	}
	if count == 0 {
		return nil, newError("cuDeviceGetCount", NoDevice)
	}
	if o.Ordinal < 0 || o.Ordinal >= count {
		return nil, fmt.Errorf("CUDA device %d does not exist: the driver shows %d, %s; use one of their numbers, or change CUDA_VISIBLE_DEVICES",
			o.Ordinal, count, deviceNames(count))
	}
	if d.device, err = cu.GetDevice(o.Ordinal); err != nil {
		return nil, failed("cuDeviceGet", err)
	}
	if d.name, err = d.device.Name(); err != nil {
		return nil, failed("cuDeviceGetName", err)
	}
	if d.major, err = d.Attribute(CapabilityMajor); err != nil {
		return nil, err
	}
	if d.minor, err = d.Attribute(CapabilityMinor); err != nil {
		return nil, err
	}
	if d.major < minMajor {
		return nil, fmt.Errorf("CUDA device %d, %s, has compute capability %d.%d, and the kernels need %d.0 or more: use a GPU of the Ampere generation (2020) or a later one, or the CPU",
			o.Ordinal, d.name, d.major, d.minor, minMajor)
	}
	if d.context, err = d.device.RetainPrimaryCtx(); err != nil {
		return nil, failed("cuDevicePrimaryCtxRetain", err)
	}
	return d, nil
}

// load makes the shim load the driver, and says what a person can do if it can't.
func load(path string) error {
	err := shim.Open(path)
	var missing *shim.LoadError
	var failure *shim.InitError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("there is no CUDA driver: %w; install the NVIDIA driver %s or a later one, and give a container its GPUs (docker run --gpus all)", err, minVersionDriver)
	case errors.As(err, &failure):
		e := newError("cuInit", Result(failure.Result))
		e.Found = path
		return e
	}
	return err
}

// deviceNames lists the devices as "0 NVIDIA L4, 1 NVIDIA L4". The list is
// bounded, as drivers count what they like.
func deviceNames(count int) string {
	const most = 16
	var names []string
	for i := range min(count, most) {
		name := "of no name"
		if device, err := cu.GetDevice(i); err == nil {
			if n, err := device.Name(); err == nil {
				name = n
			}
		}
		names = append(names, fmt.Sprintf("%d %s", i, name))
	}
	if count > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// versionText writes 12040 as 12.4.
func versionText(version int) string {
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// Name is the device's name: "NVIDIA H200".
func (d *Device) Name() string { return d.name }

// Capability is the compute capability.
func (d *Device) Capability() (major, minor int) { return d.major, d.minor }

// Version is the CUDA version that the driver supports: "13.0".
func (d *Device) Version() string { return versionText(d.version) }

// Lacking lists the functions of the driver's interface that this driver does not
// have; calls of them fail and name them.
func (d *Device) Lacking() []string { return shim.Lacking() }

// Memory says how many bytes of the device are free and how many it has.
func (d *Device) Memory() (free, total int64, err error) {
	free, total, err = cu.MemInfo()
	return free, total, failed("cuMemGetInfo", err)
}

// Attribute is a property of a device, a CUdevice_attribute.
type Attribute int

// What is asked about devices.
const (
	CapabilityMajor Attribute = Attribute(cu.ComputeCapabilityMajor)
	CapabilityMinor Attribute = Attribute(cu.ComputeCapabilityMinor)
	// Multiprocessors is their number.
	Multiprocessors Attribute = Attribute(cu.MultiprocessorCount)
	// ThreadsPerMultiprocessor is how many can reside.
	ThreadsPerMultiprocessor Attribute = Attribute(cu.MaxThreadsPerMultiprocessor)
	// SharedPerBlock is the most shared memory of a block after AllowShared, bytes.
	SharedPerBlock Attribute = sharedOptin
	// SharedPerMultiprocessor is that of all its blocks, bytes.
	SharedPerMultiprocessor Attribute = Attribute(cu.MaxSharedMemoryPerMultiprocessor)
	// RegistersPerMultiprocessor counts 32-bit registers.
	RegistersPerMultiprocessor Attribute = Attribute(cu.MaxRegistersPerMultiprocessor)
	// ClockRate and MemoryClockRate are the peak frequencies, kHz.
	ClockRate       Attribute = Attribute(cu.ClockRate)
	MemoryClockRate Attribute = Attribute(cu.MemoryClockRate)
	// MemoryBusWidth is in bits: with two transfers a clock, a device moves
	// MemoryClockRate · 1000 · 2 · MemoryBusWidth / 8 bytes a second.
	MemoryBusWidth Attribute = Attribute(cu.GlobalMemoryBusWidth)
	// L2Size is the size of the second-level cache, bytes.
	L2Size Attribute = Attribute(cu.L2CacheSize)
)

// Attribute asks for a property. It needs no Enter.
func (d *Device) Attribute(a Attribute) (int, error) {
	value, err := d.device.Attribute(cu.DeviceAttribute(a))
	return value, failed("cuDeviceGetAttribute", err)
}

// Enter ties the goroutine to its thread and makes the context current there.
func (d *Device) Enter() error {
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(d.context); err != nil {
		runtime.UnlockOSThread()
		return failed("cuCtxSetCurrent", err)
	}
	return nil
}

// Leave undoes Enter, so that the thread goes back to the others as it came.
func (d *Device) Leave() {
	// Nothing can be done about a failure, and the next call would tell it.
	_ = cu.SetCurrentContext(cu.CUContext{})
	runtime.UnlockOSThread()
}

// Close gives the context back; with the last user of the process go all memory,
// streams and modules. It may be called again.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return failed("cuDevicePrimaryCtxRelease", d.device.ReleasePrimaryCtx())
}
