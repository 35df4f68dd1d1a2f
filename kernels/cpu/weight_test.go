package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

var inf, nan = float32(math.Inf(1)), float32(math.NaN())

func TestWeightAgainstMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type point struct{ x, peak float32 }
	points := []point{{0, 0}, {1, 1}, {-27.7, 0}, {-28.5, 0}, {-3e38, 3e38}, {3e38, 3e38}, {-1e-45, 0}}
	for range 200_000 {
		peak := float32(rng.NormFloat64() * 30)
		points = append(points, point{peak - float32(math.Exp(rng.Float64()*20-15)), peak})
	}
	for _, temperature := range []float64{1e-45, 0.01, 0.7, 1, 1.5, 100} {
		for _, c := range points {
			got := float64(Weight(c.x, c.peak, WeightScale(temperature)))
			want := OneWeight * math.Exp((float64(c.x)-float64(c.peak))/temperature)
			// The series' 2e-10, and rounding to an integer.
			if math.Abs(got-want) > 3e-10*want+0.5 {
				t.Fatalf("Weight(%v, %v) at temperature %v = %v, want %v", c.x, c.peak, temperature, got, want)
			}
		}
	}
}

func TestWeightOfSpecialValues(t *testing.T) {
	for _, c := range []struct {
		name    string
		x, peak float32
		want    uint64
	}{
		{"the peak", 3, 3, OneWeight},
		{"infinite peak", inf, inf, OneWeight},
		{"below an infinite peak", 3, inf, 0},
		{"−Inf", -inf, 3, 0},
		{"−Inf below an infinite peak", -inf, inf, 0},
		{"NaN", nan, 3, 0},
		{"NaN below an infinite peak", nan, inf, 0},
		{"half", -math.Ln2, 0, OneWeight / 2},
		{"the least weight", -40.99 * math.Ln2, 0, 1},
		{"less than the least weight", -41.01 * math.Ln2, 0, 0},
	} {
		got := Weight(c.x, c.peak, WeightScale(1))
		// ln 2 is rounded to float32: 2⁻²⁵ of the exponent of half.
		if diff := int64(got - c.want); diff > 20_000 || diff < -20_000 || (c.want < 2 && got != c.want) {
			t.Errorf("%s: Weight(%v, %v) = %d, want %d", c.name, c.x, c.peak, got, c.want)
		}
	}
}

// TestSumWeights compares the sum of a row, bit for bit, with that of each logit
// on its own, at every length and level.
func TestSumWeights(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 70 {
			rows := [][]float32{normals(r, n), withSpecials(r, n), make([]float32, n)}
			for i := range n {
				rows[0][i] *= 9
				rows[2][i] = -40 * r.Float32()
			}
			for i, row := range rows {
				for _, temperature := range []float64{1e-45, 1e-3, 0.7, 1, 100} {
					peak := o.Max(row)
					if peak == -inf {
						continue // nothing weighs anything
					}
					want := sumWeightsGeneric(row, peak, WeightScale(temperature))
					if got := o.SumWeights(odd(row), peak, WeightScale(temperature)); got != want {
						t.Fatalf("row %d of %d at temperature %v: got %d, want %d; %v", i, n, temperature, got, want, row)
					}
				}
			}
		}
		long := normals(r, 3*stretch+5)
		peak := o.Max(long)
		if got, want := o.SumWeights(long, peak, WeightScale(1)), sumWeightsGeneric(long, peak, WeightScale(1)); got != want {
			t.Errorf("a long row: got %d, want %d", got, want)
		}
		if got := o.SumWeights([]float32{1, inf, nan, inf, 2}, inf, WeightScale(1)); got != 2*OneWeight {
			t.Errorf("two infinities among others: got %d, want %d", got, 2*uint64(OneWeight))
		}
	})
}

// TestWeightFloor: what weighs least or more is above the floor, and little else.
func TestWeightFloor(t *testing.T) {
	r := random()
	for range 200_000 {
		temperature := math.Exp(20*r.Float64() - 15)
		peak := float32(r.NormFloat64() * 30)
		x := peak - float32(temperature*30*r.Float64())
		scale := WeightScale(temperature)
		w := Weight(x, peak, scale)
		if w == 0 {
			continue
		}
		if floor := WeightFloor(w, peak, scale); !(x > floor) {
			t.Fatalf("%v weighs %d below a peak of %v at temperature %v, and the floor of that weight is %v", x, w, peak, temperature, floor)
		}
		// Two percent more are above the hundredth of an octave, unless float32 or
		// the integer is too coarse to tell.
		if more := w + w/100*2; more <= OneWeight && w > 1000 && temperature > 1e-3 {
			if floor := WeightFloor(more, peak, scale); x > floor {
				t.Fatalf("%v weighs %d below a peak of %v at temperature %v, and is above %v, the floor of %d", x, w, peak, temperature, floor, more)
			}
		}
	}
	if floor := WeightFloor(1, inf, WeightScale(1)); floor != math.MaxFloat32 {
		t.Errorf("the floor below an infinite peak is %v", floor)
	}
}

func TestAbove(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for n := range 200 {
			row := withSpecials(r, n)
			for _, floor := range []float32{-inf, -1, 0, 1.5, 3, math.MaxFloat32, inf, nan} {
				want := aboveGeneric(row, floor)
				if want < 0 {
					want = n
				}
				if got := o.Above(odd(row), floor); got != want {
					t.Fatalf("above %v among %d: got %d, want %d; %v", floor, n, got, want, row)
				}
			}
			// One at each place.
			row = make([]float32, n)
			for i := range row {
				row[i] = 1
				if got := o.Above(row, 0); got != i {
					t.Fatalf("the only one of %d at %d: got %d", n, i, got)
				}
				row[i] = 0
			}
		}
	})
}

// BenchmarkLogits does on a vocabulary's row what sampling asks of it.
func BenchmarkLogits(b *testing.B) {
	row := make([]float32, 49152) // SmolLM2's
	r := random()
	for i := range row {
		row[i] = -15 * r.Float32()
	}
	row[len(row)/2] = 1
	eachLevelBench(b, "sum", func(b *testing.B, o *Ops) {
		for b.Loop() {
			o.SumWeights(row, 1, WeightScale(0.8))
		}
	})
	eachLevelBench(b, "above", func(b *testing.B, o *Ops) {
		for b.Loop() {
			o.Above(row, 1)
		}
	})
	eachLevelBench(b, "argmax", func(b *testing.B, o *Ops) {
		for b.Loop() {
			o.Argmax(row)
		}
	})
}

// BenchmarkWeight compares with what it replaces.
func BenchmarkWeight(b *testing.B) {
	row := make([]float32, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range row {
		row[i] = -20 * rng.Float32()
	}
	for _, f := range []struct {
		name   string
		weight func(x float32) uint64
	}{
		{"series", func(x float32) uint64 { return Weight(x, 0, WeightScale(0.8)) }},
		{"math.Exp", func(x float32) uint64 { return uint64(int64(OneWeight * math.Exp(float64(x)/0.8))) }},
	} {
		b.Run(f.name, func(b *testing.B) {
			var sum uint64
			for i := range b.N {
				sum += f.weight(row[i&4095])
			}
			if sum == 0 {
				b.Fatal("no weight")
			}
		})
	}
}
