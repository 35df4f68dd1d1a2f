package plugin

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental"
)

// guestMemory is the linear memory of one instance. The limit is kept here
// and not by wazero, which would not tell that a guest ran into it: to know
// a lack of memory from another trap is what makes it worth an experimental
// interface.
type guestMemory struct {
	bytes   []byte
	limit   uint64 // bytes
	refused bool   // the guest asked for more than limit
	// image is set for an instance that is reset after each call.
	image *memoryImage
	kept  int // bytes of the memory in image
}

// newGuestMemory makes a memory that can be put back if resettable.
func newGuestMemory(limit uint64, resettable bool) (*guestMemory, error) {
	m := &guestMemory{limit: limit}
	if resettable {
		var err error
		if m.image, err = newMemoryImage(limit); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Allocate implements experimental.MemoryAllocator; an instance has one
// memory.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory: memory.grow gives -1 when
// it returns nil. The load checks hold a module's first size under the limit.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if m.image != nil {
		m.bytes = m.image.grow(m.bytes, int(size))
		return m.bytes
	}
	if size > uint64(cap(m.bytes)) {
		// Twice the room each time, so that a guest that grows page by page
		// doesn't have its memory copied again and again.
		room := max(size, min(2*uint64(cap(m.bytes)), m.limit))
		m.bytes = append(make([]byte, 0, room), m.bytes...)
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free implements experimental.LinearMemory. wazero may call it while guest
// code is still on the stack, so an image goes later, with release.
func (m *guestMemory) Free() { m.bytes = nil }

// snapshot keeps the memory as it is for reset.
func (m *guestMemory) snapshot() error {
	m.kept = len(m.bytes)
	return m.image.keep(m.bytes)
}

var errGrown = errors.New("its memory has grown in the call")

// reset puts the memory back to its snapshot. A memory can't shrink, and a
// guest whose memory is larger than it remembers grows it again and again, so
// a memory that has grown is not put back.
func (m *guestMemory) reset() error {
	if len(m.bytes) != m.kept {
		return errGrown
	}
	return m.image.restore(m.bytes)
}

// release gives the memory back once no guest code can run any more.
func (m *guestMemory) release() {
	m.bytes = nil
	if m.image != nil {
		m.image.close()
		m.image = nil
	}
}
