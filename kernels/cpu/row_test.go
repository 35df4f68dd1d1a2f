package cpu

import (
	"math"
	"testing"
)

func TestDotF32(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 200 {
			x, y := normals(r, n), normals(r, n)
			got := o.DotF32(odd(x), odd(y))
			if err := sameBits([]float32{got}, []float32{dotGeneric(x, y)}); err != nil {
				t.Fatalf("dot of %d: %v", n, err)
			}
			exact, size := 0.0, 0.0
			for i := range x {
				exact += float64(x[i]) * float64(y[i])
				size += math.Abs(float64(x[i]) * float64(y[i]))
			}
			// Each of at most n/32 + 6 roundings of a partial sum errs by 2⁻²⁴ of it.
			if math.Abs(float64(got)-exact) > size*12*0x1p-24 {
				t.Fatalf("dot of %d: got %g, want %g", n, got, exact)
			}
			x, y = withSpecials(r, n), withSpecials(r, n)
			if err := sameBits([]float32{o.DotF32(x, y)}, []float32{dotGeneric(x, y)}); err != nil {
				t.Fatalf("dot of %d with special values: %v", n, err)
			}
		}
	})
}

func TestMatMulF32(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		const rows, tokens, k, ldo = 5, 3, 77, 7
		r := random()
		w, x := normals(r, rows*k), normals(r, tokens*k)
		out := make([]float32, tokens*ldo)
		o.MatMulF32(out, ldo, w, rows, x, tokens, k)
		for token := range tokens {
			for row := range rows {
				want := dotGeneric(w[row*k:][:k], x[token*k:][:k])
				if got := out[token*ldo+row]; got != want {
					t.Fatalf("row %d, token %d: got %g, want %g", row, token, got, want)
				}
			}
		}
	})
}

func TestElementwise(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 70 {
			a, b := withSpecials(r, n), withSpecials(r, n)
			got, want := odd(a), append([]float32(nil), a...)
			o.Add(got, b)
			addGeneric(want, b)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("add: %v", err)
			}
			o.Scale(got, -1.7)
			scaleGeneric(want, -1.7)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("scale: %v", err)
			}
			intact(t, got)
		}
	})
}

func TestRMSNorm(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		twin := generic()
		r := random()
		for n := range 100 {
			x, w := normals(r, n), normals(r, n)
			got, want := odd(make([]float32, n)), make([]float32, n)
			o.RMSNorm(got, odd(x), odd(w), 1e-5)
			twin.RMSNorm(want, x, w, 1e-5)
			if err := sameBits(got, want); err != nil {
				t.Fatal(err)
			}
			intact(t, got)
			squares := 0.0
			for _, v := range x {
				squares += float64(v) * float64(v)
			}
			for i := range got {
				want := float64(x[i]) / math.Sqrt(squares/float64(n)+1e-5) * float64(w[i])
				if math.Abs(float64(got[i])-want) > 1e-6*math.Abs(want) {
					t.Fatalf("element %d of %d: got %g, want %g", i, n, got[i], want)
				}
			}
			o.RMSNorm(x, x, w, 1e-5)
			if err := sameBits(x, want); err != nil {
				t.Fatalf("in place: %v", err)
			}
			x = withSpecials(r, n)
			o.RMSNorm(got, x, w, 1e-5)
			twin.RMSNorm(want, x, w, 1e-5)
			if err := sameBits(got, want); err != nil {
				t.Fatalf("with special values: %v", err)
			}
		}
	})
}

func TestFinite(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 100 {
			x := normals(r, n)
			if n > 2 {
				x[0], x[1], x[2] = math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32
			}
			if !o.Finite(odd(x)) {
				t.Fatalf("%v is not finite", x)
			}
			for i := range x {
				for _, bits := range []uint32{0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff} {
					kept := x[i]
					x[i] = math.Float32frombits(bits)
					if o.Finite(odd(x)) {
						t.Fatalf("element %d of %d is %#x, and that is finite", i, n, bits)
					}
					x[i] = kept
				}
			}
		}
	})
}

func TestMaxAndArgmax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachLevel(t, func(t *testing.T, o *Ops) {
		for _, c := range []struct {
			name  string
			x     []float32
			max   float32
			index int
		}{
			{"empty", nil, -inf, -1},
			{"one", []float32{-3}, -3, 0},
			{"first of equals", []float32{1, 5, 2, 5}, 5, 1},
			{"nan first", []float32{nan, -2, -1}, -1, 2},
			{"nan last", []float32{-2, -1, nan}, -1, 1},
			{"only nan", []float32{nan, nan}, -inf, -1},
			{"minus infinity beats nan", []float32{nan, -inf}, -inf, 1},
			{"infinity", []float32{nan, inf, 3, inf}, inf, 1},
			{"zeros are equal", []float32{-1, float32(math.Copysign(0, -1)), 0}, 0, 1},
		} {
			if got := o.Max(c.x); math.Float32bits(got) != math.Float32bits(c.max) {
				t.Errorf("%s: max %g, want %g", c.name, got, c.max)
			}
			if got := o.Argmax(c.x); got != c.index {
				t.Errorf("%s: argmax %d, want %d", c.name, got, c.index)
			}
		}
		r := random()
		for n := range 140 {
			for range 3 {
				x := withSpecials(r, n)
				for i := range x {
					if r.IntN(2) == 0 {
						x[i] = float32(r.IntN(4)) // ties
					}
				}
				want := -1
				for i, v := range x {
					if v == v && (want < 0 || v > x[want]) {
						want = i
					}
				}
				if got := o.Argmax(odd(x)); got != want {
					t.Fatalf("argmax of %v: got %d, want %d", x, got, want)
				}
				wantMax := -inf
				if want >= 0 {
					wantMax = x[want]
				}
				if got := o.Max(odd(x)); got != wantMax {
					t.Fatalf("max of %v: got %g, want %g", x, got, wantMax)
				}
			}
		}
	})
}
