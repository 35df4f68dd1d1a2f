package engine

import (
	"strings"
	"testing"

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
