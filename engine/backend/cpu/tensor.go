package cpu

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// tensor is the Tensor of this backend. Products with quantised weights take its
// rows as int8. Who writes rows that a product has taken once quantises them at
// once, while they are in the cache; other rows are quantised by the product.
type tensor struct {
	cols int
	data []float32 // [maxRows, cols]

	// quants and meta are data quantised, nil before the first product that takes
	// them so; of the first fresh rows, the others are older than data.
	quants []int8         // [maxRows, cols]
	meta   []kernels.Meta // [maxRows, cols/32]
	fresh  int
}

func (t *tensor) Cols() int           { return t.cols }
func (t *tensor) row(r int) []float32 { return t.data[r*t.cols : (r+1)*t.cols] }

// NewTensor implements backend.Backend.
func (b *Backend) NewTensor(cols int) (backend.Tensor, error) {
	return &tensor{cols: cols, data: make([]float32, b.maxRows*cols)}, nil
}

// overwritten returns the tensor to an operation that changes its rows.
func overwritten(t backend.Tensor) *tensor {
	w := t.(*tensor)
	w.fresh = 0
	return w
}

// quantized tells whether products take the rows as int8.
func (t *tensor) quantized() bool { return t.quants != nil }

// written tells that an operation has made so many rows, and quantised them if it does
// that.
func (t *tensor) written(rows int, quantised bool) {
	if quantised {
		t.fresh = rows
	}
}

// quantize sets the quantised values from … to-1 of a row, multiples of 32.
func (t *tensor) quantize(ops *kernels.Ops, r, from, to int) {
	lo, hi := r*t.cols+from, r*t.cols+to
	ops.Quantize(t.quants[lo:hi], t.meta[lo/kernels.BlockColumns:hi/kernels.BlockColumns], t.data[lo:hi])
}

// quantizeCost is the estimated time of quantising one value, in nanoseconds.
const quantizeCost = 0.3

type quantizeTask struct {
	b          *Backend
	size, rows int
	x          *tensor
}

// quantize sees to it that the first rows of x are there as int8.
func (b *Backend) quantize(x *tensor, rows int) {
	if x.fresh >= rows {
		return
	}
	x.quants, x.meta = grow(x.quants, len(x.data)), grow(x.meta, len(x.data)/kernels.BlockColumns)
	t := &b.quantizeTask
	*t = quantizeTask{b: b, x: x, rows: rows}
	t.size = b.workers.chunkSize(rows, quantizeCost*float64(x.cols))
	b.workers.run(t, (rows+t.size-1)/t.size)
	x.fresh = rows
}

func (t *quantizeTask) run(chunk int, _ *scratch) {
	from, to := rowRange(chunk, t.size, t.rows)
	for r := from; r < to; r++ {
		t.x.quantize(t.b.ops, r, 0, t.x.cols)
	}
}
