package cpu

import (
	"math"
	"testing"
)

// expBound is the allowed error of exp32 relative to the true value: 2 units in the last
// place of a normal result, and half the smallest f32 below those.
func expBound(want float64) float64 {
	return want*0x1p-22 + math.SmallestNonzeroFloat32
}

func TestExp32(t *testing.T) {
	worst, at := 0.0, float32(0)
	for x := float32(-110); x < 95; x += 0x1p-11 {
		got, want := float64(exp32(x)), math.Exp(float64(x))
		if want > math.MaxFloat32 {
			want = math.Inf(1)
		}
		if got == want {
			continue
		}
		if !(math.Abs(got-want) <= expBound(want)) {
			t.Fatalf("exp32(%g) = %g, want %g", x, got, want)
		}
		if e := math.Abs(got-want) / want; want > 0x1p-126 && e > worst {
			worst, at = e, x
		}
	}
	t.Logf("largest relative error %.3g at %g", worst, at)
	if worst > 1.2e-7 {
		t.Errorf("relative error %.3g at %g exceeds 1.2e-7", worst, at)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {inf, inf}, {-inf, 0}, {float32(math.NaN()), float32(math.NaN())},
		{88.72284, inf}, {math.MaxFloat32, inf}, {-math.MaxFloat32, 0}, {-104, 0},
	} {
		if err := sameBits([]float32{exp32(c.x)}, []float32{c.want}); err != nil {
			t.Errorf("exp32(%g): %v", c.x, err)
		}
	}
}

func TestExpSum(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 70 {
			x := normals(r, n)
			got := odd(make([]float32, n))
			sum := o.ExpSum(got, odd(x), 1.5)
			want := make([]float32, n)
			wantSum := expSumGeneric(want, x, 1.5)
			if err := sameBits(append(got[:n:n], sum), append(want, wantSum)); err != nil {
				t.Fatal(err)
			}
			intact(t, got)
			exact := 0.0
			for i := range x {
				exact += math.Exp(float64(x[i]) - 1.5)
			}
			if math.Abs(float64(sum)-exact) > 1e-6*exact {
				t.Fatalf("sum of %d: got %g, want %g", n, sum, exact)
			}
			x = withSpecials(r, n)
			got = odd(x)
			sum = o.ExpSum(got, got, 0.25) // in place
			wantSum = expSumGeneric(x, x, 0.25)
			if err := sameBits(append(got[:n:n], sum), append(x, wantSum)); err != nil {
				t.Fatalf("with special values: %v", err)
			}
		}
	})
}

// TestLongRows takes rows of several stretches.
func TestLongRows(t *testing.T) {
	const n = 2*stretch + 96
	r := random()
	x, y := normals(r, n), normals(r, n)
	twin := generic()
	eachLevel(t, func(t *testing.T, o *Ops) {
		got, want := make([]float32, n), make([]float32, n)
		sum, twinSum := o.ExpSum(got, x, 0), twin.ExpSum(want, x, 0)
		if err := sameBits(append(got, sum), append(want, twinSum)); err != nil {
			t.Fatalf("exponentials: %v", err)
		}
		exact := 0.0
		for _, v := range x {
			exact += math.Exp(float64(v))
		}
		if math.Abs(float64(sum)-exact) > 1e-4*exact {
			t.Fatalf("sum %g, want %g", sum, exact)
		}
		o.SiLUMul(got, x, y)
		siluMulGeneric(want, x, y)
		if err := sameBits(got, want); err != nil {
			t.Fatalf("gate: %v", err)
		}
		q, meta := make([]int8, n), make([]Meta, n/32)
		o.Quantize(q, meta, x)
		checkTwin(t, q, meta, x)
	})
}

func TestGates(t *testing.T) {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	eachLevel(t, func(t *testing.T, o *Ops) {
		for _, c := range []struct {
			name  string
			op    func(dst, gate, up []float32)
			twin  func(dst, gate, up []float32)
			exact func(x float64) float64
		}{
			{"SiLUMul", o.SiLUMul, siluMulGeneric, silu},
			{"GELUMul", o.GELUMul, geluMulGeneric, gelu},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := random()
				for n := range 70 {
					gate, up := normals(r, n), normals(r, n)
					for i := range gate {
						gate[i] *= 4
					}
					got := odd(make([]float32, n))
					c.op(got, odd(gate), odd(up))
					intact(t, got)
					want := make([]float32, n)
					c.twin(want, gate, up)
					if err := sameBits(got, want); err != nil {
						t.Fatal(err)
					}
					for i := range got {
						// 1 + tanh cancels for negative arguments, hence the absolute part.
						want := c.exact(float64(gate[i])) * float64(up[i])
						if math.Abs(float64(got[i])-want) > 2e-6*math.Abs(want)+1e-12 {
							t.Fatalf("gate %g, up %g: got %g, want %g", gate[i], up[i], got[i], want)
						}
					}
					gate, up = withSpecials(r, n), withSpecials(r, n)
					got = odd(gate)
					c.op(got, got, up) // in place
					c.twin(gate, gate, up)
					if err := sameBits(got, gate); err != nil {
						t.Fatalf("with special values: %v", err)
					}
				}
			})
		}
	})
}
