package kvcache

import (
	"fmt"
	"slices"
)

// Table is the blocks of one sequence: block i holds its positions
// i·blockSize … (i+1)·blockSize−1. The zero value is a sequence without any.
type Table struct {
	blocks    []int32
	blockSize int // the pool's, from the first Grow or Adopt on
	// published leading blocks are registered, as themselves or as others that
	// hold the same; end is where they end.
	published int
	end       chain
}

// Blocks is the table for a batch, valid until it grows or is released.
func (t *Table) Blocks() []int32 { return t.blocks }

// moreRoom is the least number of blocks that a table makes room for at a time.
const moreRoom = 8

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
	if len(t.blocks)+need > cap(t.blocks) {
		t.blocks = slices.Grow(t.blocks, max(need, moreRoom))
	}
	for range need {
		block, _ := pool.Alloc() // the free blocks were counted
		t.blocks = append(t.blocks, block)
	}
	return true
}

// Adopt begins an empty table with the registered blocks that hold the beginning
// of tokens under root, as far as there are any, and returns how many positions
// they hold: whole blocks, and never all of tokens, since the last must be
// computed to go on from it.
func (t *Table) Adopt(pool *Pool, root Root, tokens []int32) int {
	x := pool.prefixes
	if len(t.blocks) > 0 {
		panic("kvcache: adopt into a table that has blocks")
	}
	if x == nil {
		return 0
	}
	t.blockSize = pool.blockSize
	t.end = x.start(root)
	for t.published = 0; (t.published+1)*t.blockSize < len(tokens); t.published++ {
		block, hash := x.find(&t.end, t.at(tokens))
		if block == none {
			x.miss(hash, tokens[(t.published+1)*t.blockSize:])
			break
		}
		pool.share(block)
		t.blocks = append(t.blocks, block)
		t.end.hash, t.end.serial = hash, x.entries[block].serial
	}
	return t.published * t.blockSize
}

// Publish registers the table's full blocks: they hold tokens, which are those
// of its first positions under the root it was adopted with, or will hold them
// before anybody reads what is found. Where an equal block is registered, the
// table keeps its own, and goes on behind the other.
func (t *Table) Publish(pool *Pool, tokens []int32) {
	x := pool.prefixes
	if x == nil {
		return
	}
	for ; (t.published+1)*t.blockSize <= len(tokens); t.published++ {
		block, hash := x.find(&t.end, t.at(tokens))
		if block == none {
			x.add(&t.end, t.blocks[t.published], hash, t.at(tokens))
			continue
		}
		t.end.hash, t.end.serial = hash, x.entries[block].serial
	}
}

// at is the tokens of the first block that is not published.
func (t *Table) at(tokens []int32) []int32 {
	return tokens[t.published*t.blockSize : (t.published+1)*t.blockSize]
}

// Forget withdraws the table's blocks from those that can be found: what they
// hold is not to be trusted. Others that hold them are not told.
func (t *Table) Forget(pool *Pool) {
	for _, block := range t.blocks {
		if pool.prefixes.has(block) {
			pool.prefixes.remove(block)
		}
	}
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
	t.blocks, t.published = t.blocks[:0], 0
}
