//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// vectorKernels are the functions of norm.cu, rope.cu and copy.cu, and of
// attention.cu one for each head dimension.
type vectorKernels struct {
	norm, addNorm         *driver.Function
	heads                 *driver.Function
	siluUp, geluUp        *driver.Function
	add, fill, copyBlocks *driver.Function
	decode, prefill       [len(headDims)]*driver.Function
}

// headDims are the head dimensions that attention is compiled for.
var headDims = [...]int{64, 80, 96, 128, 256}

// MaxHeadDim is the largest dimension of a head.
const MaxHeadDim = 256

func (v *vectorKernels) load(l *loader) {
	v.norm = l.function("rms_norm", 0)
	v.addNorm = l.function("rms_norm_add", 0)
	v.heads = l.function("finish_heads", 0)
	v.siluUp = l.function("silu_up", 0)
	v.geluUp = l.function("gelu_up", 0)
	v.add = l.function("add", 0)
	v.fill = l.function("fill", 0)
	v.copyBlocks = l.function("copy_blocks", 0)
	for i, dim := range headDims {
		v.decode[i] = l.function(fmt.Sprintf("attend_decode_%d", dim), decodeShared(dim))
		v.prefill[i] = l.function(fmt.Sprintf("attend_prefill_%d", dim), prefillShared(dim))
	}
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

// Rope is a rotary position embedding, backend.Rope with its angles on the device.
type Rope struct {
	// Dims is the number of leading values of a head that are rotated; even. 0: none.
	Dims int
	// Freqs holds the angle per position of each pair, in radians. float32 [Dims/2]
	Freqs driver.Ptr
	// Neox pairs value i with value i+Dims/2; otherwise 2i with 2i+1.
	Neox bool
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

// Attention is what both kinds of attention need to know of a layer: softmax of
// Scale·q·kᵀ over the positions that a row sees, times v.
type Attention struct {
	Cache     CacheLayer
	Heads     Heads      // Dim is one of 64, 80, 96, 128, 256
	Table     driver.Ptr // block tables, int32 [tables, MaxBlocks]: entry i holds positions i·BlockSize …
	MaxBlocks int        // entries of a table
	Scale     float32
	Softcap   float32 // above 0: scores s become Softcap·tanh(s/Softcap)
	Window    int     // above 0: a row sees its last Window positions only, its own among them
}

// Decode sets dst to the attention of one query row for each table: row r has table r
// and sees positions 0 … context[r]-1. dst and q are [rows, heads.Q, heads.Dim] and may
// be the same; context is int32 [rows], at most MaxBlocks·BlockSize; 0 makes a row of
// zeros. Keys and values are read as they are and sums are float32, so the result is as
// exact as float32 arithmetic.
//
// scratch is memory of DecodeScratch's size, of zeros before its first use. Launches that
// share it must not overlap; layers and launches of any number of rows may share it.
func (k *Kernels) Decode(s *driver.Stream, dst, q, context, scratch driver.Ptr, rows int, a Attention) error {
	return k.decode(s, dst, q, context, scratch, rows, a)
}

// DecodeScratch is the size of Decode's scratch in bytes, for heads of a dimension.
func (k *Kernels) DecodeScratch(dim int) int64 {
	return k.decodeScratch(dim)
}

// Prefill sets dst to the causal attention of runs of rows: queries and weights are
// rounded to float16 on the way to the tensor cores, sums are float32. dst and q are
// [rows, heads.Q, heads.Dim] and may be the same.
//
// seqs describes the runs in device memory, int32 [numSeqs][4]: the first row, the number
// of rows (0: nothing to do), the context of the run's last row (positions it sees, its
// own among them), and the number of its table. Rows of a run have consecutive
// positions; rows is the number of rows of all runs together, or more. Rows of no run are
// not touched, so that a mixed step can do Decode for all rows (context 0 for those of
// longer runs) and then Prefill for the longer runs.
func (k *Kernels) Prefill(s *driver.Stream, dst, q, seqs driver.Ptr, numSeqs, rows int, a Attention) error {
	return k.prefill(s, dst, q, seqs, numSeqs, rows, a)
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
	return k.fillValues(s, y, value, n)
}

// CopyBlocks copies blocks within a cache, in all layers. keys and values are those of
// layer 0, float16 [layers, blocks, blockBytes/2]; pairs is int32 [numPairs][2], source
// and destination. No destination may be another pair's source. blockBytes is a multiple
// of 16.
func (k *Kernels) CopyBlocks(s *driver.Stream, keys, values, pairs driver.Ptr, numPairs, layers, blocks, blockBytes int) error {
	return k.copyPairs(s, keys, values, pairs, numPairs, layers, blocks, blockBytes)
}
