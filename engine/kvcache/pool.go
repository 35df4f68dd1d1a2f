// Package kvcache hands out the blocks of the KV cache. It knows integers only:
// which blocks are free, how many hold each, and which make up a sequence. The
// keys and values themselves live with the model's backend.
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
type Pool struct {
	blockSize int
	// free lists the free blocks. It is a stack: the block freed last is the one
	// whose memory is most likely still in the processor's caches, and a load
	// that never fills the pool touches only as much memory as it needs.
	free []int32
	refs []int32 // the number of holders of each block. [blocks]
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

// BlockSize is the number of positions of a block.
func (p *Pool) BlockSize() int { return p.blockSize }

// NumBlocks is the number of blocks, free and held.
func (p *Pool) NumBlocks() int { return len(p.refs) }

// NumFree is the number of free blocks.
func (p *Pool) NumFree() int { return len(p.free) }

// Usage is the share of blocks that are held, 0 … 1.
func (p *Pool) Usage() float64 {
	return float64(len(p.refs)-len(p.free)) / float64(len(p.refs))
}

// Alloc takes a free block for one holder; false when there is none.
func (p *Pool) Alloc() (block int32, ok bool) {
	if len(p.free) == 0 {
		return 0, false
	}
	block = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[block] = 1
	return block, true
}

// Share adds a holder to a block that has one.
func (p *Pool) Share(block int32) {
	p.mustBeHeld(block, "share")
	p.refs[block]++
}

// Free takes one holder off a block.
func (p *Pool) Free(block int32) {
	p.mustBeHeld(block, "free")
	p.refs[block]--
	if p.refs[block] == 0 {
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

// Check verifies the pool, and that the tables are all of its holders: each
// block is either free or held, once on the list or as often as counted. It is
// for tests; it takes time and memory in the number of blocks.
func (p *Pool) Check(tables ...*Table) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	listed := make([]int32, len(p.refs))
	for _, b := range p.free {
		if b < 0 || int(b) >= len(p.refs) {
			fault("free block %d of %d", b, len(p.refs))
			continue
		}
		listed[b]++
	}
	held := make([]int32, len(p.refs))
	for i, t := range tables {
		for _, b := range t.blocks {
			if b < 0 || int(b) >= len(p.refs) {
				fault("table %d holds block %d of %d", i, b, len(p.refs))
				continue
			}
			held[b]++
		}
	}
	for b, refs := range p.refs {
		if free := refs == 0; refs < 0 || listed[b] > 1 || free != (listed[b] == 1) {
			fault("block %d has %d holders and is %d times on the free list", b, refs, listed[b])
		}
		if held[b] != refs {
			fault("block %d has %d holders but is in %d tables", b, refs, held[b])
		}
	}
	return errors.Join(faults...)
}
