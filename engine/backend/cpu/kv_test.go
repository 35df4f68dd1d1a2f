package cpu

import (
	"fmt"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// TestCacheFillsItsBudget sizes a cache by KVBytes of one block, as the engine does, and
// sums what is mapped for it.
func TestCacheFillsItsBudget(t *testing.T) {
	const budget = 24 << 20
	for _, kvType := range []string{KVF16, KVQ8} {
		for _, dim := range []int{64, 80, 256} {
			t.Run(fmt.Sprint(kvType, " heads of ", dim), func(t *testing.T) {
				b, err := New(Options{Threads: 1, KVType: kvType})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				shape := backend.KVShape{Layers: 5, Blocks: 1, BlockSize: 16, Heads: 3, HeadDim: dim}
				shape.Blocks = int(budget / b.KVBytes(shape))
				kv, err := b.NewKV(shape)
				if err != nil {
					t.Fatal(err)
				}
				mapped := 0
				for _, region := range b.memory.regions {
					mapped += (len(region) + 4095) / 4096 * 4096
				}
				if mapped > budget || mapped < budget*95/100 {
					t.Errorf("%d bytes are mapped for a budget of %d", mapped, budget)
				}
				if kv.Bytes() != b.KVBytes(shape) || mapped-int(kv.Bytes()) > 2*4096 {
					t.Errorf("the cache says %d bytes and was announced with %d, %d are mapped", kv.Bytes(), b.KVBytes(shape), mapped)
				}
			})
		}
	}
}

// A q8_0 cache holds 32 values in 34 bytes.
func TestQuantizedCacheSize(t *testing.T) {
	b, err := New(Options{Threads: 1, KVType: KVQ8})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, c := range []struct {
		dim  int
		want int64 // of keys and values of one head's position
	}{{64, 2 * 68}, {32, 2 * 34}, {80, 2 * 102}, {8, 2 * 34}} {
		if got := b.KVBytes(backend.KVShape{Layers: 1, Blocks: 1, BlockSize: 1, Heads: 1, HeadDim: c.dim}); got != c.want {
			t.Errorf("heads of %d: %d bytes, want %d", c.dim, got, c.want)
		}
	}
}

// TestCacheRows expects every key and value of every head to have a row of its own in the
// cache, and the rows of neighbouring blocks to follow each other.
func TestCacheRows(t *testing.T) {
	const layers, heads, blockSize = 3, 2, 16
	for _, blocks := range []int{1, 15, 16, 17, 31, 40} {
		c := &cache{shape: backend.KVShape{Layers: layers, Blocks: blocks, BlockSize: blockSize, Heads: heads, HeadDim: 8}, region: 16}
		taken := make([]bool, layers*heads*2*blocks*blockSize)
		for i := range layers * heads * 2 {
			layer, head, h := i/2/heads, i/2%heads, half(i%2)
			for position := range blocks * blockSize {
				block, offset := position/blockSize, position%blockSize
				row := c.row(h, layer, block, head, offset)
				if row < 0 || row >= len(taken) || taken[row] {
					t.Fatalf("layer %d, head %d, half %d, position %d of %d blocks: row %d of %d is taken or none", layer, head, h, position, blocks, row, len(taken))
				}
				taken[row] = true
				if first, rows := c.extent(row); first != c.row(h, layer, block/16*16, head, 0) || rows != min(16, blocks-block/16*16)*blockSize {
					t.Errorf("layer %d, head %d, half %d, position %d of %d blocks: row %d is of %d from %d on", layer, head, h, position, blocks, row, rows, first)
				}
				if offset > 0 || block > 0 && c.neighbours(int32(block-1), int32(block)) {
					if before := c.row(h, layer, (position-1)/blockSize, head, (position-1)%blockSize); before != row-1 {
						t.Errorf("position %d of %d blocks: row %d after %d", position, blocks, row, before)
					}
				}
			}
		}
		if blocks == 40 && (!c.neighbours(3, 4) || c.neighbours(4, 3) || c.neighbours(3, 5) || c.neighbours(15, 16)) {
			t.Error("want 3, 4 to be neighbours; not 4, 3, nor 3, 5, nor 15, 16, where a region begins")
		}
	}
}
