// Package backendtest holds what every backend is tested with: Reference, a
// slow and readable backend in float32 that serves as the truth, and Run, the
// suite that each backend must pass.
package backendtest

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// Reference is a backend in plain Go: weights dequantised to float32, float32
// activations, float32 cache. It is written to be checked by reading; its own
// truth is the recorded logits of package model's golden test.
type Reference struct {
	maxRows int
	batch   *backend.Batch
	err     error // of this step, the first
}

var _ backend.Backend = (*Reference)(nil)

// NewReference makes a reference backend for batches of up to maxRows rows.
func NewReference(maxRows int) *Reference { return &Reference{maxRows: maxRows} }

// matrix is the Tensor and the Weight of Reference.
type matrix struct {
	rows, cols int
	data       []float32 // [rows, cols]
}

func (m *matrix) Rows() int           { return m.rows }
func (m *matrix) Cols() int           { return m.cols }
func (m *matrix) row(r int) []float32 { return m.data[r*m.cols : (r+1)*m.cols] }

func newMatrix(rows, cols int) *matrix {
	return &matrix{rows: rows, cols: cols, data: make([]float32, rows*cols)}
}

// cache is the KV of Reference.
type cache struct {
	shape        backend.KVShape
	keys, values []float32 // [layers, slots, heads, headDim]
}

func (c *cache) Bytes() int64 { return int64(len(c.keys)+len(c.values)) * 4 }

// at is where the head of a slot begins in keys and values.
func (c *cache) at(layer, slot, head int) int {
	s := c.shape
	return ((layer*s.Blocks*s.BlockSize+slot)*s.Heads + head) * s.HeadDim
}

// Name implements backend.Backend.
func (b *Reference) Name() string { return "reference float32" }

// MaxRows implements backend.Backend.
func (b *Reference) MaxRows() int { return b.maxRows }

// NewTensor implements backend.Backend.
func (b *Reference) NewTensor(cols int) (backend.Tensor, error) {
	return newMatrix(b.maxRows, cols), nil
}

// NewWeight implements backend.Backend.
func (b *Reference) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	cols := int(t.Shape[0])
	m := newMatrix(int(t.Elements())/cols, cols)
	if err := gguf.Dequantize(m.data, t.Data, t.Type); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return m, nil
}

// NewKV implements backend.Backend.
func (b *Reference) NewKV(s backend.KVShape) (backend.KV, error) {
	n := s.Layers * s.Blocks * s.BlockSize * s.Heads * s.HeadDim
	return &cache{shape: s, keys: make([]float32, n), values: make([]float32, n)}, nil
}

// KVBytes implements backend.Backend.
func (b *Reference) KVBytes(s backend.KVShape) int64 {
	return 2 * 4 * int64(s.Layers) * int64(s.Blocks) * int64(s.BlockSize) * int64(s.Heads) * int64(s.HeadDim)
}

// Begin implements backend.Backend.
func (b *Reference) Begin(batch *backend.Batch) {
	if batch.Rows() > b.maxRows {
		panic(fmt.Sprintf("backendtest: batch of %d rows, at most %d are allowed", batch.Rows(), b.maxRows))
	}
	b.batch, b.err = batch, nil
}

// Embed implements backend.Backend.
func (b *Reference) Embed(dst backend.Tensor, table backend.Weight, scale float32) {
	for r, token := range b.batch.Tokens {
		for i, x := range table.(*matrix).row(int(token)) {
			dst.(*matrix).row(r)[i] = x * scale
		}
	}
}

// Norm implements backend.Backend.
func (b *Reference) Norm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	for r := range b.batch.Rows() {
		norm(dst.(*matrix).row(r), x.(*matrix).row(r), w.(*matrix).data, eps)
	}
}

// AddNorm implements backend.Backend.
func (b *Reference) AddNorm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	branch := make([]float32, x.Cols())
	for r := range b.batch.Rows() {
		norm(branch, x.(*matrix).row(r), w.(*matrix).data, eps)
		add(dst.(*matrix).row(r), branch)
	}
}

// norm sets dst to x / sqrt(mean(x²) + eps) · w.
func norm(dst, x, w []float32, eps float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32(float64(v)*scale) * w[i]
	}
}

// MatMul implements backend.Backend.
func (b *Reference) MatMul(dst []backend.Tensor, w, bias []backend.Weight, x backend.Tensor) {
	for i := range dst {
		out := b.product(w[i], x, b.allRows())
		if bias != nil && bias[i] != nil {
			for r := range out.rows {
				add(out.row(r), bias[i].(*matrix).data)
			}
		}
		copy(dst[i].(*matrix).data, out.data)
	}
}

// AddMatMul implements backend.Backend.
func (b *Reference) AddMatMul(dst backend.Tensor, w backend.Weight, x backend.Tensor) {
	out := b.product(w, x, b.allRows())
	add(dst.(*matrix).data[:len(out.data)], out.data)
}

// GatedMatMul implements backend.Backend.
func (b *Reference) GatedMatMul(dst backend.Tensor, gate, up backend.Weight, x backend.Tensor, act backend.Activation) {
	g, u := b.product(gate, x, b.allRows()), b.product(up, x, b.allRows())
	for i, v := range g.data {
		dst.(*matrix).data[i] = float32(activate(act, float64(v))) * u.data[i]
	}
}

func activate(act backend.Activation, x float64) float64 {
	switch act {
	case backend.SiLU:
		return x / (1 + math.Exp(-x))
	case backend.GELU:
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	panic(fmt.Sprintf("backendtest: activation %d", act))
}

// HeadNorm implements backend.Backend.
func (b *Reference) HeadNorm(x backend.Tensor, w backend.Weight, eps float32) {
	for r := range b.batch.Rows() {
		row := x.(*matrix).row(r)
		for n := w.Cols(); len(row) > 0; row = row[n:] {
			norm(row[:n], row[:n], w.(*matrix).data, eps)
		}
	}
}

// Rotate implements backend.Backend.
func (b *Reference) Rotate(x backend.Tensor, headDim int, rope backend.Rope) {
	for r, position := range b.batch.Positions {
		for row := x.(*matrix).row(r); len(row) > 0; row = row[headDim:] {
			for i, freq := range rope.Freqs {
				sin, cos := math.Sincos(float64(position) * float64(freq))
				first, second := 2*i, 2*i+1
				if rope.Neox {
					first, second = i, i+rope.Dims/2
				}
				u, v := float64(row[first]), float64(row[second])
				row[first] = float32(u*cos - v*sin)
				row[second] = float32(u*sin + v*cos)
			}
		}
	}
}

// Store implements backend.Backend.
func (b *Reference) Store(kv backend.KV, layer int, k, v backend.Tensor) {
	c := kv.(*cache)
	for r, slot := range b.batch.Slots {
		at := c.at(layer, int(slot), 0)
		copy(c.keys[at:], k.(*matrix).row(r))
		copy(c.values[at:], v.(*matrix).row(r))
	}
}

// Attend implements backend.Backend.
func (b *Reference) Attend(dst, q backend.Tensor, kv backend.KV, layer int, scale float32, window int) {
	c, dim := kv.(*cache), kv.(*cache).shape.HeadDim
	heads := q.Cols() / dim
	for _, seq := range b.batch.Seqs {
		for r := int(seq.Row); r < int(seq.Row+seq.Len); r++ {
			end := int(b.batch.Positions[r]) + 1
			start := 0
			if window > 0 {
				start = max(0, end-window)
			}
			for h := range heads {
				out := dst.(*matrix).row(r)[h*dim : (h+1)*dim]
				query := q.(*matrix).row(r)[h*dim : (h+1)*dim]
				attendHead(out, query, c, layer, h/(heads/c.shape.Heads), seq.Blocks, start, end, scale)
			}
		}
	}
}

// attendHead sets out to softmax(scale·q·kᵀ)·v over positions start … end-1.
func attendHead(out, q []float32, c *cache, layer, head int, blocks []int32, start, end int, scale float32) {
	at := func(i int) int {
		position := start + i
		size := c.shape.BlockSize
		return c.at(layer, int(blocks[position/size])*size+position%size, head)
	}
	weights := make([]float64, end-start)
	highest := math.Inf(-1)
	for p := range weights {
		key := c.keys[at(p) : at(p)+len(q)]
		weights[p] = float64(dot(q, key)) * float64(scale)
		highest = max(highest, weights[p])
	}
	var sum float64
	for p, s := range weights {
		weights[p] = math.Exp(s - highest)
		sum += weights[p]
	}
	clear(out)
	for p, w := range weights {
		for i, v := range c.values[at(p) : at(p)+len(q)] {
			out[i] += float32(w/sum) * v
		}
	}
}

// Logits implements backend.Backend.
func (b *Reference) Logits(w backend.Weight, x backend.Tensor) []float32 {
	out := b.product(w, x, b.batch.Sample).data
	for _, v := range out {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			b.err = backend.ErrNotFinite
			break
		}
	}
	return out
}

// Sync implements backend.Backend.
func (b *Reference) Sync() error { return b.err }

// Close implements backend.Backend.
func (b *Reference) Close() error { return nil }

// allRows lists the rows of the batch.
func (b *Reference) allRows() []int32 {
	rows := make([]int32, b.batch.Rows())
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// product returns the listed rows of x times Wᵀ, the work shared by goroutines.
func (b *Reference) product(w backend.Weight, x backend.Tensor, rows []int32) *matrix {
	weight, in := w.(*matrix), x.(*matrix)
	out := newMatrix(len(rows), weight.rows)
	var workers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for worker := range n {
		workers.Go(func() {
			for o := worker * weight.rows / n; o < (worker+1)*weight.rows/n; o++ {
				for i, r := range rows {
					out.row(i)[o] = dot(weight.row(o), in.row(int(r)))
				}
			}
		})
	}
	workers.Wait()
	return out
}

func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// dot is the scalar product, in four sums so that it is not bound by the
// latency of one addition.
func dot(x, y []float32) float32 {
	var a, b, c, d float32
	y = y[:len(x)]
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += x[i] * y[i]
		b += x[i+1] * y[i+1]
		c += x[i+2] * y[i+2]
		d += x[i+3] * y[i+3]
	}
	for ; i < len(x); i++ {
		a += x[i] * y[i]
	}
	return (a + b) + (c + d)
}
