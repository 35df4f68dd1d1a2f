package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestExpAgainstMath(t *testing.T) {
	const tolerance = 1e-8 // the series' rest and 20 roundings of 1e-16
	rng := rand.New(rand.NewPCG(1, 2))
	xs := []float64{0, math.Copysign(0, -1), -math.SmallestNonzeroFloat64, -1e-300, -math.Ln2 / 2, -math.Ln2, -1, -27.7, -28, -87.5, -699.9, -700}
	for range 100_000 {
		xs = append(xs, -math.Exp(rng.Float64()*20-13))
	}
	for _, x := range xs {
		if x < -700 {
			continue
		}
		got, want := exp(x), math.Exp(x)
		if math.Abs(got-want) > tolerance*want {
			t.Fatalf("exp(%v) = %v, want %v within %v of it", x, got, want, tolerance)
		}
	}
	for _, x := range []float64{-700.1, -1e6, -math.MaxFloat64, math.Inf(-1)} {
		if got := exp(x); got != 0 {
			t.Errorf("exp(%v) = %v, want 0", x, got)
		}
	}
}

func BenchmarkExp(b *testing.B) {
	x := make([]float64, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = -20 * rng.Float64()
	}
	for _, f := range []struct {
		name string
		exp  func(float64) float64
	}{{"ours", exp}, {"math", math.Exp}} {
		b.Run(f.name, func(b *testing.B) {
			var sum float64
			for i := range b.N {
				sum += f.exp(x[i%len(x)])
			}
			b.ReportMetric(sum, "sum")
		})
	}
}
