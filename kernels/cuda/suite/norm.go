//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// rmsNorm is the RMS norm of a row times w, in float64.
func rmsNorm(x, w []float32, eps float32) []float64 {
	squares := 0.0
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(eps))
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) * scale * float64(w[i])
	}
	return out
}

func normCases() []Case {
	var cases []Case
	for _, size := range []struct {
		rows, cols int
		size, eps  float32
	}{
		{1, 1, 1, 1e-5}, {3, 7, 1, 1e-6}, {17, 64, 100, 1e-5}, {33, 576, 1, 1e-5}, {77, 577, 1e-4, 1e-6}, {2, 2048, 1, 1e-5}, {1, 5120, 30, 1e-6},
		{1, 12289, 1, 1e-5},
	} {
		name := numbered("rows", size.rows, "cols", size.cols)
		in := func(b *Bench) (x, w []float32) {
			return b.Normal(size.rows*size.cols, size.size), b.Normal(size.cols, 1)
		}
		twin := func(x, w []float32) []float64 {
			var want []float64
			for r := range size.rows {
				want = append(want, rmsNorm(x[r*size.cols:][:size.cols], w, size.eps)...)
			}
			return want
		}
		run := func(place func(b *Bench, x driver.Ptr) driver.Ptr) func(*Bench) error {
			return func(b *Bench) error {
				x, w := in(b)
				from := b.Floats(x)
				to := place(b, from)
				b.Do(b.Kernels.Norm(b.Stream, to, from, b.Floats(w), size.rows, size.cols, size.eps))
				return Compare(b.ReadFloats(to, len(x)), twin(x, w), size.cols, summed)
			}
		}
		cases = append(cases,
			Case{"rms_norm", name, run(func(b *Bench, _ driver.Ptr) driver.Ptr { return b.Empty(4 * size.rows * size.cols) })},
			Case{"rms_norm", name + ", in place", run(func(_ *Bench, x driver.Ptr) driver.Ptr { return x })},
			Case{"rms_norm_add", name, func(b *Bench) error {
				x, w := in(b)
				y := b.Normal(len(x), 1)
				from, to := b.Floats(x), b.Floats(y)
				b.Do(b.Kernels.AddNorm(b.Stream, to, from, b.Floats(w), size.rows, size.cols, size.eps))
				want := twin(x, w)
				largest := 0.0
				for i, v := range want {
					largest = max(largest, math.Abs(v))
					want[i] += float64(y[i])
				}
				// Where the sum is small, the error is that of its terms.
				t := Tolerance{Absolute: summed.Relative * (largest + 4), Relative: summed.Relative}
				if err := Compare(b.ReadFloats(to, len(x)), want, size.cols, t); err != nil {
					return err
				}
				return Same(b.ReadFloats(from, len(x)), x, size.cols)
			}},
			Case{"rms_norm_add_norm", name, func(b *Bench) error { return addNormNorm(b, size.rows, size.cols, size.size, size.eps, false) }},
			Case{"rms_norm_add_norm", name + ", in place", func(b *Bench) error { return addNormNorm(b, size.rows, size.cols, size.size, size.eps, true) }})
	}
	return cases
}

// addNormNorm checks the norm of what a norm was added to, in a place of its own or in
// that of what was normed first.
func addNormNorm(b *Bench, rows, cols int, size, eps float32, inPlace bool) error {
	x, y, w, next := b.Normal(rows*cols, size), b.Normal(rows*cols, 1), b.Normal(cols, 1), b.Normal(cols, 1)
	xAt, yAt := b.Floats(x), b.Floats(y)
	zAt := xAt
	if !inPlace {
		zAt = b.Empty(4 * rows * cols)
	}
	b.Do(b.Kernels.AddNormNorm(b.Stream, zAt, yAt, xAt, b.Floats(w), b.Floats(next), rows, cols, eps))
	var sums, want []float64
	for r := range rows {
		sum := make([]float32, cols)
		for i, v := range rmsNorm(x[r*cols:][:cols], w, eps) {
			sums = append(sums, float64(y[r*cols+i])+v)
			sum[i] = float32(sums[r*cols+i])
		}
		want = append(want, rmsNorm(sum, next, eps)...)
	}
	largest := 0.0
	for _, v := range append(sums, want...) {
		largest = max(largest, math.Abs(v))
	}
	// Where a sum is small, the error is that of its terms.
	t := Tolerance{Absolute: summed.Relative * (largest + 4), Relative: summed.Relative}
	if err := Compare(b.ReadFloats(yAt, len(y)), sums, cols, t); err != nil {
		return fmt.Errorf("sums: %w", err)
	}
	return Compare(b.ReadFloats(zAt, len(x)), want, cols, t)
}

func normSpeeds() []Speed {
	const rows, cols = 2048, 4096
	make := func(kernel string, passes float64, add bool) Speed {
		return Speed{kernel, numbered("rows", rows, "cols", cols), func(b *Bench, shrink int) Work {
			rows := rows / shrink
			x, y, w := b.Zeros(4*rows*cols), b.Zeros(4*rows*cols), b.Zeros(4*cols)
			launch := b.Kernels.Norm
			if add {
				launch = b.Kernels.AddNorm
			}
			return Work{Bytes: 4 * passes * float64(rows) * cols, Launch: func() error { return launch(b.Stream, y, x, w, rows, cols, 1e-5) }}
		}}
	}
	both := Speed{"rms_norm_add_norm", numbered("rows", rows, "cols", cols), func(b *Bench, shrink int) Work {
		rows := rows / shrink
		x, y, z, w := b.Zeros(4*rows*cols), b.Zeros(4*rows*cols), b.Zeros(4*rows*cols), b.Zeros(4*cols)
		return Work{Bytes: 4 * 4 * float64(rows) * cols, Launch: func() error { return b.Kernels.AddNormNorm(b.Stream, z, y, x, w, w, rows, cols, 1e-5) }}
	}}
	return []Speed{make("rms_norm", 2, false), make("rms_norm_add", 3, true), both}
}
