//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// vectorKernels are the functions of norm.cu, rope.cu and copy.cu.
type vectorKernels struct {
	norm, addNorm, twice  *driver.Function
	heads                 *driver.Function
	siluUp, geluUp        *driver.Function
	add, fill, copyBlocks *driver.Function
	narrow                *driver.Function
}

// MaxHeadDim is the largest dimension of a head.
const MaxHeadDim = 256

func (v *vectorKernels) load(l *loader) {
	v.norm = l.function("rms_norm", 0)
	v.addNorm = l.function("rms_norm_add", 0)
	v.twice = l.function("rms_norm_add_norm", 0)
	v.heads = l.function("finish_heads", 0)
	v.siluUp = l.function("silu_up", 0)
	v.geluUp = l.function("gelu_up", 0)
	v.add = l.function("add", 0)
	v.fill = l.function("fill", 0)
	v.narrow = l.function("narrow", 0)
	v.copyBlocks = l.function("copy_blocks", 0)
}

// Norm sets y to the RMS norm of x times w, row by row: x / sqrt(mean(x²) + eps) · w.
// y and x are [rows, cols] and may be the same; w is [cols].
func (k *Kernels) Norm(s *driver.Stream, y, x, w driver.Ptr, rows, cols int, eps float32) error {
	return k.normRows(s, k.vector.norm, y, x, w, rows, cols, eps)
}

// AddNorm adds the RMS norm of x times w to y, row by row. Shapes are Norm's; x is
// not changed.
func (k *Kernels) AddNorm(s *driver.Stream, y, x, w driver.Ptr, rows, cols int, eps float32) error {
	return k.normRows(s, k.vector.addNorm, y, x, w, rows, cols, eps)
}

// AddNormNorm is AddNorm of x to y, and then Norm of y times next into z, in one launch.
// z may be x or y.
func (k *Kernels) AddNormNorm(s *driver.Stream, z, y, x, w, next driver.Ptr, rows, cols int, eps float32) error {
	if rows == 0 {
		return nil
	}
	return k.begin().pointers(z, y, x, w, next).ints(cols).floats(eps).launch(s, k.vector.twice, grid(rows), normThreads(cols), 0)
}

// Rope is a rotary position embedding, backend.Rope with its angles on the device.
type Rope struct {
	// Dims is the number of leading values of a head that are rotated; even. 0: none.
	Dims int
	// Freqs holds the angle per position of each pair, in radians. float32 [Dims/2]
	Freqs driver.Ptr
	// Neox pairs value i with value i+Dims/2; otherwise 2i with 2i+1.
	Neox bool
}

func (r *Rope) neox() int {
	if r.Neox {
		return 1
	}
	return 0
}

// check finds what would be undefined for heads of dim values.
func (r *Rope) check(dim int) error {
	if d := r.Dims; d < 0 || d%2 != 0 || d > dim {
		return fmt.Errorf("rotation of %d values of a head of %d: they must be an even number of the head's", d, dim)
	}
	return nil
}

// CacheLayer is one layer of the paged cache.
type CacheLayer struct {
	Keys, Values driver.Ptr // float16 [blocks, kvHeads, BlockSize, dim]; 16-byte aligned
	BlockSize    int        // positions in a block: a power of two, at least 16
}

// Heads describes the heads of a step's queries, keys and values.
type Heads struct {
	Q, KV int // heads of queries, and of keys and values; Q is a multiple of KV
	Dim   int // values of a head; even, at most MaxHeadDim
}

// HeadNorm is Norm of each head of x on its own, in place. x is [rows, heads, dim], w
// is [dim].
func (k *Kernels) HeadNorm(s *driver.Stream, x, w driver.Ptr, rows, heads, dim int, eps float32) error {
	return k.finishHeads(s, headsWork{q: x, qNorm: w, rows: rows, heads: Heads{Q: heads, Dim: dim}, eps: eps})
}

// Rotate applies the position embedding to each head of x, in place. x is
// [rows, heads, dim]; positions is int32 [rows].
func (k *Kernels) Rotate(s *driver.Stream, x, positions driver.Ptr, rows, heads, dim int, r Rope) error {
	return k.finishHeads(s, headsWork{q: x, positions: positions, rows: rows, heads: Heads{Q: heads, Dim: dim}, rope: r})
}

// Store puts keys and values into their slots. key and value are
// [rows, heads.KV, heads.Dim]; slots is int32 [rows], -1 stores nothing.
func (k *Kernels) Store(s *driver.Stream, c CacheLayer, key, value, slots driver.Ptr, rows int, heads Heads) error {
	heads.Q = 0
	return k.finishHeads(s, headsWork{k: key, v: value, slots: slots, cache: c, rows: rows, heads: heads})
}

// FinishQKV is what stands between the products q, k, v of a layer and its attention,
// in one launch: HeadNorm of q by qNorm and of k by kNorm (each skipped where it is 0),
// Rotate of both, and Store. q is [rows, heads.Q, heads.Dim] and is changed in place;
// key and value are [rows, heads.KV, heads.Dim] and are not changed: their results are
// in the cache alone. positions and slots are int32 [rows].
func (k *Kernels) FinishQKV(s *driver.Stream, c CacheLayer, q, key, value, qNorm, kNorm, positions, slots driver.Ptr, rows int, heads Heads, r Rope, eps float32) error {
	return k.finishHeads(s, headsWork{q: q, k: key, v: value, qNorm: qNorm, kNorm: kNorm, positions: positions, slots: slots,
		cache: c, rows: rows, heads: heads, rope: r, eps: eps})
}

// SiLUUp sets y to silu(gate) ⊙ up, n values of each. y may be gate or up.
func (k *Kernels) SiLUUp(s *driver.Stream, y, gate, up driver.Ptr, n int) error {
	return k.elements(s, k.vector.siluUp, n, y, gate, up)
}

// GELUUp is SiLUUp with the tanh approximation of GELU.
func (k *Kernels) GELUUp(s *driver.Stream, y, gate, up driver.Ptr, n int) error {
	return k.elements(s, k.vector.geluUp, n, y, gate, up)
}

// Add adds x to y, n values of each.
func (k *Kernels) Add(s *driver.Stream, y, x driver.Ptr, n int) error {
	return k.elements(s, k.vector.add, n, y, x)
}

// Fill sets n values of y.
func (k *Kernels) Fill(s *driver.Stream, y driver.Ptr, value float32, n int) error {
	if n == 0 {
		return nil
	}
	return k.begin().pointers(y).floats(value).ints(n).launch(s, k.vector.fill, k.elementGrid(n), elementThreads, 0)
}

// Narrow sets n values of y to those of x times scale, rounded to BF16 or F16, to the
// nearest. y is aligned to 8 and x to 16.
func (k *Kernels) Narrow(s *driver.Stream, y, x driver.Ptr, f Format, scale float32, n int) error {
	half := 0
	switch {
	case n == 0:
		return nil
	case n > math.MaxInt32:
		return fmt.Errorf("narrow %d values: at most %d fit into one launch", n, math.MaxInt32)
	case f == F16:
		half = 1
	case f != BF16:
		return fmt.Errorf("narrow to %v: use BF16 or F16", f)
	}
	return k.begin().pointers(y, x).floats(scale).ints(half, n).launch(s, k.vector.narrow, k.elementGrid(n), elementThreads, 0)
}

// CopyBlocks copies blocks within a cache, in all layers. keys and values are those of
// layer 0, float16 [layers, blocks, blockBytes/2]; pairs is int32 [numPairs][2], source
// and destination. No destination may be another pair's source. blockBytes is a multiple
// of 16.
func (k *Kernels) CopyBlocks(s *driver.Stream, keys, values, pairs driver.Ptr, numPairs, layers, blocks, blockBytes int) error {
	if blockBytes%16 != 0 {
		return fmt.Errorf("copy blocks: a block of %d bytes is not a multiple of 16", blockBytes)
	}
	if numPairs == 0 {
		return nil
	}
	return k.begin().pointers(keys, values, pairs).ints(blocks, blockBytes/16).
		launch(s, k.vector.copyBlocks, [3]uint32{uint32(numPairs), uint32(layers), 2}, 256, 0)
}

// elementThreads is the size of a block for operations of single elements.
const elementThreads = 256

// elementGrid is a grid that goes over n values four at a time, and round again where
// they are more than fill the device a few times.
func (k *Kernels) elementGrid(n int) [3]uint32 {
	return grid(min(divUp(n, 4*elementThreads), 16*k.processors))
}

// elements launches f over n values of some arrays.
func (k *Kernels) elements(s *driver.Stream, f *driver.Function, n int, arrays ...driver.Ptr) error {
	if n == 0 {
		return nil
	}
	return k.begin().pointers(arrays...).ints(n).launch(s, f, k.elementGrid(n), elementThreads, 0)
}

// normRows launches a norm, of one block a row with a thread for each four values.
func (k *Kernels) normRows(s *driver.Stream, f *driver.Function, y, x, w driver.Ptr, rows, cols int, eps float32) error {
	if rows == 0 {
		return nil
	}
	return k.begin().pointers(y, x, w).ints(cols).floats(eps).launch(s, f, grid(rows), normThreads(cols), 0)
}

func normThreads(cols int) int { return min(max(divUp(cols, 4*32)*32, 32), 512) }

// headsWork is the work of one launch of finish_heads; what a caller leaves out is zero.
type headsWork struct {
	q, k, v, qNorm, kNorm driver.Ptr
	positions, slots      driver.Ptr
	cache                 CacheLayer
	rows                  int
	heads                 Heads
	rope                  Rope
	eps                   float32
}

func (k *Kernels) finishHeads(s *driver.Stream, w headsWork) error {
	if d := w.heads.Dim; d <= 0 || d%2 != 0 || d > MaxHeadDim {
		return fmt.Errorf("heads of %d values: the kernels take an even number up to %d", d, MaxHeadDim)
	}
	if err := w.rope.check(w.heads.Dim); err != nil {
		return err
	}
	warps := w.rows * (w.heads.Q + 2*w.heads.KV)
	if warps == 0 {
		return nil
	}
	return k.begin().
		pointers(w.q, w.k, w.v, w.qNorm, w.kNorm, w.rope.Freqs, w.positions, w.slots, w.cache.Keys, w.cache.Values).
		ints(w.rows, w.heads.Q, w.heads.KV, w.heads.Dim, w.rope.Dims, w.rope.neox(), max(w.cache.BlockSize, 1)).floats(w.eps).
		launch(s, k.vector.heads, grid(divUp(warps, 4)), 4*32, 0)
}
