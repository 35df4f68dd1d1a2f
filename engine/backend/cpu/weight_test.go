package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// TestLookUp compares rows with what the file's own reader makes of them, after the file's
// bytes are gone: a weight keeps none of them.
func TestLookUp(t *testing.T) {
	b, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const rows, cols = 45, 512
	r := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []gguf.DType{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		data := make([]byte, rows*dtype.RowBytes(cols))
		for i := range data {
			data[i] = byte(r.Uint32()) &^ 0x44 // no half has all bits of its exponent set
		}
		want := make([]float32, rows*cols)
		if err := gguf.Dequantize(want, data, dtype); err != nil {
			t.Fatal(err)
		}
		w, err := b.newWeight(gguf.Tensor{Name: "table", Type: dtype, Shape: []uint64{cols, rows}, Data: data})
		if err != nil {
			t.Fatalf("%s: %v", dtype, err)
		}
		clear(data)
		got := make([]float32, cols)
		for row := range rows {
			if w.lookUp(got, row); !slices.Equal(got, want[row*cols:(row+1)*cols]) {
				t.Fatalf("%s: row %d begins with %v, want %v", dtype, row, got[:4], want[row*cols:][:4])
			}
		}
	}
}
