package cpu

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// The types in which keys and values can be stored.
const (
	// KVF16 stores them as float16.
	KVF16 = "f16"
	// KVQ8 stores them as int8 with a float16 scale for each 32, in 17/32 of the
	// memory; attention reads that much less.
	KVQ8 = "q8_0"
)

// regionLen is the number of positions of a region of the cache.
const regionLen = 256

// cache is the KV of this backend. A key or value is a row, of one head at one
// position. A region is some consecutive blocks, [layers, heads, keys and values,
// blocks, blockSize]: what one head reads of it lies together, which is one run
// for the processor's prefetching. A region is a few huge pages, so memory is
// taken as regions are used. See RATIONALE.md: order of the CPU cache.
type cache struct {
	shape  backend.KVShape
	region int // blocks of a region; the last may have fewer
	dim    int // values of a row: the head's, and zeros up to a whole block

	// One of the two holds the rows.
	f16 []uint16 // [row, dim]
	q8  []byte   // [row, Q8HeadBytes(dim)]
}

// half says which half of a head's rows is meant.
type half int

const (
	keys half = iota
	values
)

// kvDim is the number of values of a row, kvRowBytes the row's size.
func (b *Backend) kvDim(headDim int) int {
	if b.kvType == KVQ8 {
		return (headDim + kernels.BlockColumns - 1) / kernels.BlockColumns * kernels.BlockColumns
	}
	return headDim
}

func (b *Backend) kvRowBytes(headDim int) int {
	if b.kvType == KVQ8 {
		return kernels.Q8HeadBytes(b.kvDim(headDim))
	}
	return 2 * headDim
}

// Bytes implements backend.KV.
func (c *cache) Bytes() int64 {
	return int64(2*len(c.f16) + len(c.q8))
}

// row is the number of a head's key or value at a position of a block.
func (c *cache) row(h half, layer, block, head, offset int) int {
	s := &c.shape
	first := block - block%c.region
	blocks := min(c.region, s.Blocks-first)
	return (2*first*s.Layers*s.Heads+(2*(layer*s.Heads+head)+int(h))*blocks+block-first)*s.BlockSize + offset
}

// neighbours tells whether a head's rows of two blocks follow each other.
func (c *cache) neighbours(block, next int32) bool {
	return next == block+1 && int(next)%c.region != 0
}

// KVBytes implements backend.Backend.
func (b *Backend) KVBytes(s backend.KVShape) int64 {
	return 2 * int64(b.kvRowBytes(s.HeadDim)) * int64(s.Layers) * int64(s.Blocks) * int64(s.BlockSize) * int64(s.Heads)
}

// NewKV implements backend.Backend. The cache takes memory as it is written.
func (b *Backend) NewKV(s backend.KVShape) (backend.KV, error) {
	if s.HeadDim%8 != 0 {
		return nil, fmt.Errorf("cpu backend: heads of %d values are not supported, want a multiple of 8", s.HeadDim)
	}
	if slots := int64(s.Blocks) * int64(s.BlockSize); slots > math.MaxInt32 {
		return nil, fmt.Errorf("cpu backend: a cache of %d positions is too large, at most %d fit", slots, math.MaxInt32)
	}
	c := &cache{shape: s, region: max(1, regionLen/s.BlockSize), dim: b.kvDim(s.HeadDim)}
	region, err := b.memory.allocate(int(b.KVBytes(s)))
	if err != nil {
		return nil, fmt.Errorf("cpu backend: allocate %d bytes for keys and values: %w", b.KVBytes(s), err)
	}
	if b.kvType == KVQ8 {
		c.q8 = region
		return c, nil
	}
	var ok bool
	if c.f16, ok = viewAs[uint16](region); !ok {
		panic("cpu backend: memory is not aligned")
	}
	return c, nil
}

// scores multiplies query heads with n keys from a row on, see kernels.ScoresF16.
func (c *cache) scores(ops *kernels.Ops, dst []float32, ldd int, q []float32, row, heads, n int) {
	dim := c.dim
	if c.q8 != nil {
		size := kernels.Q8HeadBytes(dim)
		ops.ScoresQ8(dst, ldd, q, c.q8[row*size:(row+n)*size], heads, n, dim)
		return
	}
	ops.ScoresF16(dst, ldd, q, c.f16[row*dim:(row+n)*dim], heads, n, dim)
}

// accumulate adds n weighted values from a row on, see kernels.AccumF16.
func (c *cache) accumulate(ops *kernels.Ops, dst, p []float32, ldp, row, heads, n int) {
	dim := c.dim
	if c.q8 != nil {
		size := kernels.Q8HeadBytes(dim)
		ops.AccumQ8(dst, p, ldp, c.q8[row*size:(row+n)*size], heads, n, dim)
		return
	}
	ops.AccumF16(dst, p, ldp, c.f16[row*dim:(row+n)*dim], heads, n, dim)
}

const storeCost = 0.3 // nanoseconds for one value

type storeTask struct {
	b     *Backend
	size  int
	cache *cache
	layer int
	k, v  *tensor
}

// Store implements backend.Backend.
func (b *Backend) Store(kv backend.KV, layer int, k, v backend.Tensor) {
	b.storeTask = storeTask{b: b, cache: kv.(*cache), layer: layer, k: k.(*tensor), v: v.(*tensor)}
	b.overRows(&b.storeTask, &b.storeTask.size, 2*storeCost*float64(k.Cols()))
}

func (t *storeTask) run(chunk int, s *scratch) {
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		t.store(keys, t.k.row(r), int(t.b.batch.Slots[r]), s)
		t.store(values, t.v.row(r), int(t.b.batch.Slots[r]), s)
	}
}

// store puts the heads of one row into their places of a slot.
func (t *storeTask) store(to half, x []float32, slot int, s *scratch) {
	c, n := t.cache, t.cache.shape.HeadDim
	for head := range c.shape.Heads {
		row := c.row(to, t.layer, slot/c.shape.BlockSize, head, slot%c.shape.BlockSize)
		values := x[head*n : (head+1)*n]
		if c.q8 == nil {
			t.b.ops.F32ToF16(c.f16[row*c.dim:(row+1)*c.dim], values)
			continue
		}
		if n < c.dim {
			s.row = grow(s.row, c.dim)
			clear(s.row[copy(s.row, values):])
			values = s.row
		}
		s.quants = grow(s.quants, c.dim)
		s.meta = grow(s.meta, c.dim/kernels.BlockColumns)
		t.b.ops.Quantize(s.quants, s.meta, values)
		size := kernels.Q8HeadBytes(c.dim)
		kernels.QuantizeHead(c.q8[row*size:(row+1)*size], s.quants, s.meta)
	}
}
