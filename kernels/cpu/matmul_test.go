package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// problem is a packed matrix, quantised activations and the twin's product.
type problem struct {
	format          format
	rows, k, tokens int
	src, w          []byte
	x               []int8
	meta            []Meta
	groups, ldo     int
	want            []float32 // [tokens, ldo]
}

func newProblem(t *testing.T, f format, r *rand.Rand, rows, k, tokens int) *problem {
	t.Helper()
	k = f.wide(k)
	p := &problem{format: f, rows: rows, k: k, tokens: tokens, groups: Groups(rows), src: f.source(r, rows, k)}
	p.w = make([]byte, f.form.Bytes(rows, k))
	if err := f.pack(p.w, p.src, rows, k); err != nil {
		t.Fatal(err)
	}
	p.x, p.meta = make([]int8, tokens*k), make([]Meta, tokens*k/32)
	generic().Quantize(p.x, p.meta, normals(r, tokens*k))
	p.ldo = 16*p.groups + 3
	p.want = p.product(generic())
	return p
}

func (p *problem) product(o *Ops) []float32 {
	out := make([]float32, p.tokens*p.ldo)
	o.MatMul(p.format.form, out, p.ldo, p.w, p.groups, p.x, p.meta, p.tokens, p.k)
	return out
}

func (p *problem) String() string {
	return fmt.Sprintf("%s %d × %d, %d tokens", p.format.name, p.rows, p.k, p.tokens)
}

// TestMatMulTwin checks the generic product against the source's weights in f64.
func TestMatMulTwin(t *testing.T) {
	r := random()
	for _, f := range formats {
		for _, shape := range [][3]int{{1, 32, 1}, {17, 64, 5}, {33, 576, 4}, {16, 1536, 2}} {
			p := newProblem(t, f, r, shape[0], shape[1], shape[2])
			for token := range p.tokens {
				for row := range 16 * p.groups {
					exact, size := 0.0, 0.0
					if row < p.rows {
						for i, w := range f.row(p.src, row, p.k) {
							v := w * float64(p.x[token*p.k+i]) * float64(p.meta[(token*p.k+i)/32].D)
							exact, size = exact+v, size+math.Abs(v)
						}
					}
					// Three roundings a block, of parts that may cancel: an 8 in each Q4_0.
					got := float64(p.want[token*p.ldo+row])
					if math.Abs(got-exact) > 16*size*float64(p.k/32+2)*0x1p-24 {
						t.Fatalf("%v: row %d, token %d: got %g, want %g", p, row, token, got, exact)
					}
				}
			}
		}
	}
}

// TestMatMul expects the twin's bits of every level and shape.
func TestMatMul(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, f := range formats {
			for rows := 1; rows <= 33; rows++ {
				for _, blocks := range []int{0, 1, 2, 3, 7} {
					if f.columns() == 256 && blocks > 2 {
						continue
					}
					p := newProblem(t, f, r, rows, blocks*f.columns(), 1+rows%9)
					if err := sameBits(p.product(o), p.want); err != nil {
						t.Fatalf("%v: %v", p, err)
					}
				}
			}
			for tokens := range 10 {
				for _, k := range []int{32, 576} {
					p := newProblem(t, f, r, 48, k, tokens)
					if err := sameBits(p.product(o), p.want); err != nil {
						t.Fatalf("%v: %v", p, err)
					}
				}
			}
			p := newProblem(t, f, r, 80, 2048, 6) // groups beyond tileBytes
			if err := sameBits(p.product(o), p.want); err != nil {
				t.Fatalf("%v: %v", p, err)
			}
		}
	})
}

// tokenCounts are cut into tiles of four, of eight, and AMX's, with one or more over.
var tokenCounts = []int{5, 9, 41}

// TestMatMulExtremes drives the integer sums to their bounds, where 16-bit steps would
// saturate: every weight and activation at its largest, Q8_0's -128 included.
func TestMatMulExtremes(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		for _, f := range formats {
			for _, quant := range []byte{0x00, 0xff, 0x80, 0x81, 0x7f, 0xf0, 0x0f} {
				for _, sign := range []float32{1, -1, 0} {
					const rows = 16
					k := f.wide(64)
					src := bytes.Repeat([]byte{quant}, rows*k/f.columns()*f.srcBlock)
					for b := 0; b < len(src); b += f.srcBlock {
						f.setFactors(src[b:], 1, -2)
					}
					w := make([]byte, f.form.Bytes(rows, k))
					if err := f.pack(w, src, rows, k); err != nil {
						t.Fatal(err)
					}
					for _, tokens := range tokenCounts {
						x := make([]float32, tokens*k)
						for i := range x {
							x[i] = sign * 127
							if sign == 0 { // alternate
								x[i] = 127 - 254*float32(i%2)
							}
						}
						q, meta := make([]int8, len(x)), make([]Meta, len(x)/32)
						o.Quantize(q, meta, x)
						out := make([]float32, tokens*rows)
						o.MatMul(f.form, out, rows, w, 1, q, meta, tokens, k)
						for i, got := range out {
							want := 0.0 // small integers: exact in every order
							for j, v := range f.row(src, i%rows, k) {
								want += v * float64(x[i/rows*k+j])
							}
							if float64(got) != want {
								t.Fatalf("%s quants %#x, sign %g: got %g, want %g", f.name, quant, sign, got, want)
							}
						}
					}
				}
			}
		}
	})
}

// TestMatMulAlone computes each token and each group alone, and expects the bits of the
// whole.
func TestMatMulAlone(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, f := range formats {
			for _, tokens := range tokenCounts {
				p := newProblem(t, f, r, 64, 320, tokens)
				whole := p.product(o)
				groupBytes := len(p.w) / p.groups
				for token := range p.tokens {
					for g := range p.groups {
						alone := make([]float32, 16)
						o.MatMul(f.form, alone, 16, p.w[g*groupBytes:], 1, p.x[token*p.k:], p.meta[token*p.k/32:], 1, p.k)
						if err := sameBits(alone, whole[token*p.ldo+16*g:][:16]); err != nil {
							t.Fatalf("%v: group %d, token %d: %v", p, g, token, err)
						}
					}
				}
			}
		}
	})
}

// TestMatMulNaN: a block of activations that is not finite spoils its token and no other.
func TestMatMulNaN(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, f := range formats {
			for _, tokens := range tokenCounts {
				p := newProblem(t, f, r, 16, 96, tokens)
				x := normals(r, p.tokens*p.k)
				x[tokens/2*p.k+40] = float32(math.Inf(1))
				o.Quantize(p.x, p.meta, x)
				out := p.product(o)
				for token := range p.tokens {
					for row := range p.rows {
						if got := out[token*p.ldo+row]; (got != got) != (token == tokens/2) {
							t.Fatalf("%v: row %d, token %d: got %g", p, row, token, got)
						}
					}
				}
			}
		}
	})
}

func TestMatMulPanicsOnWrongLengths(t *testing.T) {
	r := random()
	p := newProblem(t, formatNamed("Q4_1"), r, 16, 64, 2)
	for name, call := range map[string]func(o *Ops, out []float32){
		"short weights":     func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out, 16, p.w[:len(p.w)-1], 1, p.x, p.meta, 2, 64) },
		"short activations": func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out, 16, p.w, 1, p.x[:127], p.meta, 2, 64) },
		"short meta":        func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out, 16, p.w, 1, p.x, p.meta[:3], 2, 64) },
		"short output":      func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out[:31], 16, p.w, 1, p.x, p.meta, 2, 64) },
		"odd columns":       func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out, 16, p.w, 1, p.x, p.meta, 2, 63) },
		"narrow output":     func(o *Ops, out []float32) { o.MatMul(FormQ4_1, out, 15, p.w, 1, p.x, p.meta, 2, 64) },
	} {
		eachLevel(t, func(t *testing.T, o *Ops) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call(o, make([]float32, 32))
		})
	}
}
