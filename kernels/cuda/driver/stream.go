//go:build cuda && cgo && linux

package driver

import (
	"fmt"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// maxArgs is the number of arguments that a launch can have; the device takes
// 4 KiB of them, and no kernel here comes near.
const maxArgs = 64

// Stream is a queue of the device: what is put into it runs in order.
type Stream struct {
	device *Device
	stream cu.Stream
	// words hold the arguments of the launch that is being made, and params[i]
	// points to words[i]: arguments that the caller's slice were asked to keep
	// would move it to the heap.
	words  [maxArgs]uint64
	params [maxArgs]unsafe.Pointer
	// last is the kernel that was launched last, or the graph: an error that shows
	// later can be of any work up to it.
	last string
}

// NewStream makes a queue that does not wait for the default stream.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{device: d}
	for i := range s.params {
		s.params[i] = unsafe.Pointer(&s.words[i])
	}
	var err error
	if s.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return nil, failed("cuStreamCreate", err)
	}
	return s, nil
}

// Close gives the queue back; what is in it still runs.
func (s *Stream) Close() error { return failed("cuStreamDestroy", s.stream.Destroy()) }

// Launch is the shape of a launch.
type Launch struct {
	Grid, Block [3]uint32
	// Shared is the dynamic shared memory of a block, bytes.
	Shared uint32
}

func (l Launch) String() string {
	return fmt.Sprintf("grid %d×%d×%d, block %d×%d×%d, %d bytes shared",
		l.Grid[0], l.Grid[1], l.Grid[2], l.Block[0], l.Block[1], l.Block[2], l.Shared)
}

// Launch puts a kernel into the queue. Each argument is a word: a Ptr, or the bits
// of an int32 or float32 in the low half. Their number and types are not checked
// by the driver. args can be used again at once.
func (s *Stream) Launch(f *Function, l Launch, args []uint64) error {
	if len(args) > maxArgs {
		return fmt.Errorf("launch %s: %d arguments, and at most %d can be passed", f.name, len(args), maxArgs)
	}
	copy(s.words[:], args)
	err := f.function.Launch(int(l.Grid[0]), int(l.Grid[1]), int(l.Grid[2]), int(l.Block[0]), int(l.Block[1]), int(l.Block[2]),
		int(l.Shared), s.stream, s.params[:len(args)])
	if err != nil {
		return s.launchFailed(f, l, err)
	}
	s.last = f.name
	return nil
}

func (s *Stream) launchFailed(f *Function, l Launch, err error) error {
	e := failure("cuLaunchKernel", err)
	e.Found = fmt.Sprintf("kernel %s, %v", f.name, l)
	if e.Result.Lost() && s.last != "" {
		e.Found += fmt.Sprintf("; the fault can be of work before it, up to %s", s.last)
	}
	return e
}

// waited is failed for calls that show what work before them did.
func (s *Stream) waited(call string, err error) error {
	if err == nil {
		return nil
	}
	e := failure(call, err)
	if e.Result.Lost() && s.last != "" {
		e.Found = "of work up to " + s.last
	}
	return e
}

// CopyToDevice queues a copy of bytes from src's offset on. They must stay as they
// are until it is done.
func (s *Stream) CopyToDevice(dst Ptr, src *Pinned, offset, bytes int) error {
	if bytes == 0 {
		return nil
	}
	from := src.at(offset, bytes)
	if from == nil {
		return outside("copy to the device", src, offset, bytes)
	}
	return s.waited("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), from, int64(bytes), s.stream))
}

// CopyToHost queues a copy of bytes to dst's offset. They are there once it is
// done, and anything before.
func (s *Stream) CopyToHost(dst *Pinned, offset int, src Ptr, bytes int) error {
	if bytes == 0 {
		return nil
	}
	to := dst.at(offset, bytes)
	if to == nil {
		return outside("copy to the host", dst, offset, bytes)
	}
	return s.waited("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(to, cu.DevicePtr(src), int64(bytes), s.stream))
}

func outside(what string, p *Pinned, offset, bytes int) error {
	return fmt.Errorf("%s: %d bytes at %d of pinned memory of %d", what, bytes, offset, len(p.bytes))
}

// CopyOnDevice queues a copy within the device; the two must not overlap.
func (s *Stream) CopyOnDevice(dst, src Ptr, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return s.waited("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), bytes, s.stream))
}

// Fill queues setting bytes to a value.
func (s *Stream) Fill(dst Ptr, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return s.waited("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, s.stream))
}

// Sync waits until the queue is empty, and returns what went wrong in it.
func (s *Stream) Sync() error {
	return s.waited("cuStreamSynchronize", s.stream.Synchronize())
}

// Event is a mark in a stream, and the time when the device came by.
type Event struct {
	event cu.Event
}

// NewEvent makes an event that keeps time.
func (d *Device) NewEvent() (*Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	if err != nil {
		return nil, failed("cuEventCreate", err)
	}
	return &Event{e}, nil
}

// Close gives the event back.
func (e *Event) Close() error { return failed("cuEventDestroy", cu.DestroyEvent(&e.event)) }

// Record puts the mark into the queue; a mark put before counts no more.
func (s *Stream) Record(e *Event) error {
	return s.waited("cuEventRecord", e.event.Record(s.stream))
}

// Wait makes the queue wait for a mark, in whatever stream it is.
func (s *Stream) Wait(e *Event) error {
	return s.waited("cuStreamWaitEvent", s.stream.Wait(e.event, 0))
}

// Sync waits until the device has come by the mark.
func (e *Event) Sync() error { return failed("cuEventSynchronize", e.event.Synchronize()) }

// Since is the device's time between two marks, which it must have come by. Its
// resolution is about half a microsecond.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	ms, result := elapsed(earlier.event, e.event)
	if result != 0 {
		return 0, resultError("cuEventElapsedTime", result)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
