package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// hashes are the ways to begin a search; results may not depend on them.
var hashes = map[string]func(uint64, []int32) uint64{
	"hashed":     hashTokens,
	"colliding":  func(uint64, []int32) uint64 { return 7 },
	"in 4 piles": func(h uint64, tokens []int32) uint64 { return hashTokens(h, tokens) & 3 },
}

// twin is the slow readable pool: lists, pointers and linear searches. It knows
// which blocks the pool must hand out, and what the device's memory holds.
type twin struct {
	pool  *Pool // says how many idle blocks are kept
	size  int
	free  []int32         // a stack
	used  int             // blocks below it have been taken before
	idle  []*registration // the one let go longest ago first
	all   []*registration
	holds map[int32]int    // holders by block
	cells map[int32]string // by slot, what was computed: the root and all tokens up to there
}

// registration is a full block that can be found.
type registration struct {
	parent *registration
	root   Root
	tokens []int32
	block  int32
}

// writer is a sequence on the twin and the pool at once.
type writer struct {
	table    Table
	root     Root
	tokens   []int32
	computed int
	// chain is what the twin has of the sequence's leading blocks; blocks is all
	// that it must hold.
	chain  []*registration
	blocks []int32
}

// content is what a position's keys and values are a function of.
func content(root Root, tokens []int32) string { return fmt.Sprint(root[0], tokens) }

func (w *twin) find(parent *registration, root Root, tokens []int32) *registration {
	for _, r := range w.all {
		if r.parent == parent && r.root == root && slices.Equal(r.tokens, tokens) {
			return r
		}
	}
	return nil
}

func (w *twin) registered(block int32) *registration {
	for _, r := range w.all {
		if r.block == block {
			return r
		}
	}
	return nil
}

func (w *twin) drop(r *registration) {
	w.all = slices.DeleteFunc(w.all, func(o *registration) bool { return o == r })
	w.idle = slices.DeleteFunc(w.idle, func(o *registration) bool { return o == r })
}

// alloc takes the block that the pool must take.
func (w *twin) alloc() int32 {
	var block int32
	if n := len(w.free); n > 0 && (int(w.free[n-1]) < w.used || len(w.idle) <= w.pool.prefixes.keep) {
		block, w.free = w.free[n-1], w.free[:n-1]
		w.used = max(w.used, int(block)+1)
	} else {
		block = w.idle[0].block
		w.drop(w.idle[0])
	}
	w.holds[block]++
	for i := range w.size {
		delete(w.cells, block*int32(w.size)+int32(i))
	}
	return block
}

func (w *twin) let(block int32) {
	w.holds[block]--
	switch r := w.registered(block); {
	case w.holds[block] > 0:
	case r != nil:
		w.idle = append(w.idle, r)
	default:
		w.free = append(w.free, block)
	}
}

func last(chain []*registration) *registration {
	if len(chain) == 0 {
		return nil
	}
	return chain[len(chain)-1]
}

// adopt says how many positions must be found, and takes their blocks.
func (w *twin) adopt(q *writer) int {
	for n := w.size; n < len(q.tokens); n += w.size {
		r := w.find(last(q.chain), q.root, q.tokens[n-w.size:n])
		if r == nil {
			break
		}
		w.idle = slices.DeleteFunc(w.idle, func(o *registration) bool { return o == r })
		w.holds[r.block]++
		q.chain, q.blocks = append(q.chain, r), append(q.blocks, r.block)
	}
	return len(q.chain) * w.size
}

func (w *twin) publish(q *writer) {
	for n := (len(q.chain) + 1) * w.size; n <= q.computed; n += w.size {
		tokens := q.tokens[n-w.size : n]
		r := w.find(last(q.chain), q.root, tokens)
		if r == nil {
			r = &registration{last(q.chain), q.root, slices.Clone(tokens), q.blocks[len(q.chain)]}
			w.all = append(w.all, r)
		}
		q.chain = append(q.chain, r)
	}
}

// compute has the device fill positions up to n, from what is in its memory.
func (w *twin) compute(q *writer, n int) {
	for p := q.computed; p < n; p++ {
		w.cells[q.table.Slot(p)] = content(q.root, q.tokens[:p+1])
	}
	q.computed = n
}

// TestPrefixesAgainstTwin runs random sequences, which begin alike, in a pool
// that is often too small for them, and compares every block with the twin's:
// who holds it, in which order it is given away, and that the device's memory
// holds there what each reader expects.
func TestPrefixesAgainstTwin(t *testing.T) {
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			found := 0
			for seed := range uint64(5) {
				found += compareWithTwin(t, seed, hash)
			}
			if found == 0 {
				t.Error("nothing was found in the cache")
			}
		})
	}
}

func compareWithTwin(t *testing.T, seed uint64, hash func(uint64, []int32) uint64) (found int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	blocks, size := 4+rng.IntN(24), 1<<rng.IntN(4)
	pool, err := NewPool(blocks, size)
	if err != nil {
		t.Fatal(err)
	}
	pool.CachePrefixes(rng.IntN(blocks))
	pool.prefixes.hash = hash
	w := &twin{pool: pool, size: size, holds: map[int32]int{}, cells: map[int32]string{}}
	for b := range int32(blocks) {
		w.free = append(w.free, int32(blocks)-1-b)
	}
	var running []*writer
	for step := range 400 {
		at := fmt.Sprintf("seed %d, step %d", seed, step)
		i := 0
		if len(running) > 0 {
			i = rng.IntN(len(running))
		}
		switch action := rng.IntN(10); {
		case len(running) == 0 || action < 3 && len(running) < 6:
			q := &writer{root: Root{byte(rng.IntN(3))}, tokens: prompt(rng, 1+rng.IntN(blocks*size))}
			if w.begin(t, at, pool, q) {
				found += q.computed
				running = append(running, q)
			}
		case action < 8: // computes some rows, and once in a while knows a token more
			q := running[i]
			if q.computed == len(q.tokens) {
				if q.table.Need(len(q.tokens)+1, size) > pool.NumFree() {
					continue
				}
				q.tokens = append(q.tokens, int32(rng.IntN(2)))
				w.grow(q, len(q.tokens))
				q.table.Grow(pool, len(q.tokens))
			}
			w.compute(q, q.computed+1+rng.IntN(len(q.tokens)-q.computed))
			w.publish(q)
			q.table.Publish(pool, q.tokens[:q.computed])
		default:
			q := running[i]
			running = slices.Delete(running, i, i+1)
			if action == 9 && rng.IntN(4) == 0 {
				for _, b := range q.blocks {
					if r := w.registered(b); r != nil {
						w.drop(r)
					}
				}
				q.table.Forget(pool)
			}
			for _, b := range slices.Backward(q.blocks) {
				w.let(b)
			}
			q.table.Release(pool)
		}
		w.check(t, at, pool, running)
	}
	return found
}

// begin adopts what there is, and takes the blocks of all the rest or none.
func (w *twin) begin(t *testing.T, at string, pool *Pool, q *writer) bool {
	t.Helper()
	want := w.adopt(q)
	q.computed = q.table.Adopt(pool, q.root, q.tokens)
	if q.computed != want {
		t.Fatalf("%s: %d positions of %v are adopted, want %d", at, q.computed, q.tokens, want)
	}
	if !q.table.Grow(pool, len(q.tokens)) {
		if free := len(w.free) + len(w.idle); q.table.Need(len(q.tokens), w.size) <= free {
			t.Fatalf("%s: no room for %d blocks beside %d, and %d are free", at, q.table.Need(len(q.tokens), w.size), len(q.blocks), free)
		}
		for _, b := range slices.Backward(q.blocks) {
			w.let(b)
		}
		q.table.Release(pool)
		return false
	}
	w.grow(q, len(q.tokens))
	return true
}

func (w *twin) grow(q *writer, n int) {
	for len(q.blocks)*w.size < n {
		q.blocks = append(q.blocks, w.alloc())
	}
}

func (w *twin) check(t *testing.T, at string, pool *Pool, running []*writer) {
	t.Helper()
	tables := make([]*Table, len(running))
	for i, q := range running {
		tables[i] = &q.table
		if !slices.Equal(q.table.Blocks(), q.blocks) {
			t.Fatalf("%s: sequence %d holds blocks %v, want %v", at, i, q.table.Blocks(), q.blocks)
		}
		for p := range q.computed {
			if got, want := w.cells[q.table.Slot(p)], content(q.root, q.tokens[:p+1]); got != want {
				t.Fatalf("%s: sequence %d reads %q at position %d, want %q", at, i, got, p, want)
			}
		}
	}
	if err := pool.Check(tables...); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if got := pool.NumFree(); got != len(w.free)+len(w.idle) {
		t.Fatalf("%s: %d blocks are free, want %d and %d cached", at, got, len(w.free), len(w.idle))
	}
	var idle []int32
	for b := pool.prefixes.oldest; b != none; b = pool.prefixes.entries[b].younger {
		idle = append(idle, b)
	}
	want := []int32(nil)
	for _, r := range w.idle {
		want = append(want, r.block)
	}
	if !slices.Equal(idle, want) {
		t.Fatalf("%s: blocks %v would be given away in this order, want %v", at, idle, want)
	}
}

// prompt draws from two tokens, with long stretches of one, so that prompts
// begin alike.
func prompt(rng *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := rng.IntN(n + 1); i < n; i++ {
		tokens[i] = int32(rng.IntN(2))
	}
	return tokens
}

// TestRootsDoNotShare: the same tokens under another root find nothing, also
// when every hash is the same.
func TestRootsDoNotShare(t *testing.T) {
	for name, hash := range hashes {
		pool, err := NewPool(8, 4)
		if err != nil {
			t.Fatal(err)
		}
		pool.CachePrefixes(8)
		pool.prefixes.hash = hash
		tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
		var mine, alike, other Table
		mine.Adopt(pool, Root{1}, tokens)
		mine.Grow(pool, len(tokens))
		mine.Publish(pool, tokens)
		if got := alike.Adopt(pool, Root{1}, tokens); got != 8 {
			t.Errorf("%s: %d positions are found under the same root, want 8", name, got)
		}
		if got := other.Adopt(pool, Root{31: 1}, tokens); got != 0 {
			t.Errorf("%s: %d positions are found under another root, want none", name, got)
		}
		// The tokens of the second block under the root itself, and after another
		// first block.
		var second, after Table
		if got := second.Adopt(pool, Root{1}, []int32{5, 6, 7, 8, 9}); got != 0 {
			t.Errorf("%s: %d positions of the second block are found without the first, want none", name, got)
		}
		if got := after.Adopt(pool, Root{1}, []int32{1, 2, 3, 0, 5, 6, 7, 8, 9}); got != 0 {
			t.Errorf("%s: %d positions are found after another beginning, want none", name, got)
		}
		if err := pool.Check(&mine, &alike, &other, &second, &after); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// life runs a sequence of these tokens from its beginning to its end, and returns
// how many were found.
func life(t *testing.T, pool *Pool, tokens []int32) (found int) {
	t.Helper()
	var table Table
	found = table.Adopt(pool, Root{}, tokens)
	if !table.Grow(pool, len(tokens)) {
		t.Fatalf("no room for %d tokens", len(tokens))
	}
	table.Publish(pool, tokens)
	table.Release(pool)
	if err := pool.Check(); err != nil {
		t.Fatal(err)
	}
	return found
}

// text is n tokens that begin like no other's.
func text(number, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(number*n + i)
	}
	return tokens
}

// TestMemoryIsTakenForTextsThatComeAgain: what never comes again is kept in memory
// that there is anyway, and little more; what does is kept as far as there is any.
func TestMemoryIsTakenForTextsThatComeAgain(t *testing.T) {
	const blocks, size, keep = 100, 4, 3
	pool, err := NewPool(blocks, size)
	if err != nil {
		t.Fatal(err)
	}
	pool.CachePrefixes(keep)
	long := 10 * size // of a text
	for i := range 50 {
		life(t, pool, text(i, long))
	}
	if want := 10 + keep + 1; pool.used > want {
		t.Errorf("memory of %d blocks is taken for texts of 10 that come once, want at most %d", pool.used, want)
	}
	if found := life(t, pool, text(49, long)); found != long-size {
		t.Errorf("%d tokens of the last text are found, want %d", found, long-size)
	}
	// Four texts in turn, which is 40 blocks: each is missed once, or twice while
	// room is made for all.
	for round := range 4 {
		for i := range 4 {
			found := life(t, pool, text(100+i, long))
			if round == 3 && found != long-size {
				t.Errorf("%d tokens of text %d are found in round %d, want %d", found, i, round, long-size)
			}
		}
	}
	if pool.used > 60 {
		t.Errorf("memory of %d blocks is taken for four texts of 10", pool.used)
	}
	// One that needs all memory gets it.
	life(t, pool, text(200, blocks*size))
	if pool.used != blocks {
		t.Errorf("memory of %d blocks is taken, want all %d", pool.used, blocks)
	}
}

// TestWithoutCache: nothing is registered and nothing found.
func TestWithoutCache(t *testing.T) {
	pool, err := NewPool(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{1, 2, 3, 4, 5}
	var a, b Table
	a.Adopt(pool, Root{}, tokens)
	a.Grow(pool, len(tokens))
	a.Publish(pool, tokens)
	if got := b.Adopt(pool, Root{}, tokens); got != 0 {
		t.Errorf("%d positions are found, want none", got)
	}
	a.Release(pool)
	if got := pool.NumCached(); got != 0 {
		t.Errorf("%d blocks are cached, want none", got)
	}
}

func TestCachedLifeDoesNotAllocate(t *testing.T) {
	pool, err := NewPool(24, 16)
	if err != nil {
		t.Fatal(err)
	}
	pool.CachePrefixes(8)
	tokens := make([]int32, 300)
	var a, b Table
	next := int32(0)
	lives := func() {
		next++
		tokens[next%4*64] = next // begins like others, at 0 … 192 positions
		for _, table := range []*Table{&a, &b} {
			table.Adopt(pool, Root{1}, tokens)
			if !table.Grow(pool, len(tokens)) {
				t.Fatal("no room")
			}
			table.Publish(pool, tokens)
			table.Release(pool)
		}
	}
	for range 100 {
		lives()
	}
	if n := testing.AllocsPerRun(100, lives); n != 0 {
		t.Errorf("%v allocations in the lives of two sequences, want 0", n)
	}
}

// BenchmarkAdopt finds a prompt of 1024 tokens.
func BenchmarkAdopt(b *testing.B) {
	pool, err := NewPool(4096, 16)
	if err != nil {
		b.Fatal(err)
	}
	pool.CachePrefixes(8)
	tokens := make([]int32, 1025)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	var first, table Table
	first.Adopt(pool, Root{1}, tokens)
	first.Grow(pool, len(tokens))
	first.Publish(pool, tokens)
	b.ReportAllocs()
	for b.Loop() {
		if table.Adopt(pool, Root{1}, tokens) != 1024 {
			b.Fatal("not found")
		}
		table.Release(pool)
	}
}
