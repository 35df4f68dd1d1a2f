//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	half "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// productShape is a layer whose decode attention begins with products: heads are to
// be normed where norm is set, and their first dims values are rotated.
type productShape struct {
	attentionShape
	norm, neox bool
	dims       int
}

func (s productShape) String() string {
	return fmt.Sprintf("%v, of products, norm %t, %d rotated, neox %t", s.attentionShape, s.norm, s.dims, s.neox)
}

// productCases are of runs of rows: each sees those before it, and none is stored.
func productCases() []Case {
	var cases []Case
	add := func(s productShape, runs ...run) {
		rows, context := 0, 0
		for _, r := range runs {
			rows, context = rows+r.rows, max(context, r.context)
		}
		cases = append(cases, Case{fmt.Sprintf("attend_decode_%d", compiled(s.dim)),
			fmt.Sprintf("%v, %d runs of %d rows, contexts up to %d", s, len(runs), rows, context),
			func(b *Bench) error { return decodeProducts(b, s, runs) }})
	}
	for _, dim := range []int{64, 80, 96, 128, 256} {
		add(productShape{attentionShape{heads: 3, kvHeads: 1, dim: dim, blockSize: 16}, true, true, dim}, run{1, 1}, run{1, 17}, run{3, 20}, run{1, 300})
		add(productShape{attentionShape{heads: 4, kvHeads: 2, dim: dim, blockSize: 32, window: 20, softcap: 30}, false, false, dim / 4 * 2}, run{2, 130}, run{1, 16})
		add(productShape{attentionShape{heads: 9, kvHeads: 1, dim: dim, blockSize: 16}, false, true, dim}, run{1, 140}, run{5, 5})
	}
	for _, dim := range []int{8, 72, 88, 120, 192} {
		add(productShape{attentionShape{heads: 4, kvHeads: 2, dim: dim, blockSize: 4}, true, false, dim}, run{4, 9}, run{1, 128})
	}
	// Runs around the borders of tiles, of the turns of a block's warps, and of splits.
	for _, context := range []int{15, 16, 17, 31, 33, 64, 65, 128, 129, 144, 257, 513} {
		add(productShape{attentionShape{heads: 2, kvHeads: 1, dim: 64, blockSize: 16}, true, true, 64}, run{15, context}, run{1, context}, run{2, context})
	}
	for _, window := range []int{1, 2, 16, 17, 129} {
		add(productShape{attentionShape{heads: 2, kvHeads: 1, dim: 64, blockSize: 16, window: window}, false, true, 64}, run{16, 150}, run{1, 129}, run{1, 1})
	}
	add(productShape{attentionShape{heads: 34, kvHeads: 2, dim: 64, blockSize: 16}, false, true, 0}, run{2, 40})
	many := make([]run, 40)
	for i := range many {
		many[i] = run{1 + i%3, 3 + i*7%200}
	}
	add(productShape{attentionShape{heads: 9, kvHeads: 3, dim: 64, blockSize: 16}, false, true, 64}, many...)
	return cases
}

// products are those of a step's rows, on the host.
type products struct {
	productShape
	q, k, v      []float32
	qNorm, kNorm []float32
	rotation     rotation
}

func newProducts(b *Bench, s productShape, rows int) *products {
	p := &products{productShape: s, rotation: newRotation(s.dims, 1e4, s.neox)}
	p.q, p.k, p.v = b.Normal(rows*s.heads*s.dim, 1), b.Normal(rows*s.kvHeads*s.dim, 1), b.Normal(rows*s.kvHeads*s.dim, 1)
	if s.norm {
		p.qNorm, p.kNorm = b.Normal(s.dim, 1), b.Normal(s.dim, 1)
	}
	return p
}

// decodeProducts checks what becomes of the cache, and then attention over it.
func decodeProducts(b *Bench, s productShape, runs []run) error {
	seqs, rows := freshSequences(b, s.attentionShape, runs)
	p, cols := newProducts(b, s, rows.n), s.heads*s.dim
	layer, q := seqs.onDevice(b), b.Floats(p.q)
	layer.Table, layer.MaxBlocks = b.Ints(rows.tables), seqs.maxBlocks
	qkv := cuda.QKV{Key: b.Floats(p.k), Value: b.Floats(p.v), Fresh: b.Ints(rows.fresh), Rope: p.rotation.onDevice(b), Eps: 1e-6}
	if s.norm {
		qkv.QNorm, qkv.KNorm = b.Floats(p.qNorm), b.Floats(p.kNorm)
	}
	contexts, scratch, dst := b.Ints(rows.contexts), b.Zeros(int(b.Kernels.DecodeScratch(s.dim))), b.Empty(4*rows.n*cols)
	launch := func(dst driver.Ptr) {
		b.Do(b.Kernels.FinishAndDecode(b.Stream, dst, q, contexts, scratch, rows.n, layer, qkv))
	}
	launch(dst)
	first := b.ReadFloats(dst, rows.n*cols)
	keys, values := b.ReadHalves(layer.Cache.Keys, len(seqs.keys)), b.ReadHalves(layer.Cache.Values, len(seqs.values))
	if err := p.checkCache(seqs, rows, keys, values); err != nil {
		return err
	}
	seqs.keys, seqs.values = keys, values
	var want []float64
	for row := range rows.n {
		finished := make([]float32, 0, cols)
		for h := range s.heads {
			for _, v := range finishHead(p.q[row*cols+h*s.dim:][:s.dim], p.qNorm, 1e-6, p.rotation, rows.contexts[row]-1) {
				finished = append(finished, float32(v))
			}
		}
		want = append(want, seqs.attend(finished, rows.seq[row], int(rows.contexts[row]), seqs.scaled)...)
	}
	// Norms make queries and keys as long as their weights do: so are scores.
	if err := Compare(first, want, cols, Tolerance{Absolute: 4 * attended.Absolute}); err != nil {
		return err
	}
	if err := Same(b.ReadFloats(q, len(p.q)), p.q, cols); err != nil {
		return fmt.Errorf("queries: %w", err)
	}
	launch(q)
	if err := Same(b.ReadFloats(q, rows.n*cols), first, cols); err != nil {
		return fmt.Errorf("again, in place: %w", err)
	}
	return nil
}

// freshRows are the rows of some runs, and one that is of none.
type freshRows struct {
	n               int
	contexts, fresh []int32
	tables          []int32 // [n, maxBlocks]
	seq             []int   // of each row
	position        []int   // of each row
}

// freshSequences makes the caches of runs without what the runs' rows store, and
// their rows.
func freshSequences(b *Bench, s attentionShape, runs []run) (*sequences, *freshRows) {
	var contexts []int
	for _, r := range runs {
		contexts = append(contexts, r.context)
	}
	seqs, rows := newSequences(b, s, contexts), &freshRows{}
	for i, r := range runs {
		for j := range r.rows {
			position := r.context - r.rows + j
			for head := range s.kvHeads {
				at := seqs.at(i, position, head)
				for d := range s.dim {
					seqs.keys[at+d], seqs.values[at+d] = untouched, untouched
				}
			}
			rows.add(seqs, i, position, j+1)
		}
	}
	rows.add(seqs, 0, -1, 1)
	return seqs, rows
}

func (r *freshRows) add(q *sequences, seq, position, fresh int) {
	r.n++
	r.contexts, r.fresh = append(r.contexts, int32(position+1)), append(r.fresh, int32(fresh))
	r.tables = append(r.tables, q.tables[seq*q.maxBlocks:][:q.maxBlocks]...)
	r.seq, r.position = append(r.seq, seq), append(r.position, position)
}

// checkCache compares a cache with what it was and what the rows store.
func (p *products) checkCache(q *sequences, rows *freshRows, keys, values []uint16) error {
	wantKeys, wantValues := append([]uint16(nil), q.keys...), append([]uint16(nil), q.values...)
	for row := range rows.n {
		if rows.position[row] < 0 {
			continue
		}
		for head := range p.kvHeads {
			at, in := q.at(rows.seq[row], rows.position[row], head), (row*p.kvHeads+head)*p.dim
			for i, want := range finishHead(p.k[in:][:p.dim], p.kNorm, 1e-6, p.rotation, int32(rows.position[row])) {
				// Half a unit of the last place of float16, and of what was rounded.
				got := float64(half.F32FromF16(keys[at+i]))
				if over := math.Abs(got-want) - math.Abs(want)/2048 - 5e-5; over > 0 || math.IsNaN(over) {
					return fmt.Errorf("keys: value %d of head %d of row %d: got %v, want %v", i, head, row, got, want)
				}
				wantKeys[at+i], wantValues[at+i] = keys[at+i], half.F16FromF32(p.v[in+i])
			}
		}
	}
	if err := Same(keys, wantKeys, p.dim); err != nil {
		return fmt.Errorf("keys that no row stores: %w", err)
	}
	if err := Same(values, wantValues, p.dim); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	return nil
}

// productSpeeds are of Llama 3 8B's layer.
func productSpeeds() []Speed {
	var speeds []Speed
	for _, rows := range []int{1, 32} {
		const context, dim = 1024, 128
		s := llamaLayer
		speeds = append(speeds, Speed{"attend_decode_128", fmt.Sprintf("%d rows, contexts of %d, of products, %v", rows, context, s), func(b *Bench, shrink int) Work {
			rows, context := max(1, rows/shrink), max(1, context/shrink)
			layer := s.zeroLayer(b, rows, context)
			visible, fresh := make([]int32, rows), make([]int32, rows)
			for i := range visible {
				visible[i], fresh[i] = int32(context), 1
			}
			heads, kvHeads := 4*rows*s.heads*dim, 4*rows*s.kvHeads*dim
			q, dst, contexts, scratch := b.Zeros(heads), b.Empty(heads), b.Ints(visible), b.Zeros(int(b.Kernels.DecodeScratch(dim)))
			qkv := cuda.QKV{Key: b.Zeros(kvHeads), Value: b.Zeros(kvHeads), Fresh: b.Ints(fresh), Rope: newRotation(dim, 10000, true).onDevice(b)}
			pairs := float64(rows) * float64(context) * dim
			return Work{Bytes: 4*pairs*float64(s.kvHeads) + float64(2*heads+3*kvHeads), FLOPs: 4 * pairs * float64(s.heads),
				Launch: func() error {
					return b.Kernels.FinishAndDecode(b.Stream, dst, q, contexts, scratch, rows, layer, qkv)
				}}
		}})
	}
	return speeds
}
