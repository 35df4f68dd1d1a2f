package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// eachLevel runs a test on every level of this machine, the twins included.
func eachLevel(t *testing.T, test func(t *testing.T, o *Ops)) {
	for _, l := range Levels() {
		o, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(l.String(), func(t *testing.T) { test(t, o) })
	}
}

// seed starts every random sequence of the tests.
const seed = 20261129

func random() *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// specials are values at which kernels differ from arithmetic on paper.
var specials = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, 0x1p-127,
	88.72283, 88.72284, -87.33654, -103.97, -104.5, 65504, 65520, 0x1p-24, 0x1p-25,
}

// withSpecials is normals with some values replaced by specials.
func withSpecials(r *rand.Rand, n int) []float32 {
	x := normals(r, n)
	for i := range x {
		if r.IntN(4) == 0 {
			x[i] = specials[r.IntN(len(specials))]
		}
	}
	return x
}

// sameBits reports the first difference between two rows. All NaN are equal.
func sameBits(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d values, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g != g && w != w {
			continue
		}
		if math.Float32bits(g) != math.Float32bits(w) {
			return fmt.Errorf("element %d of %d: got %g (%#x), want %g (%#x)", i, len(got), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
	return nil
}

// odd returns a copy of x that starts at an odd element of its allocation and is
// followed by a guard, which intact checks.
func odd(x []float32) []float32 {
	y := make([]float32, len(x)+3)
	copy(y[1:], x)
	y[0], y[len(x)+1], y[len(x)+2] = guard, guard, guard
	return y[1 : len(x)+1]
}

const guard = 12345.678

func intact(t *testing.T, x []float32) {
	t.Helper()
	tail := x[: len(x)+2 : len(x)+2]
	if tail[len(x)] != guard || tail[len(x)+1] != guard {
		t.Fatalf("row of %d elements: the kernel wrote beyond its end", len(x))
	}
}

func TestParseLevel(t *testing.T) {
	for _, l := range []Level{Generic, AVX2, AVXVNNI, AVX512VNNI, AMX, NEON} {
		got, err := ParseLevel(strings.ToUpper(l.String()))
		if err != nil || got != l {
			t.Errorf("ParseLevel(%q) = %v, %v", strings.ToUpper(l.String()), got, err)
		}
	}
	if _, err := ParseLevel("sse9"); err == nil || !strings.Contains(err.Error(), "generic, avx2, avxvnni, avx512vnni, amx, neon") {
		t.Errorf("ParseLevel(sse9): got error %v, want the allowed names", err)
	}
}

func TestFromEnv(t *testing.T) {
	env := func(value string) func(string) string {
		return func(key string) string {
			if key != EnvLevel {
				t.Errorf("asked for variable %q", key)
			}
			return value
		}
	}
	if l, err := FromEnv(env("")); err != nil || l != Best() {
		t.Errorf("empty: got %v, %v, want %v", l, err, Best())
	}
	if l, err := FromEnv(env("generic")); err != nil || l != Generic {
		t.Errorf("generic: got %v, %v", l, err)
	}
	if _, err := FromEnv(env("fast")); err == nil || !strings.Contains(err.Error(), EnvLevel) {
		t.Errorf("fast: got error %v, want one that names the variable", err)
	}
	for l := range numLevels {
		if slices.Contains(Levels(), l) {
			continue
		}
		if _, err := FromEnv(env(l.String())); err == nil || !strings.Contains(err.Error(), Best().String()) {
			t.Errorf("%s: got error %v, want one that names the best level", l, err)
		}
		if _, err := Select(l); err == nil {
			t.Errorf("Select(%s) succeeded, of levels %s", l, Levels())
		}
	}
	if _, err := Select(-1); err == nil {
		t.Errorf("Select(-1): got error %v", err)
	}
}

func TestSelectedLevel(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		if o.Level().String() != t.Name()[strings.LastIndex(t.Name(), "/")+1:] {
			t.Errorf("got level %v", o.Level())
		}
		o.Pause(0)
		o.Pause(3)
	})
}
