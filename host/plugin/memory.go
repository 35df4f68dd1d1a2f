package plugin

import (
	"slices"

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
	more := int(size) - len(m.bytes)
	m.bytes = slices.Grow(m.bytes, more)[:size]
	return m.bytes
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() { m.bytes = nil }
