package gguf

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var allTypes = []DType{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K}

// TestDequantize compares each type with the values that the Python package
// gguf gives for the same bytes, bit for bit, NaN for NaN.
func TestDequantize(t *testing.T) {
	f := fixture(t)
	for _, typ := range allTypes {
		t.Run(typ.String(), func(t *testing.T) {
			quant, ok := f.Tensor(typ.String())
			ref, ok2 := f.Tensor(typ.String() + ".f32")
			if !ok || !ok2 || quant.Type != typ || quant.Elements() != ref.Elements() {
				t.Fatalf("fixture has no pair for %s", typ)
			}
			got, want := make([]float32, quant.Elements()), make([]float32, ref.Elements())
			if err := Dequantize(got, quant.Data, typ); err != nil {
				t.Fatal(err)
			}
			if err := Dequantize(want, ref.Data, F32); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				g, w := got[i], want[i]
				if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
					t.Fatalf("element %d in block %d: got %v (%08x), want %v (%08x)",
						i, i/typ.BlockLen(), g, math.Float32bits(g), w, math.Float32bits(w))
				}
			}
		})
	}
}

// TestHalf checks all 65536 numbers against the definition of IEEE 754
// section 3.4, computed in float64.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		exp, frac := h>>10&0x1f, float64(h&0x3ff)
		var want float64
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp < 31:
			want = math.Ldexp(1024+frac, exp-25)
		case frac == 0:
			want = math.Inf(1)
		default:
			want = math.NaN()
		}
		if h&0x8000 != 0 {
			want = -want
		}
		got := float64(half([]byte{byte(h), byte(h >> 8)}))
		if got != want && (got == got || want == want) || math.Signbit(got) != math.Signbit(want) && want == want {
			t.Fatalf("half(%#04x): got %v, want %v", h, got, want)
		}
	}
}

func TestDequantizeRefused(t *testing.T) {
	tests := []struct {
		name string
		dst  int
		src  int
		typ  DType
		want string
	}{
		{"short source", 32, 33, Q8_0, "33 bytes are not 32 elements of type Q8_0, which has 32 elements in 34 bytes"},
		{"long source", 32, 35, Q8_0, "35 bytes are not 32 elements"},
		{"partial block", 16, 0, Q8_0, "0 bytes are not 16 elements"},
		{"listed type", 256, 84, 10, "type Q2_K is not supported; use F32"},
		{"unknown type", 1, 1, 99, "type type 99 is not supported; use F32"},
	}
	for _, test := range tests {
		err := Dequantize(make([]float32, test.dst), make([]byte, test.src), test.typ)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want part %s", test.name, err, test.want)
		}
	}
}

// TestBlocks compares names and sizes with the table of the Python package.
func TestBlocks(t *testing.T) {
	f := fixture(t)
	seen := map[string]bool{}
	for typ := range DType(64) {
		if !typ.known() {
			continue
		}
		seen[typ.String()] = true
		want, err := f.Ints("blocks." + typ.String())
		if err != nil {
			t.Errorf("type %d: %v", typ, err)
			continue
		}
		got := []int32{int32(typ.BlockLen()), int32(typ.BlockBytes())}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got block length and bytes %d, want %d", typ, got, want)
		}
		if got, want := typ.RowBytes(512), uint64(512/typ.BlockLen()*typ.BlockBytes()); got != want {
			t.Errorf("%s: got %d bytes for 512 elements, want %d", typ, got, want)
		}
	}
	for _, key := range f.Keys() {
		name, ok := strings.CutPrefix(key, "blocks.")
		if ok && !seen[name] && name != "Q8_1" && name != "Q8_K" { // these two exist in memory only
			t.Errorf("type %s is missing", name)
		}
	}
}

// FuzzDequantize holds that any bytes convert without a panic and write every
// element.
func FuzzDequantize(f *testing.F) {
	for i := range allTypes {
		f.Add(byte(i), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	}
	f.Fuzz(func(t *testing.T, which byte, src []byte) {
		typ := allTypes[int(which)%len(allTypes)]
		numBlocks := len(src) / typ.BlockBytes()
		src = src[:numBlocks*typ.BlockBytes()]
		const unset = 12345.678
		dst := make([]float32, numBlocks*typ.BlockLen())
		for i := range dst {
			dst[i] = unset
		}
		if err := Dequantize(dst, src, typ); err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(dst, unset); i >= 0 && typ.BlockLen() > 1 {
			t.Errorf("%s of %d blocks: element %d was not written", typ, numBlocks, i)
		}
	})
}

func BenchmarkDequantize(b *testing.B) {
	for _, typ := range allTypes {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]float32, 1<<14)
			src := make([]byte, typ.RowBytes(1<<14))
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Dequantize(dst, src, typ); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
