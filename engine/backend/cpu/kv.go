package cpu

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// cache is the KV of this backend. Keys and values are float16,
// [layers, heads, blocks, blockSize, headDim]: what one head reads of blocks with
// consecutive numbers lies together, which is one run for the kernels and for
// the processor's prefetching. See RATIONALE.md: order of the CPU cache.
type cache struct {
	shape        backend.KVShape
	keys, values []uint16
}

// Bytes implements backend.KV.
func (c *cache) Bytes() int64 { return 2 * int64(len(c.keys)+len(c.values)) }

// at is where a head's position in a block begins in keys and values.
func (c *cache) at(layer, block, head, offset int) int {
	s := &c.shape
	return (((layer*s.Heads+head)*s.Blocks+block)*s.BlockSize + offset) * s.HeadDim
}

// KVBytes implements backend.Backend.
func (b *Backend) KVBytes(s backend.KVShape) int64 {
	return 2 * 2 * int64(s.Layers) * int64(s.Blocks) * int64(s.BlockSize) * int64(s.Heads) * int64(s.HeadDim)
}

// NewKV implements backend.Backend. The cache takes memory as it is written, in
// small pages: a huge page would hold a head's share of a thousand blocks.
func (b *Backend) NewKV(s backend.KVShape) (backend.KV, error) {
	if s.HeadDim%8 != 0 {
		return nil, fmt.Errorf("cpu backend: heads of %d values are not supported, want a multiple of 8", s.HeadDim)
	}
	if slots := int64(s.Blocks) * int64(s.BlockSize); slots > math.MaxInt32 {
		return nil, fmt.Errorf("cpu backend: a cache of %d positions is too large, at most %d fit", slots, math.MaxInt32)
	}
	c := &cache{shape: s}
	for _, half := range []*[]uint16{&c.keys, &c.values} {
		region, err := b.memory.sparse(int(b.KVBytes(s) / 2))
		if err != nil {
			return nil, fmt.Errorf("cpu backend: allocate %d bytes for keys and values: %w", b.KVBytes(s), err)
		}
		var ok bool
		if *half, ok = viewAs[uint16](region); !ok {
			panic("cpu backend: memory is not aligned")
		}
	}
	return c, nil
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

func (t *storeTask) run(chunk int, _ *scratch) {
	c, dim := t.cache, t.cache.shape.HeadDim
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		slot := int(t.b.batch.Slots[r])
		k, v := t.k.row(r), t.v.row(r)
		for head := range c.shape.Heads {
			at := c.at(t.layer, slot/c.shape.BlockSize, head, slot%c.shape.BlockSize)
			t.b.ops.F32ToF16(c.keys[at:at+dim], k[head*dim:(head+1)*dim])
			t.b.ops.F32ToF16(c.values[at:at+dim], v[head*dim:(head+1)*dim])
		}
	}
}
