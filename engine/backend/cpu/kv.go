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
	// memory; attention reads that much less, and quantises queries in the same way.
	KVQ8 = "q8_0"
)

// regionLen is the number of positions of a region of the cache.
const regionLen = 256

// cache is the KV of this backend. A key or value is a row, of one head at one
// position. A region is some consecutive blocks, [layers, heads, keys and values,
// blocks, blockSize]: what one head reads of it lies together, which is one run
// for the processor's prefetching. A region is a few huge pages, so memory is
// taken as regions are used. See RATIONALE.md: order of the CPU cache.
//
// Of 8 bits, a head's keys in a region are a matrix of FormQ8_0, each 16 of them a group:
// their scores are the product of one. Its values have their scales before them, a
// half for each 32 values: [dim/32, rows], then codes [rows, dim].
type cache struct {
	shape  backend.KVShape
	region int // blocks of a region; the last may have fewer
	dim    int // values of a row: the head's, and zeros up to a whole block

	f16 []uint16 // [row, dim]; nil if rows are of 8 bits

	// q8 holds rows of 8 bits, rowBytes each. codes and scales are the same memory.
	q8       []byte
	codes    []int8
	scales   []uint16
	rowBytes int
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
		return kernels.FormQ8_0.Bytes(kernels.GroupRows, b.kvDim(headDim)) / kernels.GroupRows
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

// extent returns the half of a head that a row is of: its first row, and how many rows
// it has in the region.
func (c *cache) extent(row int) (first, rows int) {
	s := &c.shape
	perBlock := 2 * s.Layers * s.Heads * s.BlockSize
	region := row / (c.region * perBlock)
	rows = min(c.region, s.Blocks-region*c.region) * s.BlockSize
	start := region * c.region * perBlock
	return start + (row-start)/rows*rows, rows
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
	if b.kvType == KVQ8 && s.BlockSize%kernels.GroupRows != 0 {
		return nil, fmt.Errorf("cpu backend: blocks of %d positions do not hold keys of type %s, which lie in groups of %d: use blocks of 16 or more, or cache type %s",
			s.BlockSize, KVQ8, kernels.GroupRows, KVF16)
	}
	c := &cache{shape: s, region: max(1, regionLen/s.BlockSize), dim: b.kvDim(s.HeadDim), rowBytes: b.kvRowBytes(s.HeadDim)}
	region, err := b.memory.allocate(int(b.KVBytes(s)))
	if err != nil {
		return nil, fmt.Errorf("cpu backend: allocate %d bytes for keys and values: %w", b.KVBytes(s), err)
	}
	var ok bool
	if b.kvType == KVQ8 {
		c.q8 = region
		c.codes, _ = viewAs[int8](region)
		c.scales, ok = viewAs[uint16](region)
	} else {
		c.f16, ok = viewAs[uint16](region)
	}
	if !ok {
		panic("cpu backend: memory is not aligned")
	}
	return c, nil
}

// quantized tells whether rows are of 8 bits.
func (c *cache) quantized() bool { return c.f16 == nil }

// keyGroup returns the group that holds a key of 8 bits, and its row there.
func (c *cache) keyGroup(row int) (group []byte, r int) {
	r = row % kernels.GroupRows
	return c.q8[(row-r)*c.rowBytes:][:kernels.GroupRows*c.rowBytes], r
}

// value returns the codes of a value of 8 bits and those after it, and their scales,
// whose rows are lds apart.
func (c *cache) value(row int) (codes []int8, scales []uint16, lds int) {
	first, rows := c.extent(row)
	at := first * c.rowBytes // in bytes
	scales = c.scales[at/2+row-first:][:(c.dim/kernels.BlockColumns-1)*rows+rows-(row-first)]
	codes = c.codes[at+rows*(c.rowBytes-c.dim):][(row-first)*c.dim : rows*c.dim]
	return codes, scales, rows
}

// scores multiplies queries with n keys from a row on, dst[query·ldd + key]. Of keys of 8
// bits, the first and n are multiples of a group.
func (c *cache) scores(ops *kernels.Ops, dst []float32, ldd int, q *queries, row, n int) {
	if c.quantized() {
		ops.MatMul(kernels.FormQ8_0, dst, ldd, c.q8[row*c.rowBytes:(row+n)*c.rowBytes], n/kernels.GroupRows, q.quants, q.meta, q.n, c.dim)
		return
	}
	ops.ScoresF16(dst, ldd, q.values, c.f16[row*c.dim:(row+n)*c.dim], q.n, n, c.dim)
}

// accumulate adds n weighted values from a row on, see kernels.AccumF16; next is what is
// read afterwards, see kernels.AccumQ8.
func (c *cache) accumulate(ops *kernels.Ops, dst, p []float32, ldp, row, heads, n int, next []byte) {
	if c.quantized() {
		codes, scales, lds := c.value(row)
		ops.AccumQ8(dst, p, ldp, codes, scales, lds, heads, n, c.dim, next)
		return
	}
	ops.AccumF16(dst, p, ldp, c.f16[row*c.dim:(row+n)*c.dim], heads, n, c.dim)
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
		if !c.quantized() {
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
		if to == keys {
			group, r := c.keyGroup(row)
			kernels.PlaceQ8_0(group, r, s.quants, s.meta)
			continue
		}
		codes, scales, lds := c.value(row)
		copy(codes, s.quants)
		for i := range s.meta {
			scales[i*lds] = kernels.F16FromF32(s.meta[i].D)
		}
	}
}
