package cuda

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// tensor is the Tensor of this backend.
type tensor struct {
	cols int
	data uint64 // its address on the device: float32 [max rows, cols]
}

// Cols implements backend.Tensor.
func (t *tensor) Cols() int { return t.cols }

// weight is the Weight of this backend. One of a single row, a norm's or a bias, is
// float32 whatever its type in the file; as a matrix of one row it has the same
// bytes.
type weight struct {
	name   string
	layout kernels.Layout
	data   uint64 // the address of its planes on the device
}

// Rows implements backend.Weight.
func (w *weight) Rows() int { return w.layout.Rows }

// Cols implements backend.Weight.
func (w *weight) Cols() int { return w.layout.Cols }

// cache is the KV of this backend. [layers, blocks, heads, block size, head
// dimension] float16, keys and values alike.
type cache struct {
	shape        backend.KVShape
	keys, values uint64 // addresses on the device
}

// Bytes implements backend.KV.
func (c *cache) Bytes() int64 { return kvBytes(c.shape) }

// kvBytes is the size of keys and values: two bytes each.
func kvBytes(s backend.KVShape) int64 { return 2 * int64(s.Layers) * layerBytes(s) }

// layerBytes is the size of one layer's keys.
func layerBytes(s backend.KVShape) int64 {
	return 2 * int64(s.Blocks) * int64(s.BlockSize) * int64(s.Heads) * int64(s.HeadDim)
}

// formats are the file's types in the kernels' words.
var formats = map[gguf.DType]kernels.Format{
	gguf.F32: kernels.F32, gguf.F16: kernels.F16, gguf.BF16: kernels.BF16, gguf.Q8_0: kernels.Q8_0,
	gguf.Q4_0: kernels.Q4_0, gguf.Q4_1: kernels.Q4_1, gguf.Q5_0: kernels.Q5_0, gguf.Q5_1: kernels.Q5_1,
	gguf.Q4_K: kernels.Q4_K, gguf.Q5_K: kernels.Q5_K, gguf.Q6_K: kernels.Q6_K,
}

// layoutOf says how a tensor lies on the device.
func layoutOf(t gguf.Tensor) (kernels.Layout, error) {
	elements, cols := t.Elements(), t.Shape[0]
	if elements/cols > math.MaxInt32 || cols > math.MaxInt32 {
		return kernels.Layout{}, fmt.Errorf("tensor %q: shape %d is larger than the cuda backend can hold", t.Name, t.Shape)
	}
	rows := int(elements / cols)
	format, ok := formats[t.Type]
	if !ok {
		return kernels.Layout{}, fmt.Errorf("tensor %q: type %s is not supported; use F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K", t.Name, t.Type)
	}
	if rows == 1 {
		format = kernels.F32
	}
	l, err := kernels.NewLayout(format, rows, int(cols))
	if err != nil {
		return kernels.Layout{}, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return l, nil
}
