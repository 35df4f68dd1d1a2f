//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/cublaslt"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// LibraryKernel is what cases and speeds of cuBLASLt are named.
const LibraryKernel = "cublaslt"

// libraryProduct is a case of cublaslt: Y = alpha·X·Wᵀ + beta·Y (+ bias), twice.
type libraryProduct struct {
	shape       cublaslt.Shape
	alpha, beta float32
}

func (p libraryProduct) String() string {
	return fmt.Sprintf("%v, alpha %g, beta %g", p.shape, p.alpha, p.beta)
}

func (p libraryProduct) format() cuda.Format {
	if p.shape.Type == cublaslt.F16 {
		return cuda.F16
	}
	return cuda.BF16
}

// run checks the product. Only the last wait of the stream is one: a library that put
// its work elsewhere would read x too early, or add to y too early the second time.
func (p libraryProduct) run(b *Bench, l *cublaslt.Library) error {
	s := p.shape
	w := newMatrix(b, p.format(), s.Rows, s.Cols, 1/math.Sqrt(float64(s.Cols)))
	x, y, bias := b.Normal(s.X*s.Cols, 1), b.Normal(s.X*s.Rows+1, 1), b.Normal(s.Rows, 1)
	// What bfloat16 and float16 both have: seven bits behind the point, no rounding.
	for i := range x {
		x[i] = float32(roundBF16(x[i]))
	}
	const guard = -7
	y[len(y)-1] = guard
	want, bounds := p.twin(w, x, y, bias)
	l.UseWorkspace(b.Empty(cublaslt.WorkspaceBytes), cublaslt.WorkspaceBytes)
	narrow, to := b.Empty(2*len(x)), b.Floats(y)
	operands := cublaslt.Operands{W: w.Data, X: narrow, Y: to, Alpha: p.alpha, Beta: p.beta}
	if s.Biased {
		operands.Bias = b.Floats(bias)
	}
	from := b.Floats(x)
	b.Do(b.Kernels.Narrow(b.Stream, narrow, from, p.format(), 1, len(x)))
	for range 2 {
		b.Do(l.Multiply(b.Stream, s, operands))
	}
	got := b.ReadFloats(to, len(y))
	if b.err == nil && got[len(got)-1] != guard {
		return fmt.Errorf("the value behind the last is %v, want %v", got[len(got)-1], guard)
	}
	return compareWithin(got[:len(want)], want, bounds, s.Rows)
}

// twin computes the product twice in float64, and how far a value may be off: float32
// sums as those of product.within, and the roundings of what is added.
func (p libraryProduct) twin(w *matrix, x, y, bias []float32) (want, bounds []float64) {
	s := p.shape
	within := product{cols: s.Cols}.within()
	for r := range s.X {
		for o := range s.Rows {
			sum, size := 0.0, 0.0
			for i, v := range w.row(o) {
				term := v * float64(x[r*s.Cols+i]) * float64(p.alpha)
				sum += term
				size += math.Abs(term)
			}
			if s.Biased {
				sum += float64(bias[o])
				size += math.Abs(float64(bias[o]))
			}
			value, bound := float64(y[r*s.Rows+o]), 0.0
			for range 2 {
				bound = size*within + math.Abs(float64(p.beta))*(bound+math.Abs(value)*math.Pow(2, -23))
				value = sum + float64(p.beta)*value
				bound += math.Abs(value) * math.Pow(2, -22)
			}
			want, bounds = append(want, value), append(bounds, bound+1e-9)
		}
	}
	return want, bounds
}

// LibraryCases are those of cuBLASLt, for a library on the bench's device.
func LibraryCases(l *cublaslt.Library) []Case {
	var cases []Case
	add := func(p libraryProduct) {
		cases = append(cases, Case{LibraryKernel, p.String(), func(b *Bench) error { return p.run(b, l) }})
	}
	for _, t := range []cublaslt.Type{cublaslt.BF16, cublaslt.F16} {
		for _, size := range [][3]int{{1, 32, 1}, {33, 64, 17}, {200, 768, 65}, {576, 1536, 77}, {130, 96, 130}, {2048, 512, 128}} {
			s := cublaslt.Shape{Type: t, Rows: size[0], Cols: size[1], X: size[2]}
			biased := s
			biased.Biased = true
			add(libraryProduct{s, 1, 0})
			add(libraryProduct{s, 16, 1})
			add(libraryProduct{biased, 1, 0})
			add(libraryProduct{biased, 0.5, 1})
		}
	}
	return cases
}

// LibrarySpeeds are products of an 8B model of BF16 by cuBLASLt, x rounded before as a
// step does it, and the same sizes by our kernel.
func LibrarySpeeds(l *cublaslt.Library) []Speed {
	var speeds []Speed
	for _, size := range [][2]int{{4096, 4096}, {14336, 4096}, {4096, 14336}} {
		for _, x := range []int{128, 512, 2048} {
			// Shrunk sizes stay such as each kernel is for.
			smaller := func(shrink int) (rows, cols, n int) {
				return max(size[0]/shrink, 32), max(size[1]/shrink/32*32, 128), max(x/shrink, 64)
			}
			name := fmt.Sprintf("BF16 prompt, rows %d, cols %d, x %d", size[0], size[1], x)
			speeds = append(speeds,
				Speed{"matmul_tile", name, func(b *Bench, shrink int) Work {
					rows, cols, n := smaller(shrink)
					return promptWork(b, rows, cols, n, func(w cuda.Matrix, x, y driver.Ptr, n int) func() error {
						call := cuda.Product{Matrices: []cuda.Matrix{w}, Y: []driver.Ptr{y}}
						place(b, &call)
						in := cuda.Input{X: x, Rows: n, Scratch: b.Zeros(int(b.Kernels.MatMulScratch()))}
						return func() error { return b.Kernels.MatMul(b.Stream, &call, in) }
					})
				}},
				Speed{LibraryKernel, name, func(b *Bench, shrink int) Work {
					rows, cols, n := smaller(shrink)
					return promptWork(b, rows, cols, n, func(w cuda.Matrix, x, y driver.Ptr, n int) func() error {
						l.UseWorkspace(b.Empty(cublaslt.WorkspaceBytes), cublaslt.WorkspaceBytes)
						narrow := b.Empty(2 * n * cols)
						shape := cublaslt.Shape{Type: cublaslt.BF16, Rows: w.Rows, Cols: cols, X: n}
						operands := cublaslt.Operands{W: w.Data, X: narrow, Y: y, Alpha: 1}
						return func() error {
							if err := b.Kernels.Narrow(b.Stream, narrow, x, cuda.BF16, 1, n*cols); err != nil {
								return err
							}
							return l.Multiply(b.Stream, shape, operands)
						}
					})
				}})
		}
	}
	return speeds
}

// promptWork is one product of n rows of x.
func promptWork(b *Bench, rows, cols, n int, prepare func(w cuda.Matrix, x, y driver.Ptr, n int) func() error) Work {
	w := zeroMatrix(b, cuda.BF16, rows, cols)
	launch := prepare(w, b.Zeros(4*n*cols), b.Empty(4*n*rows), n)
	return Work{
		Bytes:  float64(rows)*rowBytes(w) + 4*float64(n)*float64(rows+cols),
		FLOPs:  2 * float64(rows) * float64(cols) * float64(n),
		Launch: launch,
	}
}
