//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda"
)

// columnsOf lists numbers of columns that a format allows, of one and of more than one
// step of any kernel. Formats of 16 bits also have odd ones, which are F32 on the device.
func columnsOf(f cuda.Format) []int {
	switch block := ggml[f].elements; block {
	case 1:
		return []int{1, 7, 77, 96, 101, 2080}
	default:
		return []int{block, 3 * block, 1280 + block}
	}
}

func embedCases() []Case {
	var cases []Case
	for f := range cuda.NumFormats {
		for _, cols := range columnsOf(f) {
			for _, rows := range []int{1, 3, 17} {
				const table = 33
				cases = append(cases, Case{"embed", fmt.Sprintf("%v, %s", f, numbered("rows", rows, "cols", cols)), func(b *Bench) error {
					m := newMatrix(b, f, table, cols, 1)
					const scale = 1.5
					tokens, want := make([]int32, rows), []float64(nil)
					for i := range tokens {
						tokens[i] = int32(b.Rand.IntN(table))
						for _, v := range m.row(int(tokens[i])) {
							want = append(want, v*scale)
						}
					}
					y := b.Empty(4 * rows * cols)
					b.Do(b.Kernels.Embed(b.Stream, y, m.Matrix, b.Ints(tokens), 0, rows, scale))
					// Where a minimum is taken off, what is left has the error of its terms.
					return Compare(b.ReadFloats(y, rows*cols), want, cols, Tolerance{Absolute: 1e-6, Relative: elementwise.Relative})
				}})
			}
		}
	}
	cases = append(cases, Case{"embed", "tokens that are not in the table", func(b *Bench) error {
		m := newMatrix(b, cuda.Q8_0, 5, 64, 1)
		y := b.Empty(4 * 4 * 64)
		b.Do(b.Kernels.Embed(b.Stream, y, m.Matrix, b.Ints([]int32{4, -1, 5, math.MaxInt32}), 0, 4, 1))
		for i, v := range b.ReadFloats(y, 4*64) {
			if nan := v != v; nan != (i >= 64) {
				return fmt.Errorf("value %d of row %d is %v: rows of other tokens are NaN, and no others", i%64, i/64, v)
			}
		}
		return nil
	}})
	cases = append(cases, Case{"embed", "tokens that the step before has drawn", func(b *Bench) error {
		const cols = 64
		m := newMatrix(b, cuda.Q8_0, 5, cols, 1)
		drawn := b.Ints([]int32{9, 9, 3, 9, 0, 9, 7})
		y := b.Empty(4 * 4 * cols)
		b.Do(b.Kernels.Embed(b.Stream, y, m.Matrix, b.Ints([]int32{-3, 1, -5, -7}), drawn, 4, 1))
		values := b.ReadFloats(y, 4*cols)
		for _, v := range values[3*cols:] {
			if v == v {
				return fmt.Errorf("a drawn token that is not in the table makes %v, want NaN", v)
			}
		}
		var want []float64
		for _, token := range []int{3, 1, 0} {
			want = append(want, m.row(token)...)
		}
		return Compare(values[:3*cols], want, cols, Tolerance{Absolute: 1e-6, Relative: elementwise.Relative})
	}})
	return cases
}

func embedSpeeds() []Speed {
	const rows, cols = 2048, 4096
	return []Speed{{"embed", fmt.Sprintf("%v, %s", cuda.Q6_K, numbered("rows", rows, "cols", cols)), func(b *Bench, shrink int) Work {
		rows, table := rows/shrink, max(32000/shrink, 1)
		m := zeroMatrix(b, cuda.Q6_K, table, cols)
		tokens := make([]int32, rows)
		for i := range tokens {
			tokens[i] = int32(b.Rand.IntN(table))
		}
		y, on := b.Empty(4*rows*cols), b.Ints(tokens)
		return Work{Bytes: float64(rows) * (4*cols + rowBytes(m)), Launch: func() error {
			return b.Kernels.Embed(b.Stream, y, m, on, 0, rows, 1)
		}}
	}}}
}

// zeroMatrix is a matrix of zeros, for timing.
func zeroMatrix(b *Bench, f cuda.Format, rows, cols int) cuda.Matrix {
	layout, err := cuda.NewLayout(f, rows, cols)
	b.Do(err)
	return cuda.Matrix{Layout: layout, Data: b.Zeros(int(layout.Bytes()))}
}

// rowBytes is what a row of a matrix takes.
func rowBytes(m cuda.Matrix) float64 { return float64(m.StageBytes(1)) }
