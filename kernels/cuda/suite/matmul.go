//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"
	"slices"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// product is a case of matrices that share their input.
type product struct {
	formats []cuda.Format
	rows    []int // of each matrix
	cols    int
	x       int // rows of x
	normed  bool
	// rootless: normed, where x is scaled by the norm's weights already.
	rootless bool
	bias     bool
	mode     productMode
}

type productMode string

const (
	setting  productMode = "set"
	adding   productMode = "add"
	norming  productMode = "add, with a norm behind"
	silu     productMode = "silu gated"
	gelu     productMode = "gelu gated"
	choosing productMode = "chosen rows"
)

const productEps = 1e-5

func (p product) String() string {
	s := fmt.Sprintf("%v %s, rows %v, cols %d, x %d", p.formats, p.mode, p.rows, p.cols, p.x)
	if p.normed {
		s += ", normed"
	}
	if p.rootless {
		s += " but for the roots"
	}
	if p.bias {
		s += ", bias"
	}
	return s
}

// float tells whether the kernel computes in float32; otherwise weights and x are
// rounded to bfloat16.
func (p product) float() bool {
	return p.x <= 4 || slices.ContainsFunc(p.formats, func(f cuda.Format) bool {
		return f == cuda.F32 || ggml[f].elements == 1 && p.cols%32 != 0
	})
}

// kernel is the one that the launch must choose.
func (p product) kernel() string {
	switch {
	case p.float() && p.x >= 3:
		return "matmul_vector_4"
	case p.float():
		return fmt.Sprintf("matmul_vector_%d", p.x)
	case p.x <= 8:
		return "matmul_skinny_8"
	case p.x <= 16:
		return "matmul_skinny_16"
	}
	return "matmul_tile"
}

// roundBF16 rounds a float32 to bfloat16, to the nearest and halves to even.
func roundBF16(x float32) float64 {
	b := math.Float32bits(x)
	return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
}

// sums are the products of all rows of x with all rows of m in float64, and what their
// error is measured by: the sums of the products' magnitudes. The inputs are rounded as
// the kernel says it does. [x, rows]
func (p product) sums(m *matrix, x, norm []float32) (values, sizes []float64) {
	weights := m.values
	if !p.float() {
		weights = slices.Clone(weights)
		for i, v := range weights {
			weights[i] = roundBF16(float32(v))
		}
	}
	in := make([]float64, p.cols)
	for r := range p.x {
		row, factor := x[r*p.cols:][:p.cols], 1.0
		if p.normed {
			square := 0.0
			for _, v := range row {
				square += float64(v) * float64(v)
			}
			factor = 1 / math.Sqrt(square/float64(p.cols)+productEps)
		}
		for i, v := range row {
			if p.normed {
				v *= norm[i] // in float32, before it is rounded
			}
			in[i] = float64(v)
			if !p.float() {
				in[i] = roundBF16(v)
			}
		}
		for o := range m.Rows {
			sum, size := 0.0, 0.0
			for i, w := range weights[o*p.cols:][:p.cols] {
				sum += w * in[i]
				size += math.Abs(w * in[i])
			}
			values, sizes = append(values, sum*factor), append(sizes, size*factor)
		}
	}
	return values, sizes
}

// within is how far a product may be off, as a part of the sum of its products'
// magnitudes: float32 sums of a depth of cols/32 a lane, and of cols/16 in the tensor
// cores, whose sums may be cut instead of rounded (Fasi et al., Numerical behavior of
// NVIDIA tensor cores, PeerJ CS 7:e330, 2021); 16 for splits, lanes and norms.
func (p product) within() float64 { return (float64(p.cols)/16 + 16) * math.Pow(2, -24) }

// run checks the product.
func (p product) run(b *Bench) error {
	x := b.Normal(p.x*p.cols, 1)
	var norm []float32
	in := cuda.Input{X: b.Floats(x), Rows: p.x, Eps: productEps, Scratch: b.Zeros(int(b.Kernels.MatMulScratch()))}
	if p.normed {
		norm = b.Normal(p.cols, 1)
		in.Norm = b.Floats(norm)
	}
	if p.rootless {
		in.Norm = 0
		in.X, in.Squares, in.Parts = scaledRows(b, x, norm)
	}
	var call cuda.Product
	var want, bounds [][]float64
	var before [][]float32
	for i, f := range p.formats {
		m := newMatrix(b, f, p.rows[i], p.cols, 1/math.Sqrt(float64(p.cols)))
		call.Matrices = append(call.Matrices, m.Matrix)
		values, sizes := p.sums(m, x, norm)
		for j := range sizes {
			sizes[j] = sizes[j]*p.within() + 1e-9
		}
		if p.bias && i != 1 { // one without
			bias := b.Normal(m.Rows, 1)
			call.Bias = append(call.Bias, b.Floats(bias))
			for j := range values {
				values[j] += float64(bias[j%m.Rows])
				sizes[j] += math.Abs(values[j]) * math.Pow(2, -23)
			}
		} else {
			call.Bias = append(call.Bias, 0)
		}
		want, bounds = append(want, values), append(bounds, sizes)
		y := b.Normal(len(values), 1)
		before = append(before, y)
		call.Y = append(call.Y, b.Floats(y))
	}
	p.finish(&call, before, &want, &bounds)
	table := make([]byte, cuda.TableBytes)
	call.Encode(table)
	call.Table = b.Bytes(table)

	var next *nextNorm
	if p.mode == norming {
		next = newNextNorm(b, p.x, p.rows[0])
	}
	// Twice, as the second finds what the first left in the scratch. What is added is
	// there twice then.
	for range 2 {
		switch p.mode {
		case setting:
			b.Do(b.Kernels.MatMul(b.Stream, &call, in))
		case adding:
			b.Do(b.Kernels.AddMatMul(b.Stream, &call, in))
		case norming:
			b.Do(b.Kernels.AddMatMulNorm(b.Stream, &call, in, next.onDevice))
		case silu:
			b.Do(b.Kernels.GatedMatMul(b.Stream, &call, in, cuda.SiLU))
		case gelu:
			b.Do(b.Kernels.GatedMatMul(b.Stream, &call, in, cuda.GELU))
		}
	}
	for i := range want {
		got := b.ReadFloats(call.Y[i], len(want[i]))
		if err := compareWithin(got, want[i], bounds[i], call.Matrices[i].Rows); err != nil {
			return fmt.Errorf("matrix %d: %w", i, err)
		}
		if next != nil {
			return next.check(b, got)
		}
	}
	return nil
}

// finish turns sums into what the mode makes of them.
func (p product) finish(call *cuda.Product, before [][]float32, want, bounds *[][]float64) {
	switch p.mode {
	case adding, norming:
		for i, y := range before {
			for j, v := range y {
				(*want)[i][j] = float64(v) + 2*(*want)[i][j]
				(*bounds)[i][j] = 2*(*bounds)[i][j] + (math.Abs(float64(v))+math.Abs((*want)[i][j]))*math.Pow(2, -23)
			}
		}
	case silu, gelu:
		act := silu64
		if p.mode == gelu {
			act = gelu64
		}
		g, u := (*want)[0], (*want)[1]
		for j := range g {
			// Both functions have slopes of at most 1.13, and errors of their own.
			gate := act(g[j])
			(*bounds)[0][j] = 1.13*(*bounds)[0][j]*math.Abs(u[j]) + math.Abs(gate)*(*bounds)[1][j] + math.Abs(gate*u[j])*math.Pow(2, -19) + 1e-7
			g[j] = gate * u[j]
		}
		*want, *bounds = (*want)[:1], (*bounds)[:1]
		call.Y = call.Y[:1]
		call.Bias = nil
	}
}

// compareWithin is Compare with a bound for each value.
func compareWithin(got []float32, want, bounds []float64, row int) error {
	wrong, worst, at := 0, 0.0, 0
	for i, w := range want {
		over := math.Abs(float64(got[i])-w) / bounds[i]
		if over <= 1 {
			continue
		}
		wrong++
		if over > worst || wrong == 1 {
			worst, at = over, i
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d values are wrong; the worst is value %d of row %d: got %v, want %v (off by %.2g, allowed %.2g)",
		wrong, len(want), at%row, at/row, got[at], want[at], float64(got[at])-want[at], bounds[at])
}

// xRows are numbers of rows of x: each kernel full, and with as little as it gets.
var xRows = []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 77}

func matMulCases() []Case {
	var list []product
	for f := range cuda.NumFormats {
		columns := columnsOf(f)
		for i, x := range xRows {
			// One number of columns in turn, and always one of several steps.
			for _, cols := range slices.Compact([]int{columns[i%len(columns)], columns[len(columns)-1]}) {
				list = append(list, product{formats: []cuda.Format{f}, rows: []int{33}, cols: cols, x: x, mode: setting})
			}
		}
	}
	mixed := []cuda.Format{cuda.Q4_K, cuda.Q8_0, cuda.Q6_K}
	for _, x := range xRows {
		normed := x <= cuda.MaxNormRows
		for _, f := range []cuda.Format{cuda.F32, cuda.BF16, cuda.Q8_0, cuda.Q4_K, cuda.Q6_K} {
			list = append(list,
				product{formats: []cuda.Format{f}, rows: []int{200}, cols: 768, x: x, mode: adding},
				product{formats: []cuda.Format{f, f}, rows: []int{77, 77}, cols: 256, x: x, mode: silu, normed: normed},
				product{formats: []cuda.Format{f, f}, rows: []int{65, 65}, cols: 768, x: x, mode: gelu},
				product{formats: []cuda.Format{f, f, f}, rows: []int{130, 5, 16}, cols: 512, x: x, mode: setting, normed: normed, bias: true})
		}
		list = append(list,
			product{formats: mixed, rows: []int{33, 129, 1}, cols: 2304, x: x, mode: setting, normed: normed, bias: true},
			product{formats: mixed[:2], rows: []int{40, 40}, cols: 512, x: x, mode: silu, normed: normed},
			product{formats: mixed[1:], rows: []int{40, 40}, cols: 512, x: x, mode: gelu},
			product{formats: []cuda.Format{cuda.F32, cuda.Q4_0}, rows: []int{40, 40}, cols: 512, x: x, mode: setting})
	}
	list = append(list, normProducts()...)
	var cases []Case
	for _, p := range list {
		cases = append(cases, Case{p.kernel(), p.String(), p.run})
	}
	for _, x := range xRows {
		cases = append(cases, identityCase(x))
		for _, f := range []cuda.Format{cuda.Q8_0, cuda.Q6_K} {
			cases = append(cases, chosenCase(f, x))
		}
	}
	return cases
}

// identityCase multiplies by the identity, in float32: that must copy, whatever there is
// in x, as backendtest reads a backend's tensors by it.
func identityCase(x int) Case {
	const cols = 101
	p := product{formats: []cuda.Format{cuda.F32}, rows: []int{cols}, cols: cols, x: x}
	return Case{p.kernel(), numbered("x of the identity", x), func(b *Bench) error {
		layout, err := cuda.NewLayout(cuda.F32, cols, cols)
		b.Do(err)
		blocks := make([]byte, cols*layout.SourceRowBytes())
		for i := range cols {
			blocks[i*layout.SourceRowBytes()+4*i+2], blocks[i*layout.SourceRowBytes()+4*i+3] = 0x80, 0x3f // 1
		}
		planes := layout.Carve(make([]byte, layout.StageBytes(cols)), cols)
		b.Do(layout.Pack(planes, blocks, cols))
		values := b.Normal(x*cols, 1e3)
		call := cuda.Product{Matrices: []cuda.Matrix{{Layout: layout, Data: placePlanes(b, layout, planes)}}, Y: []driver.Ptr{b.Empty(4 * x * cols)}}
		place(b, &call)
		b.Do(b.Kernels.MatMul(b.Stream, &call, cuda.Input{X: b.Floats(values), Rows: x, Scratch: b.Zeros(int(b.Kernels.MatMulScratch()))}))
		return Same(b.ReadFloats(call.Y[0], x*cols), values, cols)
	}}
}

// place puts a product's table on the device.
func place(b *Bench, call *cuda.Product) {
	table := make([]byte, cuda.TableBytes)
	call.Encode(table)
	call.Table = b.Bytes(table)
}

// chosenCase checks logits: rows in any order, twice and not at all, the softcap, and
// the flag, which only a row that is asked for may raise.
func chosenCase(f cuda.Format, x int) Case {
	const cols, vocab, softcap = 512, 99, 3
	p := product{formats: []cuda.Format{f}, rows: []int{vocab}, cols: cols, x: x, mode: choosing}
	return Case{p.kernel(), p.String(), func(b *Bench) error {
		m := newMatrix(b, f, vocab, cols, 0.2)
		const tall = 90 // rows of x that there are
		values := b.Normal(tall*cols, 1)
		rows := make([]int32, x)
		for i := range rows {
			rows[i] = int32(1 + b.Rand.IntN(tall-1))
		}
		if x > 2 {
			rows[1], rows[2] = -1, rows[0]
		}
		values[5] = float32(math.NaN()) // row 0 is not asked for
		var chosen []float32
		for _, r := range rows {
			r = max(r, 1)
			chosen = append(chosen, values[int(r)*cols:][:cols]...)
		}
		want, bounds := p.sums(m, chosen, nil)
		for i := range want {
			// The softcap's slope is at most 1; tanhf has 2 units in the last place.
			want[i] = softcap * math.Tanh(want[i]/softcap)
			bounds[i] = bounds[i]*p.within() + 1e-6
		}
		call := cuda.Product{Matrices: []cuda.Matrix{m.Matrix}, Y: []driver.Ptr{b.Zeros(4 * x * vocab)}}
		place(b, &call)
		flag := b.Zeros(4)
		in := cuda.Input{X: b.Floats(values), Rows: x, Scratch: b.Zeros(int(b.Kernels.MatMulScratch()))}
		end := cuda.LogitsEnd{Rows: b.Ints(rows), Softcap: softcap, NotFinite: flag}
		b.Do(b.Kernels.Logits(b.Stream, &call, in, end))
		if x > 2 {
			clear(want[vocab : 2*vocab]) // left as it was
		}
		if err := compareWithin(b.ReadFloats(call.Y[0], x*vocab), want, bounds, vocab); err != nil {
			return err
		}
		if b.ReadBytes(flag, 4)[0] != 0 {
			return fmt.Errorf("the flag of values that are not finite is set by a row that is not asked for")
		}
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
			values[int(rows[x-1])*cols+cols-1] = bad
			in.X = b.Floats(values)
			end.NotFinite = b.Zeros(4)
			b.Do(b.Kernels.Logits(b.Stream, &call, in, end))
			if flag := b.ReadBytes(end.NotFinite, 4)[0]; flag != 1 && b.err == nil {
				return fmt.Errorf("the flag is %d after a row with %v, want 1", flag, bad)
			}
		}
		return nil
	}}
}

func matMulSpeeds() []Speed {
	var speeds []Speed
	// A layer's gate and up of an 8B model.
	const rows, cols = 14336, 4096
	for _, f := range []cuda.Format{cuda.BF16, cuda.Q8_0, cuda.Q4_K, cuda.Q6_K} {
		for _, x := range []int{1, 2, 4, 8, 16, 64, 512} {
			p := product{formats: []cuda.Format{f}, cols: cols, x: x}
			speeds = append(speeds, Speed{p.kernel(), fmt.Sprintf("%v, rows %d, cols %d, x %d", f, rows, cols, x), func(b *Bench, shrink int) Work {
				rows, x := rows/shrink, x
				if x > 64 {
					x = max(x/shrink, 64)
				}
				m := zeroMatrix(b, f, rows, cols)
				call := cuda.Product{Matrices: []cuda.Matrix{m}, Y: []driver.Ptr{b.Empty(4 * rows * x)}}
				place(b, &call)
				in := cuda.Input{X: b.Zeros(4 * x * cols), Rows: x, Scratch: b.Zeros(int(b.Kernels.MatMulScratch()))}
				return Work{
					Bytes:  float64(rows)*rowBytes(m) + 4*float64(x)*float64(rows+cols),
					FLOPs:  2 * float64(rows) * float64(cols) * float64(x),
					Launch: func() error { return b.Kernels.MatMul(b.Stream, &call, in) },
				}
			}})
		}
	}
	return speeds
}
