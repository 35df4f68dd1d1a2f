//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	half "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda"
)

// attentionShape is a kind of layer.
type attentionShape struct {
	heads, kvHeads, dim, blockSize int
	window                         int
	softcap                        float32
}

func (s attentionShape) String() string {
	text := fmt.Sprintf("%d/%d heads of %d, blocks of %d", s.heads, s.kvHeads, s.dim, s.blockSize)
	if s.window > 0 {
		text += fmt.Sprintf(", window %d", s.window)
	}
	if s.softcap > 0 {
		text += fmt.Sprintf(", softcap %g", s.softcap)
	}
	return text
}

// scale is twice the usual one, so that weights are far from equal.
func (s attentionShape) scale() float32 { return float32(2 / math.Sqrt(float64(s.dim))) }

// sequences are caches of some contexts with tables out of order. What no sequence
// holds is NaN, and entries of tables behind a context are no blocks: neither may
// be read.
type sequences struct {
	attentionShape
	contexts     []int
	maxBlocks    int
	tables       []int32 // [len(contexts), maxBlocks]
	keys, values []uint16
}

// noBlock is an entry of a table that must not be followed.
const noBlock = 1 << 30

func newSequences(b *Bench, s attentionShape, contexts []int) *sequences {
	q := &sequences{attentionShape: s, contexts: contexts}
	blocks := 1
	for _, context := range contexts {
		n := (context + s.blockSize - 1) / s.blockSize
		blocks += n
		q.maxBlocks = max(q.maxBlocks, n+1)
	}
	q.keys = make([]uint16, blocks*s.blockSize*s.kvHeads*s.dim)
	q.values = make([]uint16, len(q.keys))
	for i := range q.keys {
		q.keys[i], q.values[i] = untouched, untouched
	}
	order := b.Rand.Perm(blocks)
	for _, context := range contexts {
		table := make([]int32, q.maxBlocks)
		for i := range table {
			table[i] = noBlock
			if i*s.blockSize < context {
				table[i], order = int32(order[0]), order[1:]
			}
		}
		q.tables = append(q.tables, table...)
	}
	for seq, context := range contexts {
		for position := range context {
			for head := range s.kvHeads {
				at := q.at(seq, position, head)
				for i := range s.dim {
					q.keys[at+i] = half.F16FromF32(float32(b.Rand.NormFloat64()))
					q.values[at+i] = half.F16FromF32(float32(b.Rand.NormFloat64()))
				}
			}
		}
	}
	return q
}

// at is where a position's key (and value) of a head begins.
func (q *sequences) at(seq, position, head int) int {
	block := int(q.tables[seq*q.maxBlocks+position/q.blockSize])
	return ((block*q.kvHeads+head)*q.blockSize + position%q.blockSize) * q.dim
}

// onDevice describes the layer for a launch.
func (q *sequences) onDevice(b *Bench) cuda.Attention {
	return cuda.Attention{
		Cache: cuda.CacheLayer{Keys: b.Halves(q.keys), Values: b.Halves(q.values), BlockSize: q.blockSize},
		Heads: cuda.Heads{Q: q.heads, KV: q.kvHeads, Dim: q.dim},
		Table: b.Ints(q.tables), MaxBlocks: q.maxBlocks,
		Scale: q.scale(), Softcap: q.softcap, Window: q.window,
	}
}

// attend is the attention of one row's heads that sees the first visible positions of
// a sequence, in float64. query gives the queries' values as the kernel takes them.
func (q *sequences) attend(row []float32, seq, visible int, query func(float32) float64) []float64 {
	start := 0
	if q.window > 0 {
		start = max(0, visible-q.window)
	}
	out := make([]float64, q.heads*q.dim)
	for h := range q.heads {
		if visible == 0 {
			break
		}
		head := h / (q.heads / q.kvHeads)
		weights, highest := make([]float64, visible-start), math.Inf(-1)
		for p := range weights {
			at, s := q.at(seq, start+p, head), 0.0
			for i := range q.dim {
				s += query(row[h*q.dim+i]) * float64(half.F32FromF16(q.keys[at+i]))
			}
			if q.softcap > 0 {
				s = float64(q.softcap) * math.Tanh(s/float64(q.softcap))
			}
			weights[p] = s
			highest = max(highest, s)
		}
		sum := 0.0
		for p, s := range weights {
			weights[p] = math.Exp(s - highest)
			sum += weights[p]
		}
		for p, w := range weights {
			at := q.at(seq, start+p, head)
			for i := range q.dim {
				out[h*q.dim+i] += w / sum * float64(half.F32FromF16(q.values[at+i]))
			}
		}
	}
	return out
}

// scaled is a query's value times the scale.
func (q *sequences) scaled(x float32) float64 { return float64(x) * float64(q.scale()) }

// roundedScaled is that, where the kernel rounds the product to float16 in its own
// units: of the softcap, or of the exponent of 2.
func (q *sequences) roundedScaled(x float32) float64 {
	unit := q.scale() * float32(math.Log2E)
	if q.softcap > 0 {
		unit = q.scale() / q.softcap
	}
	return float64(half.F32FromF16(half.F16FromF32(x*unit))) / float64(unit) * float64(q.scale())
}

var (
	// attended is for sums of values of the standard normal distribution (up to 5), with
	// weights 2^s of exponents up to 20 that are sums too. With float32 rounded to the
	// nearest the worst of all cases is 2.6e-5; tensor cores cut bits off instead. Were
	// queries rounded to float16, it would be 6e-4.
	attended = Tolerance{Absolute: 1e-4}
	// attendedF16 adds that each weight is rounded to float16, 2^-11 of it, which can
	// change the weighted mean of values by 2^-11 of the largest.
	attendedF16 = Tolerance{Absolute: attended.Absolute + 5*math.Pow(2, -11)}
)

// edges are contexts around the borders of tiles (16 positions), blocks, turns of a
// block's warps (64) and splits (128).
var edges = []int{1, 0, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 513}

func decodeCases() []Case {
	var cases []Case
	add := func(s attentionShape, contexts ...int) {
		kernel := fmt.Sprintf("attend_decode_%d", compiled(s.dim))
		name := fmt.Sprintf("%v, %d contexts up to %d", s, len(contexts), largest(contexts))
		cases = append(cases, Case{kernel, name, func(b *Bench) error { return decode(b, s, contexts) }})
	}
	for _, dim := range []int{64, 80, 96, 128, 256} {
		add(attentionShape{heads: 3, kvHeads: 1, dim: dim, blockSize: 16}, edges...)
		add(attentionShape{heads: 2, kvHeads: 2, dim: dim, blockSize: 32, window: 100, softcap: 30}, edges...)
		add(attentionShape{heads: 8, kvHeads: 1, dim: dim, blockSize: 16}, 1000, 17, 0)
		add(attentionShape{heads: 9, kvHeads: 1, dim: dim, blockSize: 16, window: 40}, 700, 40, 41, 39)
	}
	// Dimensions that are filled up, and small blocks.
	for _, dim := range []int{8, 16, 32, 40, 72, 88, 120, 136, 192} {
		add(attentionShape{heads: 4, kvHeads: 2, dim: dim, blockSize: 4}, 129, 5, 0, 16)
	}
	// Groups of heads around the tile of eight.
	for _, group := range []int{1, 7, 8, 9, 15, 16, 17, 71} {
		add(attentionShape{heads: group, kvHeads: 1, dim: 64, blockSize: 16}, 140, 1)
	}
	// Windows smaller and larger than contexts, tiles and splits.
	for _, window := range []int{1, 2, 15, 16, 17, 128, 129, 5000} {
		add(attentionShape{heads: 2, kvHeads: 1, dim: 64, blockSize: 16, window: window}, 1, 16, 17, 128, 400, 0)
	}
	// One long context, with as many splits as there can be, and many rows, with one.
	add(attentionShape{heads: 2, kvHeads: 1, dim: 64, blockSize: 32}, 32768)
	add(attentionShape{heads: 1, kvHeads: 1, dim: 128, blockSize: 16, window: 4096}, 8193)
	many := make([]int, 77)
	for i := range many {
		many[i] = i * 7 % 200
	}
	add(attentionShape{heads: 9, kvHeads: 3, dim: 64, blockSize: 16}, many...)
	add(attentionShape{heads: 32, kvHeads: 8, dim: 128, blockSize: 16, softcap: 50}, 33, 250, 0)
	return cases
}

// compiled is the dimension that a kernel for heads of dim values is compiled for.
func compiled(dim int) int {
	for _, c := range []int{64, 80, 96, 128} {
		if dim <= c {
			return c
		}
	}
	return 256
}

func largest(list []int) int {
	n := 0
	for _, v := range list {
		n = max(n, v)
	}
	return n
}

// decode runs each launch twice on the same scratch: the second finds what the first
// left, and must give the same bits.
func decode(b *Bench, s attentionShape, contexts []int) error {
	seqs := newSequences(b, s, contexts)
	rows, cols := len(contexts), s.heads*s.dim
	q := b.Normal(rows*cols, 1)
	visible := make([]int32, rows)
	var want []float64
	for row, context := range contexts {
		visible[row] = int32(context)
		want = append(want, seqs.attend(q[row*cols:][:cols], row, context, seqs.scaled)...)
	}
	layer, qAt, contextAt, scratch := seqs.onDevice(b), b.Floats(q), b.Ints(visible), b.Zeros(int(b.Kernels.DecodeScratch(s.dim)))
	dst := b.Empty(4 * rows * cols)
	b.Do(b.Kernels.Decode(b.Stream, dst, qAt, contextAt, scratch, rows, layer))
	first := b.ReadFloats(dst, rows*cols)
	if err := Compare(first, want, cols, attended); err != nil {
		return err
	}
	b.Do(b.Kernels.Decode(b.Stream, qAt, qAt, contextAt, scratch, rows, layer))
	if err := Same(b.ReadFloats(qAt, rows*cols), first, cols); err != nil {
		return fmt.Errorf("again, in place: %w", err)
	}
	return nil
}

// run is a sequence's rows in a prefill: the last rows of its context.
type run struct{ rows, context int }

func prefillCases() []Case {
	var cases []Case
	add := func(s attentionShape, runs ...run) {
		rows, context := 0, 0
		for _, r := range runs {
			rows, context = rows+r.rows, max(context, r.context)
		}
		cases = append(cases, Case{fmt.Sprintf("attend_prefill_%d", compiled(s.dim)),
			fmt.Sprintf("%v, %d runs of %d rows, contexts up to %d", s, len(runs), rows, context),
			func(b *Bench) error { return prefill(b, s, runs) }})
	}
	for _, dim := range []int{64, 80, 96, 128, 256} {
		add(attentionShape{heads: 3, kvHeads: 1, dim: dim, blockSize: 16}, run{33, 33}, run{1, 200}, run{77, 100})
		add(attentionShape{heads: 2, kvHeads: 2, dim: dim, blockSize: 32, window: 20, softcap: 30}, run{77, 130}, run{3, 3})
	}
	for _, dim := range []int{8, 32, 72, 88, 120, 192} {
		add(attentionShape{heads: 4, kvHeads: 2, dim: dim, blockSize: 4}, run{17, 50}, run{5, 5})
	}
	for _, group := range []int{1, 5, 16, 64, 71} {
		add(attentionShape{heads: group, kvHeads: 1, dim: 64, blockSize: 16}, run{3, 70}, run{17, 17})
	}
	// With 12, a warp's queries begin to see at the last position of a tile; with 89, its
	// last query begins at the second, and the others at the first or before.
	for _, window := range []int{1, 12, 89, 15, 16, 17, 64, 65, 5000} {
		add(attentionShape{heads: 1, kvHeads: 1, dim: 64, blockSize: 16, window: window}, run{130, 300}, run{2, 2})
	}
	// Runs that end at and around borders of tiles of queries and positions.
	for _, n := range []int{1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129} {
		add(attentionShape{heads: 1, kvHeads: 1, dim: 64, blockSize: 16}, run{n, n}, run{n, 2*n + 1}, run{0, 0}, run{1, n})
	}
	// More runs than a warp counts at a time.
	var many []run
	for i := range 77 {
		many = append(many, run{i % 4, i%4 + i%7})
	}
	add(attentionShape{heads: 2, kvHeads: 1, dim: 8, blockSize: 8}, many...)
	add(attentionShape{heads: 9, kvHeads: 3, dim: 64, blockSize: 16}, run{64, 1500}, run{1, 1}, run{40, 40}, run{3, 64})
	return cases
}

func prefill(b *Bench, s attentionShape, runs []run) error {
	var contexts []int
	for _, r := range runs {
		contexts = append(contexts, r.context)
	}
	seqs := newSequences(b, s, contexts)
	// A row that belongs to no run stands before each, and one at the end. Tables are in
	// the reverse order of the runs.
	cols, row := s.heads*s.dim, 0
	reversed := *seqs
	reversed.tables = nil
	var list []int32
	for i, r := range runs {
		row++
		list = append(list, int32(row), int32(r.rows), int32(r.context), int32(len(runs)-1-i))
		row += r.rows
		last := len(runs) - 1 - i
		reversed.tables = append(reversed.tables, seqs.tables[last*seqs.maxBlocks:][:seqs.maxBlocks]...)
	}
	rows := row + 1
	q := b.Normal(rows*cols, 1)
	want := make([]float64, rows*cols)
	for i, v := range q {
		want[i] = float64(v)
	}
	computed := 0
	for i, r := range runs {
		for j := range r.rows {
			at := (int(list[4*i]) + j) * cols
			copy(want[at:], seqs.attend(q[at:at+cols], i, r.context-r.rows+1+j, seqs.roundedScaled))
		}
		computed += r.rows
	}
	// In place, so that what is not computed stays the query.
	qAt := b.Floats(q)
	b.Do(b.Kernels.Prefill(b.Stream, qAt, qAt, b.Ints(list), len(runs), computed, reversed.onDevice(b)))
	return Compare(b.ReadFloats(qAt, rows*cols), want, cols, attendedF16)
}

// llamaLayer is the attention of Llama 3 8B, in blocks of 16.
var llamaLayer = attentionShape{heads: 32, kvHeads: 8, dim: 128, blockSize: 16}

// gemmaLayer is that of Gemma 3 1B.
var gemmaLayer = attentionShape{heads: 4, kvHeads: 1, dim: 256, blockSize: 16}

// smolLayer is that of SmolLM2 135M.
var smolLayer = attentionShape{heads: 9, kvHeads: 3, dim: 64, blockSize: 16}

// zeroLayer is a layer of equal contexts with caches of zeros, for times.
func (s attentionShape) zeroLayer(b *Bench, seqs, context int) cuda.Attention {
	blocks := (context + s.blockSize - 1) / s.blockSize
	bytes := seqs * blocks * s.blockSize * s.kvHeads * s.dim * 2
	table := make([]int32, seqs*blocks)
	for i, block := range b.Rand.Perm(len(table)) {
		table[i] = int32(block)
	}
	return cuda.Attention{
		Cache: cuda.CacheLayer{Keys: b.Zeros(bytes), Values: b.Zeros(bytes), BlockSize: s.blockSize},
		Heads: cuda.Heads{Q: s.heads, KV: s.kvHeads, Dim: s.dim}, Table: b.Ints(table), MaxBlocks: blocks, Scale: s.scale(),
	}
}

func decodeSpeeds() []Speed {
	var speeds []Speed
	for _, size := range []struct {
		attentionShape
		rows, context int
	}{
		{llamaLayer, 1, 1024}, {llamaLayer, 1, 32768}, {llamaLayer, 32, 2048}, {llamaLayer, 128, 1024}, {gemmaLayer, 1, 8192}, {gemmaLayer, 32, 2048},
		{smolLayer, 1, 2048}, {smolLayer, 64, 1024},
		{attentionShape{heads: 32, kvHeads: 32, dim: 80, blockSize: 16}, 8, 2048}, {attentionShape{heads: 32, kvHeads: 32, dim: 96, blockSize: 16}, 8, 2048},
	} {
		speeds = append(speeds, Speed{fmt.Sprintf("attend_decode_%d", size.dim), fmt.Sprintf("%d rows, contexts of %d, %v", size.rows, size.context, size.attentionShape),
			func(b *Bench, shrink int) Work {
				rows, context := max(1, size.rows/shrink), max(1, size.context/shrink)
				layer := size.zeroLayer(b, rows, context)
				visible := make([]int32, rows)
				for i := range visible {
					visible[i] = int32(context)
				}
				q, contexts, scratch := b.Zeros(4*rows*size.heads*size.dim), b.Ints(visible), b.Zeros(int(b.Kernels.DecodeScratch(size.dim)))
				dst := b.Empty(4 * rows * size.heads * size.dim)
				pairs := float64(rows) * float64(context) * float64(size.dim)
				return Work{Bytes: 4*pairs*float64(size.kvHeads) + 8*float64(rows*size.heads*size.dim), FLOPs: 4 * pairs * float64(size.heads),
					Launch: func() error { return b.Kernels.Decode(b.Stream, dst, q, contexts, scratch, rows, layer) }}
			}})
	}
	return speeds
}

func prefillSpeeds() []Speed {
	var speeds []Speed
	for _, size := range []struct {
		attentionShape
		seqs, rows, context int
	}{
		{llamaLayer, 1, 2048, 2048}, {llamaLayer, 4, 512, 8192}, {gemmaLayer, 1, 2048, 2048}, {smolLayer, 4, 512, 512},
		{attentionShape{heads: 32, kvHeads: 32, dim: 80, blockSize: 16}, 1, 1024, 1024}, {attentionShape{heads: 32, kvHeads: 32, dim: 96, blockSize: 16}, 1, 1024, 1024},
	} {
		speeds = append(speeds, Speed{fmt.Sprintf("attend_prefill_%d", size.dim),
			fmt.Sprintf("%d runs of %d rows, contexts of %d, %v", size.seqs, size.rows, size.context, size.attentionShape),
			func(b *Bench, shrink int) Work {
				rows, context := max(1, size.rows/shrink), max(1, size.context/shrink)
				layer := size.zeroLayer(b, size.seqs, context)
				var list []int32
				for i := range size.seqs {
					list = append(list, int32(i*rows), int32(rows), int32(context), int32(i))
				}
				total := size.seqs * rows
				q, seqs := b.Zeros(4*total*size.heads*size.dim), b.Ints(list)
				// A row sees on average half of the run and all before it.
				pairs := float64(total) * (float64(context) - float64(rows-1)/2) * float64(size.dim)
				return Work{Bytes: float64(8*total*size.heads*size.dim) + float64(4*size.seqs*context*size.kvHeads*size.dim), FLOPs: 4 * pairs * float64(size.heads),
					Launch: func() error { return b.Kernels.Prefill(b.Stream, q, q, seqs, size.seqs, total, layer) }}
			}})
	}
	return speeds
}
