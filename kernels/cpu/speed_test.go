package cpu

import "testing"

// The loops end and count what they do.
func TestSpeedLoops(t *testing.T) {
	eachLevel(t, func(t *testing.T, o *Ops) {
		for _, n := range []int{0, 1, 255, 256, 257, 1<<16 - 1, 1 << 16, 1<<17 + 300} {
			o.Read(make([]byte, n))
		}
		want := map[Level]int{Generic: 8, AVX2: 12 * 64, AVXVNNI: 12 * 64, AVX512VNNI: 12 * 128, AMX: 12 * 2 * 16 * 16 * 64, NEON: 12 * 32}[o.Level()] * 1000
		if got := o.PeakOps(); got != want {
			t.Errorf("got %d operations, want %d", got, want)
		}
		want = map[Level]int{Generic: 4, AVX2: 12 * 16, AVXVNNI: 12 * 16, AVX512VNNI: 12 * 32, AMX: 12 * 32, NEON: 12 * 8}[o.Level()] * 1000
		if got := o.PeakFloatOps(); got != want {
			t.Errorf("got %d operations of floats, want %d", got, want)
		}
	})
}
