package cpu

import (
	"math"
	"testing"
)

// halfValue is the value of a half by its definition (IEEE 754-2019, 3.4).
func halfValue(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	e, f := int(h>>10&31), float64(h&1023)
	switch {
	case e == 31 && f != 0:
		return math.NaN()
	case e == 31:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(f, -24)
	}
	return sign * math.Ldexp(1+f/1024, e-15)
}

func TestF16ToF32(t *testing.T) {
	all := make([]uint16, 1<<16)
	want := make([]float32, 1<<16)
	for i := range all {
		all[i] = uint16(i)
		want[i] = float32(halfValue(uint16(i)))
	}
	eachLevel(t, func(t *testing.T, o *Ops) {
		got := make([]float32, 1<<16)
		o.F16ToF32(got, all)
		if err := sameBits(got, want); err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			got := odd(make([]float32, n))
			o.F16ToF32(got, all[0x3c01:0x3c01+n])
			if err := sameBits(got, want[0x3c01:0x3c01+n]); err != nil {
				t.Fatal(err)
			}
			intact(t, got)
		}
	})
}

// nearestHalf searches all halves for the nearest, ties to the even fraction.
func nearestHalf(f float32) uint16 {
	x := math.Abs(float64(f))
	var sign uint16
	if math.Signbit(float64(f)) {
		sign = 0x8000
	}
	lo, hi := uint16(0), uint16(0x7c00) // value(lo) ≤ x; infinity counts as 2¹⁶ in rounding
	value := func(h uint16) float64 {
		if h == 0x7c00 {
			return 65536
		}
		return halfValue(h)
	}
	if x >= 65536 {
		return sign | 0x7c00
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; value(mid) <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	down, up := x-value(lo), value(hi)-x
	if up < down || up == down && hi&1 == 0 {
		lo = hi
	}
	return sign | lo
}

func TestF32ToF16(t *testing.T) {
	var src []float32
	for h := range uint16(0x7c00) {
		v, next := halfValue(h), 65536.0
		if h+1 < 0x7c00 {
			next = halfValue(h + 1)
		}
		middle := float32((v + next) / 2)
		src = append(src, float32(v), -float32(v), middle, -middle,
			math.Nextafter32(middle, 0), math.Nextafter32(middle, 1e9))
	}
	src = append(src, 65536, 1e30, float32(math.Inf(1)), float32(math.Inf(-1)), math.SmallestNonzeroFloat32, 0x1p-25)
	for r := random(); len(src)%1024 != 0; {
		src = append(src, float32(r.NormFloat64()))
	}
	want := make([]uint16, len(src))
	for i, f := range src {
		want[i] = nearestHalf(f)
	}
	eachLevel(t, func(t *testing.T, o *Ops) {
		got := make([]uint16, len(src))
		o.F32ToF16(got, src)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("half of %g (%#x): got %#x, want %#x", src[i], math.Float32bits(src[i]), got[i], want[i])
			}
		}
		for n := range 40 {
			got := make([]uint16, n+1)
			got[n] = 0xabcd
			o.F32ToF16(got[:n], src[101:101+n])
			for i := range n {
				if got[i] != want[101+i] {
					t.Fatalf("%d halves: element %d: got %#x, want %#x", n, i, got[i], want[101+i])
				}
			}
			if got[n] != 0xabcd {
				t.Fatalf("%d halves: wrote beyond the end", n)
			}
		}
		// A NaN keeps its sign and the upper payload and becomes quiet, at every level.
		for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xffc00000, 0x7fa00000, 0x7fffffff} {
			var got [1]uint16
			o.F32ToF16(got[:], []float32{math.Float32frombits(bits)})
			if want := uint16(bits>>16&0x8000 | 0x7e00 | bits>>13&0x3ff); got[0] != want {
				t.Errorf("half of NaN %#x: got %#x, want %#x", bits, got[0], want)
			}
		}
	})
}
