package cpu

import (
	"sync/atomic"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Estimated nanoseconds for one weight: read once from memory, and multiplied once
// for each row of the batch.
const (
	readCost     = 0.06
	multiplyCost = 0.012
)

// tailTokens is the number of rows for which a partial group's products are
// computed aside at a time.
const tailTokens = 16

// finish says what a product does with its result.
type finish int

const (
	store      finish = iota // dst = x·Wᵀ (+ bias)
	accumulate               // dst += x·Wᵀ
	gateSiLU                 // dst = silu(x·Wᵀ) ⊙ (x·upᵀ)
	gateGELU                 // dst = gelu(x·Wᵀ) ⊙ (x·upᵀ)
)

// product is one matrix of a phase.
type product struct {
	w, up *weight   // up only with a gate
	bias  []float32 // nil: none
	dst   []float32 // [rows, w.rows]
	gated *tensor   // dst's, only with a gate
	first int       // the product's first chunk
}

// productTask multiplies the same rows by up to maxProducts matrices. A chunk is
// a run of 16-row groups of one matrix, for all rows of the batch: what follows
// the product is done while its result is in the cache.
type productTask struct {
	b        *Backend
	finish   finish
	products [maxProducts]product
	num      int
	size     int // groups of a chunk
	x        *tensor
	rows     int
	cols     int
	check    bool // look for values that are not finite
	found    atomic.Bool
}

const (
	maxProducts = 4
	// arrangedChunks is the number of chunks of a thread where each arranges the activations:
	// with six, that was a tenth of a prompt's time.
	arrangedChunks = 2
)

// MatMul implements backend.Backend.
func (b *Backend) MatMul(dst []backend.Tensor, w, bias []backend.Weight, x backend.Tensor) {
	t := b.beginProducts(x.(*tensor), b.batch.Rows(), store)
	for i := range dst {
		var vector []float32
		if bias != nil && bias[i] != nil {
			vector = bias[i].(*weight).vector
		}
		t.add(product{w: w[i].(*weight), bias: vector, dst: overwritten(dst[i]).data})
	}
	b.multiply()
}

// AddMatMul implements backend.Backend.
func (b *Backend) AddMatMul(dst backend.Tensor, w backend.Weight, x backend.Tensor) {
	t := b.beginProducts(x.(*tensor), b.batch.Rows(), accumulate)
	t.add(product{w: w.(*weight), dst: overwritten(dst).data})
	b.multiply()
}

// GatedMatMul implements backend.Backend.
func (b *Backend) GatedMatMul(dst backend.Tensor, gate, up backend.Weight, x backend.Tensor, act backend.Activation) {
	end := gateSiLU
	if act == backend.GELU {
		end = gateGELU
	}
	t := b.beginProducts(x.(*tensor), b.batch.Rows(), end)
	out := overwritten(dst)
	t.add(product{w: gate.(*weight), up: up.(*weight), dst: out.data, gated: out})
	b.multiply()
	out.written(b.batch.Rows(), out.quantized())
}

// Logits implements backend.Backend. A NaN or an infinity on the way to the
// logits is found here: it spreads to the whole row in the final norm.
func (b *Backend) Logits(w backend.Weight, rows backend.Tensor) []float32 {
	head, in := w.(*weight), rows.(*tensor)
	x := &b.sampled
	*x = tensor{cols: in.cols, data: grow(x.data, len(b.batch.Sample)*in.cols), quants: x.quants, meta: x.meta}
	for i, r := range b.batch.Sample {
		copy(x.row(i), in.row(int(r)))
	}
	b.logits = grow(b.logits, len(b.batch.Sample)*head.rows)
	t := b.beginProducts(x, len(b.batch.Sample), store)
	t.check = true
	t.add(product{w: head, dst: b.logits})
	b.multiply()
	if t.found.Load() && b.err == nil {
		b.err = backend.ErrNotFinite
	}
	return b.logits
}

func (b *Backend) beginProducts(x *tensor, rows int, end finish) *productTask {
	t := &b.productTask
	t.b, t.finish, t.num, t.x, t.rows, t.cols = b, end, 0, x, rows, x.cols
	t.check = false
	t.found.Store(false)
	return t
}

func (t *productTask) add(p product) {
	t.products[t.num] = p
	t.num++
}

// multiply runs the products that were added.
func (b *Backend) multiply() {
	t := &b.productTask
	if t.rows == 0 {
		return
	}
	if t.quantized() {
		b.quantize(t.x, t.rows)
	}
	groups, cost := 0, 0.0
	for i := range t.products[:t.num] {
		p := &t.products[i]
		groups += p.w.groups()
		cost += float64(p.w.groups()) * p.w.groupCost(t.rows)
		if p.up != nil {
			cost += float64(p.up.groups()) * p.up.groupCost(t.rows)
		}
		if t.finish != store {
			b.branch = grow(b.branch, b.maxRows*p.w.rows)
		}
	}
	t.size = b.workers.chunkSize(groups, cost/float64(groups))
	if b.ops.Arranges(t.rows) {
		chunks := arrangedChunks * len(b.workers.scratch)
		t.size = max(t.size, (groups+chunks-1)/chunks)
	}
	if t.finish == gateSiLU || t.finish == gateGELU {
		t.size += t.size % 2 // of whole blocks, which are quantised
	}
	chunks := 0
	for i := range t.products[:t.num] {
		p := &t.products[i]
		p.first = chunks
		chunks += (p.w.groups() + t.size - 1) / t.size
	}
	b.workers.run(t, chunks)
}

// quantized tells whether a product needs the quantised rows.
func (t *productTask) quantized() bool {
	for _, p := range t.products[:t.num] {
		if p.w.quantized() || p.up != nil && p.up.quantized() {
			return true
		}
	}
	return false
}

// groupCost estimates the nanoseconds of 16 rows of the matrix.
func (w *weight) groupCost(rows int) float64 {
	weights := float64(w.cols * kernels.GroupRows)
	if w.packed == nil {
		return weights * 4 * (readCost + multiplyCost*float64(rows))
	}
	if !w.quantized() {
		return weights * 2 * (readCost + multiplyCost*float64(rows))
	}
	return weights * (readCost + multiplyCost*float64(rows))
}

// run does a chunk: its groups of one product.
func (t *productTask) run(chunk int, s *scratch) {
	i := t.num - 1
	for chunk < t.products[i].first {
		i--
	}
	p := &t.products[i]
	from := (chunk - p.first) * t.size
	to := min(from+t.size, p.w.groups())
	n := p.w.rows
	lo, hi := from*kernels.GroupRows, min(to*kernels.GroupRows, n)
	ops, branch := t.b.ops, t.b.branch

	switch t.finish {
	case accumulate:
		t.rowsOf(p.w, from, to, branch, s)
	case gateSiLU, gateGELU:
		t.rowsOf(p.w, from, to, p.dst, s)
		t.rowsOf(p.up, from, to, branch, s)
	case store:
		t.rowsOf(p.w, from, to, p.dst, s)
	}
	for r := range t.rows {
		dst := p.dst[r*n+lo : r*n+hi]
		switch {
		case t.finish == accumulate:
			ops.Add(dst, branch[r*n+lo:r*n+hi])
		case t.finish == gateSiLU:
			ops.SiLUMul(dst, dst, branch[r*n+lo:r*n+hi])
		case t.finish == gateGELU:
			ops.GELUMul(dst, dst, branch[r*n+lo:r*n+hi])
		case p.bias != nil:
			ops.Add(dst, p.bias[lo:hi])
		case t.check && !ops.Finite(dst):
			t.found.Store(true)
		}
		if p.gated != nil && p.gated.quantized() {
			p.gated.quantize(ops, r, lo, hi)
		}
	}
}

// rowsOf sets out's columns of the groups from … to-1 to the product with w.
// out is [rows, w.rows].
func (t *productTask) rowsOf(w *weight, from, to int, out []float32, s *scratch) {
	if w.packed == nil {
		lo, hi := from*kernels.GroupRows, min(to*kernels.GroupRows, w.rows)
		t.b.ops.MatMulF32(out[lo:], w.rows, w.floats[lo*w.cols:hi*w.cols], hi-lo, t.x.data, t.rows, t.cols)
		return
	}
	full := min(to, w.rows/kernels.GroupRows)
	if from < full {
		t.groups(w, from, full, 0, t.rows, out[from*kernels.GroupRows:], w.rows)
	}
	if full < to {
		t.tail(w, out, s)
	}
}

// tail computes the last group, which has less than 16 rows of the matrix:
// aside, because the kernels write all 16.
func (t *productTask) tail(w *weight, out []float32, s *scratch) {
	group := w.groups() - 1
	lo := group * kernels.GroupRows
	for r := 0; r < t.rows; r += tailTokens {
		n := min(tailTokens, t.rows-r)
		t.groups(w, group, group+1, r, n, s.tail[:], kernels.GroupRows)
		for i := range n {
			copy(out[(r+i)*w.rows+lo:(r+i+1)*w.rows], s.tail[i*kernels.GroupRows:])
		}
	}
}

// groups multiplies n rows of x, from row r on, by packed groups.
func (t *productTask) groups(w *weight, from, to, r, n int, out []float32, ldo int) {
	packed := w.packed[from*w.groupBytes : to*w.groupBytes]
	if !w.quantized() {
		w.packer.multiply(t.b.ops, out, ldo, packed, to-from, t.x.data[r*t.cols:], n, t.cols)
		return
	}
	x := t.x.quants[r*t.cols:]
	meta := t.x.meta[r*t.cols/kernels.BlockColumns:]
	t.b.ops.MatMul(w.packer.form, out, ldo, packed, to-from, x, meta, n, t.cols)
}
