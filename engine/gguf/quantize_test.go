package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The nearest binary16 is found among all of them, halves to the even one.
func TestHalfOf(t *testing.T) {
	all := make([]float64, 0x7c00) // value of each pattern, ascending
	for i := range all {
		all[i] = float64(half([]byte{byte(i), byte(i >> 8)}))
	}
	nearest := func(x float64) uint16 {
		lo, hi := 0, len(all)-1
		for lo < hi {
			if mid := (lo + hi + 1) / 2; all[mid] <= x {
				lo = mid
			} else {
				hi = mid - 1
			}
		}
		next := 65536.0 // where infinity would stand, IEEE 754 section 4.3.1
		if lo+1 < len(all) {
			next = all[lo+1]
		}
		switch below, above := x-all[lo], next-x; {
		case below > above, below == above && lo%2 == 1:
			return uint16(lo + 1)
		}
		return uint16(lo)
	}
	check := func(x float32) {
		if got, want := halfOf(x), nearest(float64(x)); got != want {
			t.Errorf("%g (%#x): got %#04x, want %#04x", x, math.Float32bits(x), got, want)
		}
	}
	for i := range all { // each value, and around the middle to the next
		x := float32(all[i])
		check(x)
		middle := float32(all[i] / 2)
		if i+1 < len(all) {
			middle = float32((all[i] + all[i+1]) / 2)
		}
		for _, y := range []float32{middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, 1e9)} {
			check(y)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(math.Float32frombits(rng.Uint32N(0x47800000))) // below 65536
	}
	for _, x := range []float32{65519.996, 65520, 65536, math.MaxFloat32} {
		check(x)
	}
}

// Blocks worked by hand: the scale is the largest magnitude by 127.
func TestQuantizeQ8_0(t *testing.T) {
	src := make([]float32, 64)
	src[0], src[1], src[2], src[3], src[31] = 127, -127, 0.5, -2.5, 1.49 // scale 1: halves go away from zero
	src[32] = -254                                                       // scale 2, the rest zeros
	dst := make([]byte, 68)
	if err := QuantizeQ8_0(dst, src); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 68)
	minus := func(n int8) byte { return byte(-n) }
	want[1], want[2], want[3], want[4], want[5], want[33] = 0x3c, 127, minus(127), 1, minus(3), 1
	want[35], want[36] = 0x40, minus(127)
	if !bytes.Equal(dst, want) {
		t.Errorf("got  %v\nwant %v", dst, want)
	}
	for name, test := range map[string]struct {
		value float32
		want  string
	}{
		"NaN":       {float32(math.NaN()), "is NaN"},
		"infinite":  {float32(math.Inf(-1)), "is -Inf"},
		"too large": {1e7, "too large for a scale in 16 bits"},
	} {
		src[40] = test.value
		if err := QuantizeQ8_0(dst, src); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
	if err := QuantizeQ8_0(dst, src[:32]); err == nil {
		t.Error("a destination of another size was not refused")
	}
}

// File.Quantize changes matrices of floats and nothing else, whatever the number
// of workers.
func TestQuantizeFile(t *testing.T) {
	values := make([]byte, 0, 4*64*3)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 64 * 3 {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(float32(rng.NormFloat64())))
	}
	tensors := []Tensor{
		{"matrix", F32, []uint64{64, 3}, values},
		{"half", F16, []uint64{32, 2}, make([]byte, 128)},
		{"vector", F32, []uint64{64}, values[:256]},
		{"odd", F32, []uint64{16, 4}, values[:256]},
		{"small", Q4_0, []uint64{32, 1}, make([]byte, 18)},
	}
	var first []byte
	for _, workers := range []int{0, 1, 4} {
		f, err := Assemble(nil, tensors, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Quantize(workers); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]DType{"matrix": Q8_0, "half": Q8_0, "vector": F32, "odd": F32, "small": Q4_0} {
			if got, _ := f.Tensor(name); got.Type != want {
				t.Errorf("%s is %s, want %s", name, got.Type, want)
			}
		}
		m, _ := f.Tensor("matrix")
		if first == nil {
			first = bytes.Clone(m.Data)
		}
		if !bytes.Equal(m.Data, first) {
			t.Errorf("%d workers give other bytes", workers)
		}
		back, original := make([]float32, 192), make([]float32, 192)
		if err := Dequantize(back, m.Data, Q8_0); err != nil {
			t.Fatal(err)
		}
		dequantF32(original, values)
		for i := range back { // half a step of at most 4/127
			if d := math.Abs(float64(back[i] - original[i])); d > 0.02 {
				t.Errorf("value %d is %g, was %g", i, back[i], original[i])
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	bad := Tensor{"bad", F32, []uint64{32, 1}, make([]byte, 128)}
	binary.LittleEndian.PutUint32(bad.Data[8:], math.Float32bits(float32(math.NaN())))
	f, err := Assemble(nil, []Tensor{bad}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Quantize(1); err == nil || !strings.Contains(err.Error(), `tensor "bad": row 0: quantize: value 2 of a block is NaN`) {
		t.Errorf("NaN: %v", err)
	}
}
