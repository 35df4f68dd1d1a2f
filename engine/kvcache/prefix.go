package kvcache

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Root names who may share blocks: tables with different roots never do. It is
// a digest of all that keys and values depend on beside the tokens, and of whom
// they belong to.
type Root [32]byte

// prefixes finds full blocks by what they hold. A block's registration names
// the registration before it, so that one block stands for the whole prefix
// that it ends; a hit is compared token by token, and a hash is only where the
// search begins.
//
// Each registration has a serial number of its own. A block that is taken for
// something else loses its number, and what was registered behind it is found
// no more, wherever it lies.
type prefixes struct {
	blockSize int
	// hash continues a chain's hash; tests make it collide.
	hash func(previous uint64, tokens []int32) uint64
	seed uint64
	// words are those of the root that is hashed.
	words [len(Root{}) / 4]int32
	// slots is a table of block+1 by hash with linear probing; 0 is empty. Its
	// length is a power of two, at least twice the number of blocks.
	slots   []int32
	entries []entry // by block, up to the highest that was ever registered
	tokens  []int32 // [len(entries), blockSize]
	serial  uint64  // the last one given

	// keep is the number of idle blocks that memory is taken for. spared holds the
	// hashes of blocks that were given away above it, at the place that a hash
	// names, 0 where there is none; its length is that of slots. A search for one
	// of them shows that keep is too low.
	keep   int
	spared []uint64

	// The registered blocks that nobody holds, in the order in which they were
	// let go: the list's ends, and its length.
	oldest, youngest int32
	idle             int
}

// entry describes a registered block.
type entry struct {
	// serial is the registration's number; 0: the block is not registered.
	serial uint64
	// parent is the serial of the block before, 0 for the first of a prefix.
	parent uint64
	hash   uint64 // of the root and all tokens up to the block's end
	root   Root
	// older and younger are the neighbours among the idle blocks.
	older, younger int32
}

// none is no block.
const none = -1

func newPrefixes(blocks, blockSize, keep int) *prefixes {
	slots := 1 << bits.Len(uint(2*blocks-1))
	return &prefixes{
		blockSize: blockSize,
		hash:      hashTokens,
		seed:      rand.Uint64(),
		slots:     make([]int32, slots),
		keep:      keep,
		spared:    make([]uint64, slots),
		oldest:    none,
		youngest:  none,
	}
}

// hashTokens continues a hash by multiplying and folding, two tokens a turn. It
// begins with a seed of this process, so that nobody outside can choose tokens
// that meet in one place; what is found is compared anyway.
func hashTokens(previous uint64, tokens []int32) uint64 {
	h := previous
	for i := 0; i < len(tokens); i += 2 {
		x := uint64(uint32(tokens[i]))
		if i+1 < len(tokens) {
			x |= uint64(uint32(tokens[i+1])) << 32
		}
		hi, lo := bits.Mul64(h^x^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
		h = hi ^ lo
	}
	return h
}

// chain is a place in the tree of prefixes: the end of a run of blocks.
type chain struct {
	root   Root
	hash   uint64
	serial uint64 // of the last block, 0 at the root
}

// start is the place before the first block.
func (x *prefixes) start(root Root) chain {
	for i := range x.words {
		x.words[i] = int32(binary.LittleEndian.Uint32(root[4*i:]))
	}
	return chain{root: root, hash: x.hash(x.seed, x.words[:])}
}

// find returns the block that continues c with these tokens, or none, and its
// hash in either case.
func (x *prefixes) find(c *chain, tokens []int32) (block int32, hash uint64) {
	hash = x.hash(c.hash, tokens)
	return x.probe(hash, c, tokens), hash
}

// probe searches among the blocks of a hash.
func (x *prefixes) probe(hash uint64, c *chain, tokens []int32) int32 {
	mask := len(x.slots) - 1
	for at := int(hash) & mask; x.slots[at] != 0; at = (at + 1) & mask {
		block := x.slots[at] - 1
		e := &x.entries[block]
		if e.hash == hash && e.parent == c.serial && e.root == c.root && slices.Equal(x.held(block), tokens) {
			return block
		}
	}
	return none
}

// held is the tokens of a block, as registered.
func (x *prefixes) held(block int32) []int32 {
	at := int(block) * x.blockSize
	return x.tokens[at : at+x.blockSize]
}

// add registers a block that continues c, and moves c to its end.
func (x *prefixes) add(c *chain, block int32, hash uint64, tokens []int32) {
	if n := int(block) + 1; n > len(x.entries) {
		n = max(n, 2*len(x.entries)) // blocks are handed out from the lowest up
		x.entries = append(x.entries, make([]entry, n-len(x.entries))...)
		x.tokens = append(x.tokens, make([]int32, n*x.blockSize-len(x.tokens))...)
	}
	x.serial++
	x.entries[block] = entry{serial: x.serial, parent: c.serial, hash: hash, root: c.root, older: none, younger: none}
	copy(x.held(block), tokens)
	mask := len(x.slots) - 1
	at := int(hash) & mask
	for x.slots[at] != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = block + 1
	c.hash, c.serial = hash, x.serial
}

// has tells whether a block is registered.
func (x *prefixes) has(block int32) bool {
	return x != nil && int(block) < len(x.entries) && x.entries[block].serial != 0
}

// remove forgets what a block holds; it is not idle.
func (x *prefixes) remove(block int32) {
	mask := len(x.slots) - 1
	hole := int(x.entries[block].hash) & mask
	for x.slots[hole] != block+1 {
		hole = (hole + 1) & mask
	}
	// What follows moves up unless it stands where its own search begins.
	// Source: Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm R.
	for at := (hole + 1) & mask; x.slots[at] != 0; at = (at + 1) & mask {
		home := int(x.entries[x.slots[at]-1].hash) & mask
		if (at-home)&mask >= (at-hole)&mask {
			x.slots[hole] = x.slots[at]
			hole = at
		}
	}
	x.slots[hole] = 0
	x.entries[block].serial = 0
}

// spare notes that a block is given away although others are free.
func (x *prefixes) spare(block int32) {
	hash := x.entries[block].hash
	x.spared[int(hash)&(len(x.spared)-1)] = hash
}

// miss is told the hash of a block that was not found, and the tokens behind it.
// For each that was spared, from the first on, one more is kept from here on.
func (x *prefixes) miss(hash uint64, tokens []int32) {
	for {
		at := int(hash) & (len(x.spared) - 1)
		if x.spared[at] != hash || hash == 0 {
			return
		}
		x.spared[at] = 0
		x.keep++
		if len(tokens) < x.blockSize {
			return
		}
		hash = x.hash(hash, tokens[:x.blockSize])
		tokens = tokens[x.blockSize:]
	}
}

// rest makes a registered block the youngest of those that nobody holds.
func (x *prefixes) rest(block int32) {
	e := &x.entries[block]
	e.older, e.younger = x.youngest, none
	if x.youngest == none {
		x.oldest = block
	} else {
		x.entries[x.youngest].younger = block
	}
	x.youngest = block
	x.idle++
}

// wake takes a block from among those that nobody holds.
func (x *prefixes) wake(block int32) {
	e := &x.entries[block]
	if e.older == none {
		x.oldest = e.younger
	} else {
		x.entries[e.older].younger = e.younger
	}
	if e.younger == none {
		x.youngest = e.older
	} else {
		x.entries[e.younger].older = e.older
	}
	e.older, e.younger = none, none
	x.idle--
}
