package engine

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"block size":      {func(o *Options) { o.BlockSize = 20 }, "20 is not a power of two in 8 … 256; use 16 or 32"},
		"context":         {func(o *Options) { o.MaxModelLen = 65 }, "65 is more than the model's context of 64 tokens"},
		"budget":          {func(o *Options) { o.MaxNumBatchedTokens = 5000 }, "5000 is more than the 4096 rows"},
		"memory":          {func(o *Options) { o.KVCacheMemory = 1 }, "less than one block"},
		"memory and room": {func(o *Options) { o.KVCacheMemory, o.MaxModelLen = 32, 60 }, "give at least 64 bytes"},
	} {
		o := Default()
		c.change(&o)
		m := newToy()
		_, err := New(m, tokenizer.Bytes(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if m.closed.Load() != 1 {
			t.Errorf("%s: the model was closed %d times, want once", name, m.closed.Load())
		}
	}
}

// The prefix cache takes memory that costs nothing, and of the machine's little
// until it is missed.
func TestKeptBlocks(t *testing.T) {
	o := Options{MaxNumSeqs: 64}
	for _, c := range []struct {
		name  string
		shape model.Shape
		want  int
	}{
		{"machine", model.Shape{KVBytes: 1}, 64},
		{"device", model.Shape{KVBytes: 1, KVReserved: true}, 1000},
		{"simulated", model.Shape{}, 1000},
	} {
		if got := keptBlocks(c.shape, 1000, o); got != c.want {
			t.Errorf("%s: %d blocks are kept, want %d", c.name, got, c.want)
		}
	}
}
