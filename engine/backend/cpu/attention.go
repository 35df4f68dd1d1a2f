package cpu

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Attention is computed in segments of a fixed number of positions, counted
// from the sequence's first: each gives its largest score, the sum of its
// weights and the weighted values, and the segments are joined in their order
// (Milakov and Gimelshein, https://arxiv.org/abs/1805.02867; Dao et al.,
// FlashAttention, https://arxiv.org/abs/2205.14135). A row's result is thereby
// a function of its own position and cache alone; which rows share a tile, and
// whether one thread does all segments or several do one each, changes nothing.

const (
	// segmentLen is the number of positions of a segment.
	segmentLen = 256
	// tileRows is the number of rows of a sequence that share the reading of
	// keys and values.
	tileRows = 8
)

// Estimated nanoseconds for one query of one head, position and dimension.
const attendCost = 0.1

// tile is a run of rows of one sequence.
type tile struct {
	row, rows int
	position  int // of the first row; the others follow
	blocks    []int32
}

// end is the number of positions that the tile's last row attends to.
func (t *tile) end() int { return t.position + t.rows }

// cutTiles lists the tiles of the batch.
func (b *Backend) cutTiles() {
	b.tiles = b.tiles[:0]
	for i := range b.batch.Seqs {
		s := &b.batch.Seqs[i]
		for row := int(s.Row); row < int(s.Row+s.Len); row += tileRows {
			b.tiles = append(b.tiles, tile{
				row:      row,
				rows:     min(tileRows, int(s.Row+s.Len)-row),
				position: int(b.batch.Positions[row]),
				blocks:   s.Blocks,
			})
		}
	}
}

// part is the attention of some queries over some segments. Weights are
// relative to the largest score, e^(score-highest).
type part struct {
	highest []float32 // [queries]
	sum     []float32 // of the weights [queries]
	values  []float32 // sum of weight · value [queries, dim of the cache]
}

// attentionScratch is a thread's space for one tile and key head. A query is one
// row's query head of the group, [row, head of the group].
type attentionScratch struct {
	queries queries
	scores  []float32 // [queries, segmentLen]
	segment part
	total   part
	factor  [2]float32
}

// queries are those of a tile and key head, scaled, and with zeros up to the length of
// the cache's rows. Where that is of 8 bits, queries are too.
type queries struct {
	n      int
	values []float32      // [n, dim of the cache]
	quants []int8         // alike
	meta   []kernels.Meta // [n, dim/32]
}

// attendTask is one Attend. A unit is a tile and a key head. Each is a chunk's
// whole work; if there are too few units for the threads, each segment of a
// unit is, and the parts are joined at the end.
type attendTask struct {
	b       *Backend
	dst, q  *tensor
	cache   *cache
	layer   int
	scale   float32
	window  int // positions that a row sees; noWindow: all
	group   int // query heads of a key head
	size    int // units of a chunk
	units   int
	shared  bool // units are cut into segments
	numSegs int  // segments of the longest tile
}

// noWindow is above every position, of which a cache has at most 1<<31-1.
const noWindow = 1 << 31

// Attend implements backend.Backend.
func (b *Backend) Attend(dst, q backend.Tensor, kv backend.KV, layer int, scale float32, window int) {
	if window == 0 {
		window = noWindow
	}
	c := kv.(*cache)
	t := &b.attendTask
	*t = attendTask{b: b, dst: overwritten(dst), q: q.(*tensor), cache: c, layer: layer, scale: scale, window: window,
		group: q.Cols() / c.shape.HeadDim / c.shape.Heads, units: len(b.tiles) * c.shape.Heads}
	if t.units == 0 {
		return
	}
	b.makeAttentionRoom(t.group, c)
	work := 0
	for i := range b.tiles {
		tile := &b.tiles[i]
		t.numSegs = max(t.numSegs, (tile.end()+segmentLen-1)/segmentLen-t.firstSegment(tile))
		work += min(tile.end(), t.window) * tile.rows
	}
	cost := attendCost * float64(work*q.Cols())
	threads := len(b.workers.scratch)
	if t.numSegs > 1 && threads > 1 && t.units < 4*threads {
		t.shared = true
		t.size = 1
		b.parts = grow(b.parts, t.units*t.numSegs*t.partLen())
		b.workers.run(t, t.units*t.numSegs)
		t.join()
	} else {
		t.size = b.workers.chunkSize(t.units, cost/float64(t.units))
		b.workers.run(t, (t.units+t.size-1)/t.size)
	}
	t.dst.written(b.batch.Rows(), t.quantizes())
}

// quantizes tells whether the result is quantised as it is written: each key head's
// part on its own, which is whole blocks in all usual models.
func (t *attendTask) quantizes() bool {
	return t.dst.quantized() && t.group*t.cache.shape.HeadDim%kernels.BlockColumns == 0
}

// makeAttentionRoom sizes the threads' space.
func (b *Backend) makeAttentionRoom(group int, c *cache) {
	n, dim := tileRows*group, c.dim
	for i := range b.workers.scratch {
		s := &b.workers.scratch[i].attention
		s.queries.values = grow(s.queries.values, n*dim)
		if c.quantized() {
			s.queries.quants, s.queries.meta = grow(s.queries.quants, n*dim), grow(s.queries.meta, n*dim/kernels.BlockColumns)
		}
		s.scores = grow(s.scores, n*segmentLen)
		for _, p := range []*part{&s.segment, &s.total} {
			p.highest, p.sum, p.values = grow(p.highest, n), grow(p.sum, n), grow(p.values, n*dim)
		}
	}
}

// run does a chunk: some units, or one segment of one.
func (t *attendTask) run(chunk int, s *scratch) {
	a := &s.attention
	if t.shared {
		tile, head := t.unit(chunk / t.numSegs)
		if segment := t.firstSegment(tile) + chunk%t.numSegs; segment*segmentLen < tile.end() {
			t.loadQueries(tile, head, a)
			next := chunk + len(t.b.workers.scratch)
			t.segment(tile, head, segment, a, t.partAt(chunk), t.keysOf(next/t.numSegs, next%t.numSegs))
		}
		return
	}
	from, to := rowRange(chunk, t.size, t.units)
	for unit := from; unit < to; unit++ {
		tile, head := t.unit(unit)
		t.loadQueries(tile, head, a)
		a.total.reset()
		first := t.firstSegment(tile)
		for segment := first; segment*segmentLen < tile.end(); segment++ {
			t.segment(tile, head, segment, a, a.segment, t.keysOf(unit, segment-first+1))
			t.joinSegment(tile, segment, a, a.segment)
		}
		t.write(tile, head, a)
	}
}

// unit returns the tile and the key head of a unit.
func (t *attendTask) unit(i int) (*tile, int) {
	heads := t.cache.shape.Heads
	return &t.b.tiles[i/heads], i % heads
}

// keysOf returns the keys of 8 bits that a segment of a unit begins with, counted from the
// unit's first: for a unit that has fewer, those of the unit after it.
func (t *attendTask) keysOf(unit, segment int) []byte {
	if !t.cache.quantized() || unit >= t.units {
		return nil
	}
	tile, head := t.unit(unit)
	segment += t.firstSegment(tile)
	if segment*segmentLen >= tile.end() {
		if unit++; unit == t.units {
			return nil
		}
		tile, head = t.unit(unit)
		segment = t.firstSegment(tile)
	}
	from := max(segment*segmentLen, tile.position+1-t.window) / kernels.GroupRows * kernels.GroupRows
	row, length := t.stretch(keys, tile, head, from, min(segmentLen, tile.end()-from))
	return t.cache.q8[row*t.cache.rowBytes : (row+length)*t.cache.rowBytes]
}

// partLen is the number of floats of a part that is kept for join.
func (t *attendTask) partLen() int { return tileRows * t.group * (t.cache.dim + 2) }

func (t *attendTask) partAt(i int) part {
	n := tileRows * t.group
	at := t.b.parts[i*t.partLen() : (i+1)*t.partLen()]
	return part{highest: at[:n], sum: at[n : 2*n], values: at[2*n:]}
}

// join joins the segments of all units, as run does where it has all of them.
func (t *attendTask) join() {
	a := &t.b.workers.scratch[0].attention
	for unit := range t.units {
		tile, head := t.unit(unit)
		a.total.reset()
		first := t.firstSegment(tile)
		for segment := first; segment*segmentLen < tile.end(); segment++ {
			t.joinSegment(tile, segment, a, t.partAt(unit*t.numSegs+segment-first))
		}
		t.write(tile, head, a)
	}
}

// loadQueries copies the tile's queries of a key head.
func (t *attendTask) loadQueries(tile *tile, head int, a *attentionScratch) {
	n, dim, q := t.cache.shape.HeadDim, t.cache.dim, &a.queries
	q.n = tile.rows * t.group
	for r := range tile.rows {
		row := t.q.row(tile.row + r)[head*t.group*n:]
		for h := range t.group {
			query := q.values[(r*t.group+h)*dim:][:dim]
			clear(query[copy(query, row[h*n:(h+1)*n]):])
		}
	}
	values := q.values[:q.n*dim]
	t.b.ops.Scale(values, t.scale)
	if t.cache.quantized() {
		t.b.ops.Quantize(q.quants[:len(values)], q.meta[:len(values)/kernels.BlockColumns], values)
	}
}

// segment computes one segment of a tile and key head into out. next is what the thread
// reads after it, as far as one can tell.
func (t *attendTask) segment(tile *tile, head, segment int, a *attentionScratch, out part, next []byte) {
	ops, dim, group := t.b.ops, t.cache.dim, t.group
	from := segment * segmentLen
	n := min(segmentLen, tile.end()-from)
	queries := tile.rows * group
	start, common := t.visible(tile, 0, from, n)
	at, end := start, n
	if t.cache.quantized() {
		// Whole groups: what else they hold has scores too, which nobody reads.
		at, end = start/kernels.GroupRows*kernels.GroupRows, kernels.Groups(n)*kernels.GroupRows
	}
	for at < end {
		row, length := t.stretch(keys, tile, head, from+at, end-at)
		t.cache.scores(ops, a.scores[at:], segmentLen, &a.queries, row, length)
		at += length
	}
	for r := range tile.rows {
		lo, hi := t.visible(tile, r, from, n)
		for q := r * group; q < (r+1)*group && lo < hi; q++ {
			scores := a.scores[q*segmentLen:][lo:hi]
			out.highest[q] = ops.Max(scores)
			out.sum[q] = ops.ExpSum(scores, scores, out.highest[q])
		}
	}
	clear(out.values[:queries*dim])
	// All rows see what both the last and the first do; the rest is each row's
	// own, so that nobody's result touches a value that it may not see. A row's
	// values are added in the order of their positions.
	begin, _ := t.visible(tile, tile.rows-1, from, n)
	begin = min(begin, common)
	for r := range tile.rows {
		lo, _ := t.visible(tile, r, from, n)
		t.accumulate(tile, head, from, lo, begin, a.scores[r*group*segmentLen:], out.values[r*group*dim:], group, nil)
	}
	t.accumulate(tile, head, from, begin, common, a.scores, out.values, queries, next)
	for r := range tile.rows {
		lo, hi := t.visible(tile, r, from, n)
		t.accumulate(tile, head, from, max(lo, common), hi, a.scores[r*group*segmentLen:], out.values[r*group*dim:], group, nil)
	}
}

// visible returns which of the n positions from from on row r attends to: lo …
// hi-1 of them.
func (t *attendTask) visible(tile *tile, r, from, n int) (lo, hi int) {
	end := tile.position + r + 1 - from
	hi = max(0, min(n, end))
	return min(hi, max(0, end-t.window)), hi
}

// firstSegment is the first of which any of the tile's rows sees something.
func (t *attendTask) firstSegment(tile *tile) int {
	return max(0, tile.position+1-t.window) / segmentLen
}

// accumulate adds the weighted values of positions from+lo … from+hi-1. Values
// join one by one in their order, so it does not matter where runs are cut.
func (t *attendTask) accumulate(tile *tile, head, from, lo, hi int, weights, out []float32, queries int, next []byte) {
	for at := lo; at < hi; {
		row, length := t.stretch(values, tile, head, from+at, hi-at)
		t.cache.accumulate(t.b.ops, out, weights[at:], segmentLen, row, queries, length, next)
		next = next[min(len(next), length*t.cache.dim):]
		at += length
	}
}

// stretch returns the row of a key or value in the cache, and how many of at most n
// positions from it on lie together: the rest of its block, and the
// blocks after it as long as they are neighbours.
func (t *attendTask) stretch(h half, tile *tile, head, position, n int) (row, length int) {
	size := t.cache.shape.BlockSize
	blocks, offset := tile.blocks[position/size:], position%size
	length = size - offset
	for i := 1; length < n && t.cache.neighbours(blocks[i-1], blocks[i]); i++ {
		length += size
	}
	return t.cache.row(h, t.layer, int(blocks[0]), head, offset), min(n, length)
}

// reset makes a part of no positions: no query has a sum.
func (p *part) reset() { clear(p.sum) }

// joinSegment adds a segment to the total, for the rows that see any of it. A row's
// first is the total: most contexts have no other.
func (t *attendTask) joinSegment(tile *tile, segment int, a *attentionScratch, s part) {
	ops, dim := t.b.ops, t.cache.dim
	for r := range tile.rows {
		if lo, hi := t.visible(tile, r, segment*segmentLen, segmentLen); lo == hi {
			continue
		}
		for q := r * t.group; q < (r+1)*t.group; q++ {
			total, values := a.total.values[q*dim:][:dim], s.values[q*dim:][:dim]
			if a.total.sum[q] == 0 {
				copy(total, values)
				a.total.sum[q], a.total.highest[q] = s.sum[q], s.highest[q]
				continue
			}
			highest := max(a.total.highest[q], s.highest[q])
			a.factor = [2]float32{a.total.highest[q], s.highest[q]}
			ops.ExpSum(a.factor[:], a.factor[:], highest)
			// The part with the highest score stays as it is: its factor is 1.
			if a.factor[0] != 1 {
				ops.Scale(total, a.factor[0])
			}
			if a.factor[1] != 1 {
				ops.Scale(values, a.factor[1])
			}
			ops.Add(total, values)
			a.total.sum[q] = float32(a.total.sum[q]*a.factor[0]) + float32(s.sum[q]*a.factor[1])
			a.total.highest[q] = highest
		}
	}
}

// write divides the total by the weights' sum and puts it into dst.
func (t *attendTask) write(tile *tile, head int, a *attentionScratch) {
	n, quantizes := t.cache.shape.HeadDim, t.quantizes()
	for r := range tile.rows {
		from := head * t.group * n
		row := t.dst.row(tile.row + r)[from:]
		for h := range t.group {
			q := r*t.group + h
			out := row[h*n : (h+1)*n]
			copy(out, a.total.values[q*t.cache.dim:])
			t.b.ops.Scale(out, 1/a.total.sum[q])
		}
		if quantizes {
			t.dst.quantize(t.b.ops, tile.row+r, from, from+t.group*n)
		}
	}
}
