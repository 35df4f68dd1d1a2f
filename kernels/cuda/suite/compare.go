//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"
)

// Tolerance is how far a value may be from the twin's.
type Tolerance struct {
	Absolute float64
	Relative float64 // of the wanted value
}

// Tolerances, and the reasons for them.
var (
	// exact is for what is copied or rounded once, to the nearest.
	exact = Tolerance{}
	// elementwise is for some float32 operations in a row with no sum among them,
	// each of which adds 2^-24 at most, and functions of the device's library, which
	// add some units in the last place. Sources: CUDA C++ Programming Guide,
	// "Mathematical Functions", expf 2 and rsqrtf 2 units.
	elementwise = Tolerance{Absolute: 1e-12, Relative: 8 * math.Pow(2, -23)}
	// summed is for values behind a float32 sum of positive terms, whose error is
	// its depth (some tens of additions) times 2^-24, and random in practice.
	summed = Tolerance{Absolute: 1e-12, Relative: 32 * math.Pow(2, -23)}
)

// Compare returns an error if a value is too far from the twin's. row is the length
// of a row, for the error's text. A NaN is never near.
func Compare(got []float32, want []float64, row int, t Tolerance) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d values, want %d", len(got), len(want))
	}
	wrong, worst, at := 0, -1.0, 0
	for i, w := range want {
		g := float64(got[i])
		over := math.Abs(g-w) - t.Absolute - t.Relative*math.Abs(w)
		if over <= 0 || g == w {
			continue
		}
		wrong++
		if over > worst || math.IsNaN(over) && !math.IsNaN(worst) {
			worst, at = over, i
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d values are wrong; the worst is value %d of row %d: got %v, want %v (allowed: %.3g + %.3g of it)",
		wrong, len(want), at%row, at/row, got[at], want[at], t.Absolute, t.Relative)
}

// Same returns an error if two slices differ in any bit.
func Same[T float32 | uint16 | int32](got, want []T, row int) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d values, want %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i] != w && !(got[i] != got[i] && w != w) {
			return fmt.Errorf("value %d of row %d: got %v, want %v", i%row, i/row, got[i], w)
		}
	}
	return nil
}
