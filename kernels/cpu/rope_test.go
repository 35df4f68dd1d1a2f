package cpu

import (
	"math"
	"math/cmplx"
	"testing"
)

// TestRope checks both pairings as multiplication by a complex number of length one.
func TestRope(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		r := random()
		for _, shape := range []struct{ heads, dim, rotated int }{
			{1, 2, 2}, {3, 6, 6}, {9, 64, 64}, {2, 80, 80}, {2, 80, 20}, {1, 34, 34}, {4, 128, 128}, {0, 64, 64}, {1, 8, 0},
		} {
			half := shape.rotated / 2
			cos, sin := make([]float32, half), make([]float32, half)
			for i := range half {
				angle := 1000 * r.Float64()
				cos[i], sin[i] = float32(math.Cos(angle)), float32(math.Sin(angle))
			}
			x := normals(r, shape.heads*shape.dim)
			pairs, halves := odd(x), odd(x)
			o.RopePairs(pairs, cos, sin, shape.dim)
			o.RopeHalves(halves, cos, sin, shape.dim)
			intact(t, pairs)
			intact(t, halves)
			twinPairs, twinHalves := append([]float32(nil), x...), append([]float32(nil), x...)
			rope(ropePairsGeneric, twinPairs, cos, sin, shape.dim)
			rope(ropeHalvesGeneric, twinHalves, cos, sin, shape.dim)
			if err := sameBits(pairs, twinPairs); err != nil {
				t.Fatalf("%+v pairs: %v", shape, err)
			}
			if err := sameBits(halves, twinHalves); err != nil {
				t.Fatalf("%+v halves: %v", shape, err)
			}
			for h := range shape.heads {
				head := func(x []float32) []float32 { return x[h*shape.dim:][:shape.dim] }
				check := func(name string, got []float32, a, b, i int) {
					t.Helper()
					z := complex(float64(head(x)[a]), float64(head(x)[b])) * complex(float64(cos[i]), float64(sin[i]))
					g := complex(float64(head(got)[a]), float64(head(got)[b]))
					if cmplx.Abs(g-z) > 3e-7*cmplx.Abs(z) {
						t.Fatalf("%+v %s, head %d, pair %d: got %g, want %g", shape, name, h, i, g, z)
					}
				}
				for i := range half {
					check("pairs", pairs, 2*i, 2*i+1, i)
					check("halves", halves, i, half+i, i)
				}
				for i := shape.rotated; i < shape.dim; i++ {
					if head(pairs)[i] != head(x)[i] || head(halves)[i] != head(x)[i] {
						t.Fatalf("%+v: element %d beyond the rotated part changed", shape, i)
					}
				}
			}
		}
	})
}
