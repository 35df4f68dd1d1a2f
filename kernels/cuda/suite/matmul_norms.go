//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// normProducts are products of many rows before and behind a norm, of which each does
// a part.
func normProducts() []product {
	var list []product
	mixed := []cuda.Format{cuda.Q4_K, cuda.Q8_0, cuda.BF16}
	for _, x := range []int{17, 64, 65, 77, 129} {
		for _, f := range mixed {
			for _, rows := range []int{32, 128, 200, 576} {
				list = append(list, product{formats: []cuda.Format{f}, rows: []int{rows}, cols: 512, x: x, mode: norming})
			}
			list = append(list, product{formats: []cuda.Format{f, f}, rows: []int{77, 77}, cols: 256, x: x, mode: silu, normed: true, rootless: true})
		}
		list = append(list,
			product{formats: mixed, rows: []int{33, 129, 1}, cols: 2304, x: x, mode: setting, normed: true, rootless: true, bias: true},
			product{formats: mixed[:2], rows: []int{40, 40}, cols: 512, x: x, mode: gelu, normed: true, rootless: true})
	}
	return list
}

// scaledRows are the rows of x as a product leaves them to the one behind a norm.
func scaledRows(b *Bench, x, norm []float32) (scaled, squares driver.Ptr, parts int) {
	cols := len(norm)
	parts = cuda.NormParts(cols)
	out, sums := make([]float32, len(x)), make([]float32, len(x)/cols*parts)
	for i, v := range x {
		out[i] = v * norm[i%cols]
		sums[i/cols*parts+i%cols*parts/cols] += v * v
	}
	return b.Floats(out), b.Floats(sums), parts
}

// nextNorm is the norm behind a product.
type nextNorm struct {
	onDevice cuda.NextNorm
	weights  []float32
}

func newNextNorm(b *Bench, x, rows int) *nextNorm {
	w := b.Normal(rows, 1)
	return &nextNorm{cuda.NextNorm{Weights: b.Floats(w), Scaled: b.Empty(4 * x * rows), Squares: b.Empty(4 * x * cuda.NormParts(rows))}, w}
}

// check compares what is left of it with y, which the product has written.
func (n *nextNorm) check(b *Bench, y []float32) error {
	cols := len(n.weights)
	rows, parts := len(y)/cols, cuda.NormParts(cols)
	scaled := make([]float64, len(y))
	squares := make([]float64, rows)
	for i, v := range y {
		scaled[i] = float64(v) * float64(n.weights[i%cols])
		squares[i/cols] += float64(v) * float64(v)
	}
	if err := Compare(b.ReadFloats(n.onDevice.Scaled, len(y)), scaled, cols, Tolerance{Relative: math.Pow(2, -23)}); err != nil {
		return fmt.Errorf("scaled for the norm: %w", err)
	}
	sums := make([]float32, rows)
	for i, v := range b.ReadFloats(n.onDevice.Squares, rows*parts) {
		sums[i/parts] += v
	}
	if err := Compare(sums, squares, 1, Tolerance{Relative: 1e-5}); err != nil {
		return fmt.Errorf("sums of squares: %w", err)
	}
	return nil
}
