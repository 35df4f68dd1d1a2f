//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// KVBytes implements backend.Backend.
func (b *Backend) KVBytes(s backend.KVShape) int64 { return kvBytes(s) }

// NewKV implements backend.Backend. All weights are on the device then, so the
// staging buffers are given back.
func (b *Backend) NewKV(s backend.KVShape) (backend.KV, error) {
	switch {
	case s.HeadDim <= 0 || s.HeadDim%8 != 0 || s.HeadDim > kernels.MaxHeadDim:
		return nil, fmt.Errorf("cuda backend: heads of %d values are not supported, want a multiple of 8 up to %d", s.HeadDim, kernels.MaxHeadDim)
	case s.BlockSize <= 0 || s.BlockSize&(s.BlockSize-1) != 0:
		return nil, fmt.Errorf("cuda backend: blocks of %d positions are not supported, want a power of two", s.BlockSize)
	case int64(s.Blocks)*int64(s.BlockSize) > math.MaxInt32:
		return nil, fmt.Errorf("cuda backend: a cache of %d positions is too large, at most %d fit", int64(s.Blocks)*int64(s.BlockSize), math.MaxInt32)
	}
	c := &cache{shape: s}
	err := b.entered(func() error {
		if err := b.loading.close(); err != nil {
			return err
		}
		half := kvBytes(s) / 2
		for _, to := range []*uint64{&c.keys, &c.values} {
			p, err := b.zeros(half)
			if err != nil {
				return err
			}
			*to = uint64(p)
		}
		var err error
		if b.decodeScratch, err = b.zeros(b.kernels.DecodeScratch(s.HeadDim)); err != nil {
			return err
		}
		return b.makeRoomForLibrary()
	})
	if err != nil {
		return nil, fmt.Errorf("cuda backend: %d bytes for keys and values: %w", kvBytes(s), err)
	}
	b.blockSize = s.BlockSize
	return c, nil
}

// layer is one layer of the cache, for the kernels.
func (c *cache) layer(i int) kernels.CacheLayer {
	at := driver.Ptr(int64(i) * layerBytes(c.shape))
	return kernels.CacheLayer{Keys: driver.Ptr(c.keys) + at, Values: driver.Ptr(c.values) + at, BlockSize: c.shape.BlockSize}
}
