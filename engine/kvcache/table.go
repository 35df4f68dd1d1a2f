package kvcache

import "fmt"

// Table is the blocks of one sequence: block i holds its positions
// i·blockSize … (i+1)·blockSize−1. The zero value is a sequence without any.
type Table struct {
	blocks    []int32
	blockSize int // the pool's, from the first Grow on
}

// Blocks is the table for a batch, valid until it grows or is released.
func (t *Table) Blocks() []int32 { return t.blocks }

// Need is the number of blocks that are missing until the table holds n
// positions. That of an empty table says whether a sequence can ever fit.
func (t *Table) Need(n, blockSize int) int {
	blocks := n / blockSize
	if n%blockSize > 0 {
		blocks++
	}
	return max(0, blocks-len(t.blocks))
}

// Grow takes blocks from the pool until the table holds n positions. Without
// enough free ones it takes none and returns false. A table never shrinks.
func (t *Table) Grow(pool *Pool, n int) bool {
	need := t.Need(n, pool.blockSize)
	if need > pool.NumFree() {
		return false
	}
	t.blockSize = pool.blockSize
	for range need {
		block, _ := pool.Alloc() // the free blocks were counted
		t.blocks = append(t.blocks, block)
	}
	return true
}

// Slot is where a position's key and value are stored: block · blockSize +
// offset within the block.
func (t *Table) Slot(position int) int32 {
	if position < 0 || position >= len(t.blocks)*t.blockSize {
		panic(fmt.Sprintf("kvcache: position %d is not in %d blocks of %d", position, len(t.blocks), t.blockSize))
	}
	return t.blocks[position/t.blockSize]*int32(t.blockSize) + int32(position%t.blockSize)
}

// Release gives every block back and leaves the table empty, so that a second
// call gives nothing back twice. The last block goes first: the next sequence
// then takes them in the same order.
func (t *Table) Release(pool *Pool) {
	for i := len(t.blocks) - 1; i >= 0; i-- {
		pool.Free(t.blocks[i])
	}
	t.blocks = t.blocks[:0]
}
