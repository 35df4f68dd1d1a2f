package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWeightAgainstMath(t *testing.T) {
	p := newPowers()
	rng := rand.New(rand.NewPCG(1, 2))
	type point struct{ x, peak float32 }
	points := []point{{0, 0}, {1, 1}, {-27.7, 0}, {-28.5, 0}, {-3e38, 3e38}, {3e38, 3e38}, {-1e-45, 0}}
	for range 200_000 {
		peak := float32(rng.NormFloat64() * 30)
		points = append(points, point{peak - float32(math.Exp(rng.Float64()*20-15)), peak})
	}
	for _, temperature := range []float64{1e-45, 0.01, 0.7, 1, 1.5, 100} {
		for _, c := range points {
			got := float64(p.weight(c.x, c.peak, scale(temperature)))
			want := one * math.Exp((float64(c.x)-float64(c.peak))/temperature)
			// The series' 4.2e-10, the table's 1e-13, and rounding down to an integer.
			if math.Abs(got-want) > 5e-10*want+1 {
				t.Fatalf("weight(%v, %v) at temperature %v = %v, want %v", c.x, c.peak, temperature, got, want)
			}
		}
	}
}

func TestWeightOfSpecialValues(t *testing.T) {
	p := newPowers()
	for _, c := range []struct {
		name    string
		x, peak float32
		want    uint64
	}{
		{"the peak", 3, 3, one},
		{"infinite peak", inf, inf, one},
		{"below an infinite peak", 3, inf, 0},
		{"−Inf", -inf, 3, 0},
		{"−Inf below an infinite peak", -inf, inf, 0},
		{"NaN", nan, 3, 0},
		{"NaN below an infinite peak", nan, inf, 0},
		{"half", -math.Ln2, 0, one / 2},
		{"the least weight", -39.99 * math.Ln2, 0, 1},
		{"less than the least weight", -40.01 * math.Ln2, 0, 0},
	} {
		got := p.weight(c.x, c.peak, scale(1))
		// ln 2 is rounded to float32: 2⁻²⁵ of the exponent of half.
		if diff := int64(got - c.want); diff > 20_000 || diff < -20_000 || (c.want < 2 && got != c.want) {
			t.Errorf("%s: weight(%v, %v) = %d, want %d", c.name, c.x, c.peak, got, c.want)
		}
	}
}

// BenchmarkWeight compares with what it replaces.
func BenchmarkWeight(b *testing.B) {
	p := newPowers()
	row := make([]float32, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range row {
		row[i] = -20 * rng.Float32()
	}
	for _, f := range []struct {
		name   string
		weight func(x float32) uint64
	}{
		{"table", func(x float32) uint64 { return p.weight(x, 0, scale(0.8)) }},
		{"math.Exp", func(x float32) uint64 { return uint64(int64(one * math.Exp(float64(x)/0.8))) }},
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
