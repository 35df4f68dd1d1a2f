package tokenizer

import (
	"math/bits"
	"math/rand/v2"
)

// A merge is what two neighbouring tokens become; lower ranks merge first.
// Ranks are unique, so a rank names its pair.
type merge struct{ rank, token int32 }

// noRank is the rank of a pair that does not merge, above every other.
const noRank = 1<<31 - 1

// A pairTable maps pairs of tokens to merges. It is an open-addressing table,
// because looking pairs up is most of the work of merging: with Go's map, a
// model takes 1.6 times as long to load and Korean 1.8 times to encode.
type pairTable struct {
	slots []pairSlot // a power of two of them, at most half in use
	// multiplier is odd and random, so that no file can be made whose pairs
	// all fall together.
	multiplier uint64
	shift      uint
}

type pairSlot struct {
	left, right int32 // left is None in an empty slot
	merge
}

// newPairTable makes a table for up to n pairs.
func newPairTable(n int) *pairTable {
	size := bits.Len(uint(2*n + 1))
	t := &pairTable{
		slots:      make([]pairSlot, 1<<size),
		multiplier: rand.Uint64() | 1,
		shift:      uint(64 - size),
	}
	for i := range t.slots {
		t.slots[i] = pairSlot{left: None, merge: merge{rank: noRank, token: None}}
	}
	return t
}

// slot returns the slot of the pair, or the empty one where it would be.
func (t *pairTable) slot(left, right int32) *pairSlot {
	at := (uint64(uint32(left))<<32 | uint64(uint32(right))) * t.multiplier >> t.shift
	for {
		s := &t.slots[at&uint64(len(t.slots)-1)]
		if s.left == left && s.right == right || s.left == None {
			return s
		}
		at++
	}
}

// add takes in a pair. Of two entries for a pair the first counts.
func (t *pairTable) add(left, right int32, m merge) {
	if s := t.slot(left, right); s.left == None {
		*s = pairSlot{left, right, m}
	}
}

// find returns the pair's merge, or one of noRank.
func (t *pairTable) find(left, right int32) merge { return t.slot(left, right).merge }
