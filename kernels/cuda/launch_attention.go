//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"math/bits"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// attentionKernels are the functions of attend_decode.cu and
// attend_prefill.cu, by rising dim.
type attentionKernels [5]attentionKernel

// attentionKernel is attention compiled for heads of up to dim values. The numbers
// are those of the macros DECODE and PREFILL there.
type attentionKernel struct {
	dim   int
	warps int // of a block of decode
	tile  int // positions of a tile of prefill

	decode, prefill *driver.Function
}

// Constants of these files.
const (
	decodeHeads    = 8   // heads of a block of decode
	maxSplits      = 64  // of a context
	minSplit       = 128 // positions of a split
	prefillWarps   = 4
	prefillQueries = 64 // queries of a block of prefill
)

// compiledAttention lists what they are compiled for, without functions.
var compiledAttention = attentionKernels{
	{dim: 64, warps: 4, tile: 64},
	{dim: 80, warps: 4, tile: 64},
	{dim: 96, warps: 4, tile: 64},
	{dim: 128, warps: 4, tile: 64},
	{dim: MaxHeadDim, warps: 2, tile: 32},
}

func (a *attentionKernels) load(l *loader) {
	*a = compiledAttention
	for i := range a {
		f := &a[i]
		f.decode = l.function(fmt.Sprintf("attend_decode_%d", f.dim), f.decodeShared())
		f.prefill = l.function(fmt.Sprintf("attend_prefill_%d", f.dim), f.prefillShared())
	}
}

// decodeShared is the shared memory of a block in bytes: two stages of keys and values
// of 16 positions for each warp, and its queries.
func (f *attentionKernel) decodeShared() int { return f.warps * (2*2*16*f.dim*2 + f.queryBytes()) }

// prefillShared is two stages of keys and values of a tile, and the warps' queries.
func (f *attentionKernel) prefillShared() int {
	return 2*2*f.tile*f.dim*2 + prefillWarps*f.queryBytes()
}

// queryBytes is the shared memory of a warp's 16 queries.
func (f *attentionKernel) queryBytes() int {
	if f.dim <= 128 {
		return 0 // they are in registers
	}
	return 16 * f.dim * 2
}

// Attention is what both kinds of attention need to know of a layer: softmax of
// Scale·q·kᵀ over the positions that a row sees, times v. Addresses are aligned to 16
// bytes, here and in Decode and Prefill.
type Attention struct {
	Cache     CacheLayer
	Heads     Heads      // Dim is a multiple of 8; fastest are 64, 80, 96, 128 and 256
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
	return k.decode(s, dst, q, context, scratch, rows, a, QKV{})
}

// QKV is what FinishQKV makes of the products of a layer but for the queries, in a
// launch of their attention.
type QKV struct {
	Key, Value driver.Ptr // float32 [rows, heads.KV, heads.Dim]; not changed
	// Fresh is int32 [rows]: how many of the positions that a row sees are of this
	// launch's rows, which are the last before it and itself. 1 where each row is of a
	// sequence of its own.
	Fresh        driver.Ptr
	QNorm, KNorm driver.Ptr // 0: none
	Rope         Rope
	Eps          float32
}

// FinishAndDecode is FinishQKV and Decode in one launch: keys and values are stored in
// the last places that their rows see, and q is not changed. dst may be q.
func (k *Kernels) FinishAndDecode(s *driver.Stream, dst, q, context, scratch driver.Ptr, rows int, a Attention, n QKV) error {
	if n.Key == 0 || n.Value == 0 || n.Fresh == 0 {
		return fmt.Errorf("attention: products at %#x and %#x, fresh rows at %#x: all three are needed", n.Key, n.Value, n.Fresh)
	}
	if err := n.Rope.check(a.Heads.Dim); err != nil {
		return err
	}
	return k.decode(s, dst, q, context, scratch, rows, a, n)
}

func (k *Kernels) decode(s *driver.Stream, dst, q, context, scratch driver.Ptr, rows int, a Attention, n QKV) error {
	f, err := k.attentionFor(&a)
	if err != nil || rows == 0 {
		return err
	}
	tiles := a.Heads.KV * divUp(a.Heads.Q/a.Heads.KV, decodeHeads)
	splits := k.splits(rows*tiles, a.MaxBlocks*a.Cache.BlockSize)
	counters, parts := scratch, scratch+driver.Ptr(k.decodeCounters())
	return k.begin().pointers(dst, q, a.Cache.Keys, a.Cache.Values, a.Table, context, counters, parts).
		pointers(n.Key, n.Value, n.Fresh, n.QNorm, n.KNorm, n.Rope.Freqs).ints(n.Rope.Dims, n.Rope.neox()).floats(n.Eps).
		ints(a.Heads.Q, a.Heads.KV, a.Heads.Dim, log2(a.Cache.BlockSize), a.MaxBlocks, a.Window).floats(a.Scale, a.Softcap).
		launch(s, f.decode, [3]uint32{uint32(splits), uint32(tiles), uint32(rows)}, 32*f.warps, f.decodeShared())
}

// DecodeScratch is the size of Decode's scratch in bytes, for heads of a dimension.
func (k *Kernels) DecodeScratch(dim int) int64 {
	return k.decodeCounters() + 2*int64(k.decodeBlocks())*int64(4*decodeHeads*(k.attention.of(dim).dim+2))
}

// Prefill sets dst to the causal attention of runs of rows: queries and weights are
// rounded to float16 on the way to the tensor cores, sums are float32. dst and q are
// [rows, heads.Q, heads.Dim] and may be the same.
//
// seqs describes the runs in device memory, at a multiple of 16 bytes, int32 [numSeqs][4]: the first row, the number
// of rows (0: nothing to do), the context of the run's last row (positions it sees, its
// own among them), and the number of its table. Rows of a run have consecutive
// positions; rows is the number of rows of all runs together, or more. Rows of no run are
// not touched, so that a mixed step can do Decode for all rows (context 0 for those of
// longer runs) and then Prefill for the longer runs.
func (k *Kernels) Prefill(s *driver.Stream, dst, q, seqs driver.Ptr, numSeqs, rows int, a Attention) error {
	f, err := k.attentionFor(&a)
	if err != nil || rows == 0 || numSeqs == 0 {
		return err
	}
	tiles := rows*(a.Heads.Q/a.Heads.KV)/prefillQueries + numSeqs // each run has at most one that is not full
	return k.begin().pointers(dst, q, a.Cache.Keys, a.Cache.Values, a.Table, seqs).
		ints(numSeqs, a.Heads.Q, a.Heads.KV, a.Heads.Dim, log2(a.Cache.BlockSize), a.MaxBlocks, a.Window).floats(a.Scale, a.Softcap).
		launch(s, f.prefill, [3]uint32{uint32(tiles), uint32(a.Heads.KV), 1}, 32*prefillWarps, f.prefillShared())
}

// attentionFor returns the kernels for a layer, or what is wrong with it.
func (k *Kernels) attentionFor(a *Attention) (*attentionKernel, error) {
	h, size := a.Heads, a.Cache.BlockSize
	switch {
	case h.KV <= 0 || h.Q <= 0 || h.Q%h.KV != 0:
		return nil, fmt.Errorf("attention: %d query heads are not a multiple of %d key heads", h.Q, h.KV)
	case h.Dim <= 0 || h.Dim%8 != 0 || h.Dim > MaxHeadDim:
		return nil, fmt.Errorf("attention: heads of %d values: the kernels take multiples of 8 up to %d", h.Dim, MaxHeadDim)
	case size <= 0 || size&(size-1) != 0:
		return nil, fmt.Errorf("attention: a block of %d positions: the kernels take powers of two", size)
	}
	return k.attention.of(h.Dim), nil
}

// of returns the kernels of the smallest dimension that is enough for dim.
func (a *attentionKernels) of(dim int) *attentionKernel {
	i := 0
	for i < len(a)-1 && a[i].dim < dim {
		i++
	}
	return &a[i]
}

// decodeBlocks is how many blocks of Decode keep the device busy.
func (k *Kernels) decodeBlocks() int { return 2 * k.processors }

// decodeCounters is the size of the counters at the beginning of Decode's scratch in
// bytes. A launch whose contexts are split has fewer than decodeBlocks units to count
// for, and less than twice as many parts.
func (k *Kernels) decodeCounters() int64 { return int64(divUp(4*k.decodeBlocks(), 256) * 256) }

// splits is the number of splits of each context in a launch of some units (rows times
// tiles of heads): as many as give each multiprocessor its blocks, and no shorter than a
// split must be in the longest context. It depends on the launch alone, not on what
// contexts hold, so that the launch can be captured.
func (k *Kernels) splits(units, maxContext int) int {
	return max(1, min(divUp(k.decodeBlocks(), units), divUp(maxContext, minSplit), maxSplits))
}

// log2 is the exponent of a power of two.
func log2(n int) int { return bits.TrailingZeros(uint(n)) }
