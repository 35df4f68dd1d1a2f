//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// stageBytes is the size of one of the two staging buffers. While the device
// copies one, the host packs rows into the other.
const stageBytes = 16 << 20

// upload brings weights to the device.
type upload struct {
	device      *driver.Device
	stream      *driver.Stream
	stages      [2]stage
	next        int
	done, total int64 // bytes on the device, and bytes announced
}

// stage is pinned memory, and the mark after which it is free.
type stage struct {
	buffer *driver.Pinned
	copied *driver.Event
	used   bool
}

// stage returns a buffer of at least n bytes that is free.
func (u *upload) stage(n int) (*stage, error) {
	s := &u.stages[u.next]
	u.next = 1 - u.next
	if s.used {
		if err := s.copied.Sync(); err != nil {
			return nil, err
		}
		s.used = false
	}
	if s.buffer != nil && len(s.buffer.Bytes()) < n {
		if err := s.buffer.Free(); err != nil {
			return nil, err
		}
		s.buffer = nil
	}
	var err error
	if s.buffer == nil {
		if s.buffer, err = u.device.Pinned(n); err != nil {
			return nil, err
		}
	}
	if s.copied == nil {
		s.copied, err = u.device.NewEvent()
	}
	return s, err
}

// sent marks a buffer as being copied.
func (u *upload) sent(s *stage) error {
	s.used = true
	return u.stream.Record(s.copied)
}

// bytes sends a few bytes.
func (u *upload) bytes(to driver.Ptr, data []byte) error {
	s, err := u.stage(len(data))
	if err != nil {
		return err
	}
	copy(s.buffer.Bytes(), data)
	if err := u.stream.CopyToDevice(to, s.buffer, 0, len(data)); err != nil {
		return err
	}
	return u.sent(s)
}

// matrix packs a tensor's rows and sends them to where the layout has them.
func (u *upload) matrix(to driver.Ptr, l kernels.Layout, data []byte) error {
	rowBytes := l.StageBytes(1)
	most := max(1, stageBytes/rowBytes)
	for from := 0; from < l.Rows; from += most {
		n := min(most, l.Rows-from)
		s, err := u.stage(max(stageBytes, n*rowBytes))
		if err != nil {
			return err
		}
		planes := l.Carve(s.buffer.Bytes()[:l.StageBytes(n)], n)
		if err := packRows(l, planes, data[from*l.SourceRowBytes():][:n*l.SourceRowBytes()], n); err != nil {
			return fmt.Errorf("from row %d on: %w", from, err)
		}
		at := 0
		for p, plane := range planes {
			if err := u.stream.CopyToDevice(to+driver.Ptr(l.Offset(p)+int64(from)*int64(l.RowBytes(p))), s.buffer, at, len(plane)); err != nil {
				return err
			}
			at += len(plane)
		}
		if err := u.sent(s); err != nil {
			return err
		}
	}
	return nil
}

// packRows packs rows on all cores.
func packRows(l kernels.Layout, to kernels.Planes, data []byte, rows int) error {
	workers := min(runtime.GOMAXPROCS(0), rows)
	faults := make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		from, end := i*rows/workers, (i+1)*rows/workers
		part := to
		for p := range part {
			part[p] = part[p][from*l.RowBytes(p) : end*l.RowBytes(p)]
		}
		blocks := data[from*l.SourceRowBytes() : end*l.SourceRowBytes()]
		wait.Go(func() {
			faults[i] = gguf.Guard(func() error { return l.Pack(part, blocks, end-from) })
		})
	}
	wait.Wait()
	return errors.Join(faults...)
}

// close gives the buffers back, after the copies that are under way. They are made
// again if somebody needs them.
func (u *upload) close() error {
	var faults []error
	for i := range u.stages {
		s := &u.stages[i]
		if s.used {
			faults = append(faults, s.copied.Sync())
		}
		if s.copied != nil {
			faults = append(faults, s.copied.Close())
		}
		if s.buffer != nil {
			faults = append(faults, s.buffer.Free())
		}
		*s = stage{}
	}
	return errors.Join(faults...)
}

// NewWeight implements backend.Backend. It has read all that it needs of the
// tensor's data when it returns.
func (b *Backend) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	l, err := layoutOf(t)
	if err != nil {
		return nil, fmt.Errorf("cuda backend: %w", err)
	}
	w := &weight{name: t.Name, layout: l}
	data := t.Data
	if l.Rows == 1 && t.Type != gguf.F32 {
		if data, err = floats(t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	err = b.entered(func() error {
		p, err := b.memory.take(l.Bytes())
		if err != nil {
			return err
		}
		w.data = uint64(p)
		return b.loading.matrix(p, l, data)
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	b.widest = max(b.widest, l.Rows)
	b.library.weights = b.library.weights || b.library.multiplies(l)
	b.loading.done += aligned(l.Bytes())
	b.options.Progress(b.loading.done, max(b.loading.done, b.loading.total))
	return w, nil
}

// floats dequantises a tensor to the bytes of float32.
func floats(t gguf.Tensor) ([]byte, error) {
	values := make([]float32, t.Elements())
	if err := gguf.Guard(func() error { return gguf.Dequantize(values, t.Data, t.Type) }); err != nil {
		return nil, err
	}
	return floatBytes(values), nil
}

// floatBytes is the bytes of numbers, as the device has them.
func floatBytes(values []float32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}
