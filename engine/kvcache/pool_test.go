package kvcache

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRandomOperations keeps a model of what each table must hold, and compares
// after every operation.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		blocks, blockSize := 1+rng.IntN(40), 1<<rng.IntN(6)
		pool, err := NewPool(blocks, blockSize)
		if err != nil {
			t.Fatal(err)
		}
		tables := make([]*Table, 6)
		want := make([]int, len(tables)) // the number of blocks of each
		for i := range tables {
			tables[i] = new(Table)
		}
		for step := range 400 {
			i := rng.IntN(len(tables))
			switch rng.IntN(3) {
			case 0:
				tables[i].Release(pool)
				want[i] = 0
			default:
				n := rng.IntN(blocks * blockSize * 5 / 4)
				before := pool.NumFree()
				ceil := 0
				for ceil*blockSize < n {
					ceil++
				}
				missing := max(0, ceil-want[i])
				if got := tables[i].Grow(pool, n); got != (missing <= before) {
					t.Fatalf("seed %d, step %d: grow to %d positions is %v with %d blocks of %d missing and %d free", seed, step, n, got, missing, blockSize, before)
				}
				if missing <= before {
					want[i] += missing
				}
			}
			held := 0
			for j, table := range tables {
				if got := len(table.Blocks()); got != want[j] {
					t.Fatalf("seed %d, step %d: table %d holds %d blocks, want %d", seed, step, j, got, want[j])
				}
				held += want[j]
			}
			if got := pool.NumFree(); got != blocks-held {
				t.Fatalf("seed %d, step %d: %d blocks are free, want %d", seed, step, got, blocks-held)
			}
			if err := pool.Check(tables...); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			checkSlots(t, tables, blockSize)
		}
	}
}

// checkSlots sees that no two positions of any sequences share a slot.
func checkSlots(t *testing.T, tables []*Table, blockSize int) {
	t.Helper()
	taken := map[int32]bool{}
	for i, table := range tables {
		for position := range len(table.Blocks()) * blockSize {
			slot := table.Slot(position)
			if taken[slot] {
				t.Fatalf("slot %d of table %d, position %d is taken twice", slot, i, position)
			}
			taken[slot] = true
		}
	}
}

// TestCheckFinds breaks each invariant by hand.
func TestCheckFinds(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(*Pool, *Table)
		want string
	}{
		{"lost", func(p *Pool, _ *Table) { p.free = p.free[:1] }, "block 2 has 0 holders and is 0 times on the free list"},
		{"free twice", func(p *Pool, _ *Table) { p.free[0] = p.free[1] }, "block 2 has 0 holders and is 2 times on the free list"},
		{"free and held", func(p *Pool, t *Table) { p.free[0] = t.blocks[0] }, "block 0 has 1 holders and is 1 times on the free list"},
		{"in two tables", func(_ *Pool, t *Table) { t.blocks[1] = t.blocks[0] }, "block 0 has 1 holders but is in 2 tables"},
		{"forgotten", func(_ *Pool, t *Table) { t.blocks = nil }, "block 1 has 1 holders but is in 0 tables"},
		{"negative count", func(p *Pool, _ *Table) { p.refs[3] = -1 }, "block 3 has -1 holders"},
		{"registered and unlisted", func(p *Pool, t *Table) {
			p.CachePrefixes(2)
			t.Publish(p, make([]int32, 32))
			p.prefixes.entries[0].serial = 0
		}, "1 blocks are registered, and 2 slots are taken"},
		{"found elsewhere", func(p *Pool, t *Table) {
			p.CachePrefixes(2)
			t.Publish(p, make([]int32, 32))
			p.prefixes.tokens[3]++
			p.prefixes.entries[0].hash++
		}, "block 0 is registered, and its search finds -1"},
		{"idle and held", func(p *Pool, t *Table) { p.CachePrefixes(2); t.Publish(p, make([]int32, 32)); p.prefixes.rest(1) }, "block 1 has 1 holders and is 1 times on the free list"},
		{"idle and not counted", func(p *Pool, t *Table) {
			p.CachePrefixes(2)
			t.Publish(p, make([]int32, 32))
			t.Release(p)
			p.prefixes.idle = 1
		}, "2 blocks are idle up to 0; counted are 1 up to 0"},
		{"no such free block", func(p *Pool, _ *Table) { p.free[0] = 4 }, "free block 4 of 4"},
		{"no such held block", func(_ *Pool, t *Table) { t.blocks[0] = -1 }, "table 0 holds block -1 of 4"},
	} {
		pool, err := NewPool(4, 16)
		if err != nil {
			t.Fatal(err)
		}
		table := new(Table)
		table.Grow(pool, 32)
		if err := pool.Check(table); err != nil {
			t.Fatalf("%s: before the harm: %v", c.name, err)
		}
		c.harm(pool, table)
		if err := pool.Check(table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: check says %v, want %q", c.name, err, c.want)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	pool, err := NewPool(64, 16)
	if err != nil {
		t.Fatal(err)
	}
	var a, b Table
	life := func() {
		for n := 1; n <= 512; n += 13 {
			if !a.Grow(pool, n) || !b.Grow(pool, n) {
				t.Fatalf("no room for %d positions", n)
			}
			a.Slot(n - 1)
		}
		pool.share(a.Blocks()[0])
		pool.Free(a.Blocks()[0])
		a.Release(pool)
		b.Release(pool)
	}
	if n := testing.AllocsPerRun(100, life); n != 0 {
		t.Errorf("%v allocations in a sequence's life, want 0", n)
	}
}

func BenchmarkLife(b *testing.B) {
	pool, err := NewPool(4096, 16)
	if err != nil {
		b.Fatal(err)
	}
	var table Table
	b.ReportAllocs()
	for b.Loop() {
		for n := 1; n <= 1024; n++ {
			table.Grow(pool, n)
			table.Slot(n - 1)
		}
		table.Release(pool)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/token")
}
