// Package kvcache hands out the blocks of the KV cache. It knows integers only:
// which blocks are free, how many hold each, which make up a sequence, and which
// full ones hold the beginning of another. The keys and values themselves live
// with the model's backend.
//
// The engine's loop owns the pool and every table: no method is called from two
// goroutines at a time.
package kvcache

import (
	"errors"
	"fmt"
)

// Pool is a fixed number of blocks of a fixed number of positions each. A block
// is free, or held by one or more; it becomes free when the last holder lets go.
//
// With a prefix cache, a free block may still be registered by what it holds. It
// counts as free, is found by a table that begins alike, and is given to anyone
// once no other is free: the one let go longest ago first. It is given away
// before that where keeping it would take memory that was never used: see
// CachePrefixes.
type Pool struct {
	blockSize int
	// free lists the free blocks that are not registered. It is a stack: the
	// block freed last is the one whose memory is most likely still in the
	// processor's caches, and a load that never fills the pool touches only as
	// much memory as it needs.
	free []int32
	refs []int32 // the number of holders of each block. [blocks]
	// used blocks, from the lowest up, have been given to somebody: the device has
	// memory for them.
	used int
	// prefixes is nil without a prefix cache.
	prefixes *prefixes
}

// NewPool makes a pool of free blocks of blockSize positions.
func NewPool(blocks, blockSize int) (*Pool, error) {
	var faults []error
	if blocks < 1 || blocks > maxBlocks {
		faults = append(faults, fmt.Errorf("kv cache: %d blocks are not in 1 … %d", blocks, maxBlocks))
	}
	if blockSize < 1 || blockSize > maxBlockSize || blockSize&(blockSize-1) != 0 {
		faults = append(faults, fmt.Errorf("kv cache: block size %d is not a power of two in 1 … %d; use 16 or 32", blockSize, maxBlockSize))
	}
	if len(faults) == 0 && int64(blocks)*int64(blockSize) > maxSlots {
		faults = append(faults, fmt.Errorf("kv cache: %d blocks of %d positions are more than the %d slots that a batch can name", blocks, blockSize, int64(maxSlots)))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p := &Pool{blockSize: blockSize, free: make([]int32, blocks), refs: make([]int32, blocks)}
	for i := range p.free {
		p.free[i] = int32(blocks - 1 - i) // block 0 leaves first
	}
	return p, nil
}

const (
	maxBlocks    = 1 << 30
	maxBlockSize = 1 << 12
	// maxSlots is what the int32 slots of a batch can name.
	maxSlots = 1 << 31
)

// CachePrefixes makes full blocks findable by what they hold, from here on: see
// Table.Adopt and Table.Publish, which do nothing without it. Free blocks are
// kept so as long as no memory is needed for others. Of those that more memory
// would have to be taken for, keep are kept at first, and one more whenever a
// block is searched for that was given away for this: memory goes to prefixes
// that come again.
func (p *Pool) CachePrefixes(keep int) {
	if p.prefixes == nil {
		p.prefixes = newPrefixes(len(p.refs), p.blockSize, keep)
	}
}

// BlockSize is the number of positions of a block.
func (p *Pool) BlockSize() int { return p.blockSize }

// NumBlocks is the number of blocks, free and held.
func (p *Pool) NumBlocks() int { return len(p.refs) }

// NumFree is the number of free blocks, registered ones among them.
func (p *Pool) NumFree() int { return len(p.free) + p.NumCached() }

// NumCached is the number of free blocks that are registered.
func (p *Pool) NumCached() int {
	if p.prefixes == nil {
		return 0
	}
	return p.prefixes.idle
}

// Usage is the share of blocks that are held, 0 … 1.
func (p *Pool) Usage() float64 {
	return float64(len(p.refs)-p.NumFree()) / float64(len(p.refs))
}

// Alloc takes a free block for one holder; false when there is none.
func (p *Pool) Alloc() (block int32, ok bool) {
	n := len(p.free)
	switch {
	case n > 0 && (int(p.free[n-1]) < p.used || p.prefixes == nil || p.prefixes.idle <= p.prefixes.keep):
		block, p.free = p.free[n-1], p.free[:n-1]
		p.used = max(p.used, int(block)+1)
	case p.NumCached() > 0:
		block = p.prefixes.oldest
		p.prefixes.wake(block)
		if n > 0 {
			p.prefixes.spare(block)
		}
		p.prefixes.remove(block)
	default:
		return 0, false
	}
	p.refs[block] = 1
	return block, true
}

// share adds a holder to a block that has one, or that is registered.
func (p *Pool) share(block int32) {
	if p.prefixes.has(block) && p.refs[block] == 0 {
		p.prefixes.wake(block)
	} else {
		p.mustBeHeld(block, "share")
	}
	p.refs[block]++
}

// Free takes one holder off a block.
func (p *Pool) Free(block int32) {
	p.mustBeHeld(block, "free")
	p.refs[block]--
	switch {
	case p.refs[block] > 0:
	case p.prefixes.has(block):
		p.prefixes.rest(block)
	default:
		p.free = append(p.free, block)
	}
}

// mustBeHeld stops at a fault of our own: going on would give one block to two
// sequences, which would then read each other's text.
func (p *Pool) mustBeHeld(block int32, action string) {
	if block < 0 || int(block) >= len(p.refs) {
		panic(fmt.Sprintf("kvcache: %s block %d of %d", action, block, len(p.refs)))
	}
	if p.refs[block] < 1 {
		panic(fmt.Sprintf("kvcache: %s block %d, which nobody holds", action, block))
	}
}
