package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// halfFormat is a type of 16-bit floats.
type halfFormat struct {
	name   string
	pack   func(dst, src []byte, rows, k int) error
	matMul func(o *Ops, out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int)
	unpack func(dst []float32, group []byte, r int)
	value  func(h uint16) float64
	inf    uint16
}

var halfFormats = []halfFormat{
	{"F16", PackF16, (*Ops).MatMulF16, UnpackRowF16, halfValue, 0x7c00},
	// IEEE 754 binary32 without its last 16 bits of fraction.
	{"BF16", PackBF16, (*Ops).MatMulBF16, UnpackRowBF16, func(h uint16) float64 {
		exponent, fraction := int(h>>7&0xff), float64(h&0x7f)
		v := math.Ldexp(128+fraction, exponent-127-7)
		if exponent == 0 {
			v = math.Ldexp(fraction, -126-7)
		}
		return v * (1 - 2*float64(h>>15))
	}, 0x7f80},
}

// source makes rows of any bits up to a million, subnormals among them.
func (f halfFormat) source(r *rand.Rand, rows, k int) []byte {
	src := make([]byte, 2*rows*k)
	for i := range rows * k {
		h := uint16(r.Uint32())
		for h&f.inf == f.inf || math.Abs(f.value(h)) > 1e6 {
			h = uint16(r.Uint32())
		}
		if r.IntN(8) > 0 { // mostly of a model's size
			h = h&0x83ff | 0x3000
		}
		binary.LittleEndian.PutUint16(src[2*i:], h)
	}
	return src
}

func (f halfFormat) at(src []byte, i int) float64 {
	return f.value(binary.LittleEndian.Uint16(src[2*i:]))
}

func TestMatMulHalf(t *testing.T) {
	for _, f := range halfFormats {
		t.Run(f.name, func(t *testing.T) {
			r := random()
			for _, shape := range [][3]int{{1, 1, 1}, {15, 3, 2}, {16, 32, 3}, {17, 33, 4}, {48, 96, 5}, {33, 700, 9}, {16, 0, 2}, {0, 8, 1}, {16, 8, 0}} {
				rows, k, tokens := shape[0], shape[1], shape[2]
				src, x := f.source(r, rows, k), normals(r, tokens*k)
				w := bytes.Repeat([]byte{0xa5}, PackedHalfBytes(rows, k)+1)
				if err := f.pack(w[:len(w)-1], src, rows, k); err != nil {
					t.Fatal(err)
				}
				if w[len(w)-1] != 0xa5 {
					t.Fatal("wrote beyond the end")
				}
				for row := range rows {
					unpacked := make([]float32, k)
					f.unpack(unpacked, w[row/16*PackedHalfBytes(1, k):], row%16)
					for i, got := range unpacked {
						if float64(got) != f.at(src, row*k+i) {
							t.Fatalf("%d × %d: row %d, column %d: read back %g, want %g", rows, k, row, i, got, f.at(src, row*k+i))
						}
					}
				}
				ldo := 16*Groups(rows) + 3
				want := make([]float32, tokens*ldo)
				f.matMul(generic(), want, ldo, w, Groups(rows), x, tokens, k)
				for token := range tokens {
					for row := range 16 * Groups(rows) {
						exact, size := 0.0, 0.0
						for i := range k {
							if row < rows {
								v := f.at(src, row*k+i) * float64(x[token*k+i])
								exact, size = exact+v, size+math.Abs(v)
							}
						}
						// One rounding a column.
						if got := float64(want[token*ldo+row]); math.Abs(got-exact) > size*float64(k)*0x1p-24+0x1p-149 {
							t.Fatalf("%d × %d: row %d, token %d: got %g, want %g", rows, k, row, token, got, exact)
						}
					}
				}
				for _, l := range Levels() {
					o, err := Select(l)
					if err != nil {
						t.Fatal(err)
					}
					got := make([]float32, tokens*ldo)
					f.matMul(o, got, ldo, w, Groups(rows), x, tokens, k)
					if err := sameBits(got, want); err != nil {
						t.Fatalf("%v, %d × %d, %d tokens: %v", l, rows, k, tokens, err)
					}
					for token := range tokens {
						alone := make([]float32, ldo)
						f.matMul(o, alone, ldo, w, Groups(rows), x[token*k:], 1, k)
						if err := sameBits(alone, want[token*ldo:][:ldo]); err != nil {
							t.Fatalf("%v, %d × %d, token %d alone: %v", l, rows, k, token, err)
						}
					}
				}
			}
		})
	}
}

func TestPackHalfRefuses(t *testing.T) {
	dst := make([]byte, 64)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"F16 infinity", PackF16(dst, []byte{0, 0x3c, 0, 0xfc}, 1, 2), "row 0, column 1: weight -Inf"},
		{"F16 NaN", PackF16(dst, []byte{1, 0x7c, 0, 0}, 2, 1), "row 0, column 0: weight NaN"},
		{"BF16 infinity", PackBF16(dst, []byte{0, 0x3f, 0x80, 0x7f}, 2, 1), "row 1, column 0: weight +Inf"},
		{"BF16 NaN", PackBF16(dst, []byte{0xc0, 0xff}, 1, 1), "weight NaN"},
		{"short source", PackF16(dst, make([]byte, 3), 1, 2), "holds 0 rows"},
		{"short destination", PackBF16(dst, make([]byte, 6), 1, 3), "holds 0 groups"},
		{"negative", PackF16(dst, nil, -1, 1), "-1 rows"},
		{"huge", PackF16(dst, make([]byte, 64), math.MaxInt, 1), "holds 32 rows"},
		{"huge columns", PackF16(dst, make([]byte, 64), 1, math.MaxInt), "holds 0 rows"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, c.err, c.want)
		}
	}
}

func BenchmarkHalf(b *testing.B) {
	const rows, k = 1536, 576
	for _, f := range halfFormats {
		for _, tokens := range []int{1, 4, 64} {
			eachLevelBench(b, fmt.Sprintf("%s/tokens=%d", f.name, tokens), func(b *testing.B, o *Ops) {
				r := random()
				n := 1
				if tokens == 1 { // more than the caches hold
					n = 80<<20/PackedHalfBytes(rows, k) + 1
				}
				w := aligned(n * PackedHalfBytes(rows, k))
				if err := f.pack(w, f.source(r, n*rows, k), n*rows, k); err != nil {
					b.Fatal(err)
				}
				x, out := normals(r, tokens*k), make([]float32, tokens*n*rows)
				b.SetBytes(int64(len(w)))
				for b.Loop() {
					f.matMul(o, out, n*rows, w, n*Groups(rows), x, tokens, k)
				}
				b.ReportMetric(2*float64(tokens*n)*rows*k*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GOPS")
			})
		}
	}
}
