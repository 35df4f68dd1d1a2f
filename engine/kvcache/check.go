package kvcache

import (
	"errors"
	"fmt"
)

// Check verifies the pool, and that the tables are all of its holders: each
// block is either free or held, once on a list of free ones or as often as
// counted, and is found by what it holds exactly if it is registered. It is for
// tests; it takes time and memory in the number of blocks.
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
		if p.prefixes.has(b) {
			fault("block %d is registered and on the list of those that are not", b)
		}
	}
	if p.prefixes != nil {
		p.prefixes.check(listed, fault)
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

// check verifies the index and counts the idle blocks in listed.
func (x *prefixes) check(listed []int32, fault func(string, ...any)) {
	registered, serials := 0, map[uint64]int{}
	for b := range x.entries {
		e := &x.entries[b]
		if e.serial == 0 {
			continue
		}
		registered++
		if other, ok := serials[e.serial]; ok {
			fault("blocks %d and %d have the serial %d", other, b, e.serial)
		}
		serials[e.serial] = b
		c := chain{root: e.root, serial: e.parent}
		if found := x.probe(e.hash, &c, x.held(int32(b))); found != int32(b) {
			fault("block %d is registered, and its search finds %d", b, found)
		}
	}
	taken := 0
	for _, s := range x.slots {
		if s != 0 {
			taken++
		}
	}
	if taken != registered {
		fault("%d blocks are registered, and %d slots are taken", registered, taken)
	}
	idle, before := 0, int32(none)
	for b := x.oldest; b != none && idle <= len(listed); b = x.entries[b].younger {
		if !x.has(b) || x.entries[b].older != before {
			fault("idle block %d: registered %v, follows %d and not %d", b, x.has(b), x.entries[b].older, before)
		}
		listed[b]++
		idle++
		before = b
	}
	if idle != x.idle || before != x.youngest {
		fault("%d blocks are idle up to %d; counted are %d up to %d", idle, before, x.idle, x.youngest)
	}
}
