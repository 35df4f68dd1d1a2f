//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// resultsHeader is the size of what lies before the logits, so that one copy brings
// both: an int32 that is 1 where a logit is not finite, and what aligns the logits.
const resultsHeader = 256

// results are the step's logits on their way to the host.
type results struct {
	device driver.Ptr     // the header, then float32 [rows, vocab] for a part of the rows
	bytes  int64          // of device
	host   *driver.Pinned // the header, then float32 [sampled rows, vocab]
	// rows and vocab are the step's; rows is 0 where it gives no logits.
	sampled, vocab int
}

// rows is where the logits begin on the device.
func (r *results) rows() driver.Ptr { return r.device + resultsHeader }

// logitsRows is the number of rows of logits that the device has room for.
func (b *Backend) logitsRows() int {
	return min(powerOfTwo(b.options.MaxSeqs), powerOfTwo(b.options.MaxRows))
}

// Logits implements backend.Backend.
func (b *Backend) Logits(w backend.Weight, x backend.Tensor) []float32 {
	matrix, n := w.(*weight), len(b.batch.Sample)
	b.out.sampled, b.out.vocab = n, matrix.Rows()
	if n == 0 {
		return nil
	}
	b.list.add(op{kind: logits, w: [maxShared]*weight{matrix}, x: x.(*tensor)})
	if err := b.makeRoom(n, matrix.Rows()); err != nil {
		b.err = errors.Join(b.err, err)
		return nil
	}
	return b.out.floats()
}

// logitsBytes is what logits take on the device, of as many rows as are usual at once.
func (b *Backend) logitsBytes(vocab int) int64 {
	return resultsHeader + 4*int64(b.logitsRows())*int64(vocab)
}

// holds tells whether there is so much room on the device.
func (r *results) holds(bytes int64) bool { return r.bytes >= bytes }

// makeRoom sizes the memory for logits, on the device and on the host.
func (b *Backend) makeRoom(rows, vocab int) error {
	host := resultsHeader + 4*max(rows, b.logitsRows())*vocab
	device := b.logitsBytes(vocab)
	if b.out.host != nil && len(b.out.host.Bytes()) >= host && b.out.holds(device) {
		return nil
	}
	return b.entered(func() error {
		if err := b.makeRoomOnDevice(device); err != nil {
			return err
		}
		if err := b.out.close(); err != nil {
			return err
		}
		var err error
		b.out.host, err = b.device.Pinned(host)
		return err
	})
}

// makeRoomOnDevice takes so much memory for logits, unless there is as much. Captured
// steps would write to where they were.
func (b *Backend) makeRoomOnDevice(bytes int64) error {
	if b.out.holds(bytes) {
		return nil
	}
	if err := errors.Join(b.stream.Sync(), b.dropGraphs()); err != nil {
		return err
	}
	p, err := b.memory.take(bytes)
	if err == nil {
		b.out.device, b.out.bytes = p, bytes
	}
	return err
}

// floats is the host's part as numbers. The memory is not Go's, and lives until
// the backend makes room for more.
func (r *results) floats() []float32 {
	data := r.host.Bytes()[resultsHeader:]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), r.sampled*r.vocab)
}

// fetch queues the copy of some rows to their places, those on the device being rows
// from … on.
func (r *results) fetch(s *driver.Stream, from, rows, vocab int) error {
	return s.CopyToHost(r.host, resultsHeader+4*from*vocab, r.rows(), 4*rows*vocab)
}

// fetchLast queues the copy of the last part and of the header: one copy where there
// is one part.
func (r *results) fetchLast(s *driver.Stream, most int) error {
	if r.sampled == 0 {
		return nil
	}
	if r.sampled <= most {
		return s.CopyToHost(r.host, 0, r.device, resultsHeader+4*r.sampled*r.vocab)
	}
	from := (r.sampled - 1) / most * most
	if err := r.fetch(s, from, r.sampled-from, r.vocab); err != nil {
		return err
	}
	return s.CopyToHost(r.host, 0, r.device, resultsHeader)
}

// fault is ErrNotFinite if a logit was not.
func (r *results) fault() error {
	if r.sampled > 0 && binary.LittleEndian.Uint32(r.host.Bytes()) != 0 {
		return backend.ErrNotFinite
	}
	return nil
}

// close gives the host's memory back.
func (r *results) close() error {
	if r.host == nil {
		return nil
	}
	err := r.host.Free()
	r.host = nil
	return err
}
