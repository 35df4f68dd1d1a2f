//go:build cuda && cgo && linux

package driver

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Ptr is an address on the device.
type Ptr uint64

// Alloc takes memory of the device, aligned to 256 bytes at least. What lies in
// it is undefined.
func (d *Device) Alloc(bytes int64) (Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("cuMemAlloc: %d bytes asked of %s", bytes, d.name)
	}
	p, err := cu.MemAlloc(bytes)
	if err != nil {
		e := failure("cuMemAlloc", err)
		e.Found = fmt.Sprintf("%s asked", byteText(bytes))
		if free, total, err := cu.MemInfo(); err == nil {
			e.Found += fmt.Sprintf(", %s of %s free on %s", byteText(free), byteText(total), d.name)
		}
		return 0, e
	}
	return Ptr(p), nil
}

// Free gives memory back, after all work that was queued on the device. 0 is none.
func (d *Device) Free(p Ptr) error {
	if p == 0 {
		return nil
	}
	return failed("cuMemFree", cu.MemFree(cu.DevicePtr(p)))
}

// byteText writes a size for people.
func byteText(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.2f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Pinned is memory of the host that stays where it is, so that the device copies
// to and from it while the host goes on. It is not Go's: the collector neither
// moves nor frees it.
type Pinned struct {
	bytes []byte // nil after Free
}

// Pinned allocates host memory for copies.
func (d *Device) Pinned(bytes int) (*Pinned, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("cuMemHostAlloc: %d bytes asked", bytes)
	}
	p, result := hostAlloc(bytes)
	if result != 0 {
		e := resultError("cuMemHostAlloc", result)
		e.Found = byteText(int64(bytes)) + " of page-locked host memory asked"
		if result == OutOfMemory {
			e.Advice = "free memory of the host, or raise the container's limit and ulimit -l"
		}
		return nil, e
	}
	return &Pinned{unsafe.Slice((*byte)(p), bytes)}, nil
}

// Bytes is the memory. It is gone after Free.
func (p *Pinned) Bytes() []byte { return p.bytes }

// Free gives the memory back. No copy may be under way.
func (p *Pinned) Free() error {
	if p.bytes == nil {
		return nil
	}
	base := unsafe.Pointer(unsafe.SliceData(p.bytes))
	p.bytes = nil
	return failed("cuMemFreeHost", cu.MemFreeHost(base))
}

// at gives the address of bytes from offset on, nil if they are not all inside.
func (p *Pinned) at(offset, bytes int) unsafe.Pointer {
	if offset < 0 || bytes < 0 || offset > len(p.bytes)-bytes {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.bytes)), offset)
}
