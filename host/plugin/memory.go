package plugin

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental"
)

// guestMemory is the linear memory of one instance. The limit is kept here
// and not by wazero, which would not tell that a guest ran into it: to know
// a lack of memory from another trap, and to say where the memory lies, is what
// makes it worth an experimental interface.
type guestMemory struct {
	space   *memorySpace
	bytes   []byte // what the guest has of space; its length is what its accesses are checked against
	limit   uint64 // bytes
	refused bool   // the guest asked for more than limit
	kept    int    // bytes that snapshot has seen
}

func newGuestMemory(limit uint64) (*guestMemory, error) {
	space, err := newMemorySpace(limit)
	if err != nil {
		return nil, err
	}
	return &guestMemory{space: space, limit: limit}, nil
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
	m.bytes = m.space.grow(int(size))
	return m.bytes
}

// Free implements experimental.LinearMemory. wazero may call it while guest
// code is still on the stack, so the space goes later, with release.
func (m *guestMemory) Free() { m.bytes = nil }

// snapshot keeps the memory as it is for reset.
func (m *guestMemory) snapshot() error {
	m.kept = len(m.bytes)
	return m.space.keep(m.bytes)
}

var errGrown = errors.New("its memory has grown in the call")

// reset puts the memory back to its snapshot. A memory can't shrink, and a
// guest whose memory is larger than it remembers grows it again and again, so
// a memory that has grown is not put back.
func (m *guestMemory) reset() error {
	if len(m.bytes) != m.kept {
		return errGrown
	}
	return m.space.restore(m.bytes)
}

// release gives the memory back once no guest code can run any more. Nothing
// may hold a view of it any longer.
func (m *guestMemory) release() {
	m.bytes = nil
	m.space.close()
}
