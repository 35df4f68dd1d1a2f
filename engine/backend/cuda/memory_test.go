//go:build cuda && cgo && linux

package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/engine/model"
)

// TestOutOfMemory: what is asked, what there is and what to do, wherever memory ends;
// where it is not the model's end, the next step goes well.
func TestOutOfMemory(t *testing.T) {
	fault := func(t *testing.T, err error, want ...string) {
		t.Helper()
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v, want one with %q", err, part)
			}
		}
	}
	t.Run("planned", func(t *testing.T) {
		emulator(t, "memory=9M")
		b := openWith(t, cuda.Options{Utilization: 0.5})
		defer b.Close()
		_, err := model.Load(backendtest.TinyFile(t), b)
		if err == nil { // the model is small
			_, err = b.NewKV(backend.KVShape{Layers: 30, Blocks: 64, BlockSize: 16, Heads: 3, HeadDim: 64})
		}
		fault(t, err, "gpu_memory_utilization 0.5", "left")
	})
	t.Run("another process takes it while weights load", func(t *testing.T) {
		lib := emulator(t, "")
		b := open(t)
		defer b.Close()
		if err := lib.Configure("alloc=1"); err != nil {
			t.Fatal(err)
		}
		_, err := model.Load(backendtest.TinyFile(t), b)
		fault(t, err, "weights", "CUDA_ERROR_OUT_OF_MEMORY", "asked", "free")
	})
	t.Run("for the cache", func(t *testing.T) {
		lib := emulator(t, "")
		m, err := model.Load(backendtest.TinyFile(t), open(t))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := lib.Configure("memory=1M"); err != nil {
			t.Fatal(err)
		}
		fault(t, m.Reserve(100000, 16), "keys and values", "asked", "free")
	})
	t.Run("in a step", func(t *testing.T) {
		lib := emulator(t, "")
		m := load(t, backendtest.TinyFile(t), open(t))
		if err := lib.Configure("alloc=1"); err != nil {
			t.Fatal(err)
		}
		batch := decodeBatch(1, 0)
		_, err := m.Forward(batch)
		fault(t, err, "step", "CUDA_ERROR_OUT_OF_MEMORY", "asked")
		if errors.Is(err, backend.ErrLost) {
			t.Errorf("error %v is said to be of a lost device", err)
		}
		forward(t, m, batch)
	})
}

// TestCacheMemory: the cache may take what the budget has left, and no more.
func TestCacheMemory(t *testing.T) {
	emulator(t, "memory=1G")
	b := openWith(t, cuda.Options{Utilization: 0.5})
	defer b.Close()
	left := b.(backend.Sizer).KVMemory()
	if left <= 0 || left > 1<<29 {
		t.Fatalf("%d bytes for the cache, want some of 512 MiB", left)
	}
	one := backend.KVShape{Layers: 1, Blocks: 1, BlockSize: 16, Heads: 2, HeadDim: 64}
	one.Blocks = int(left / b.KVBytes(one))
	kv, err := b.NewKV(one)
	if err != nil {
		t.Fatalf("a cache of what is said to be left: %v", err)
	}
	if kv.Bytes() != b.KVBytes(one) {
		t.Errorf("a cache of %d bytes, announced with %d", kv.Bytes(), b.KVBytes(one))
	}
	one.Blocks = 100000
	if _, err := b.NewKV(one); err == nil || !strings.Contains(err.Error(), "left") {
		t.Errorf("another one: error %v, want that there is no memory left", err)
	}
}

// TestProgress: bytes are told as they get there, up to what Plan announced.
func TestProgress(t *testing.T) {
	emulator(t, "")
	var told, totals []int64
	b := openWith(t, cuda.Options{Progress: func(done, total int64) { told, totals = append(told, done), append(totals, total) }})
	m, err := model.Load(backendtest.TinyFile(t), b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(told) == 0 || !slices.IsSorted(told) || told[len(told)-1] != totals[0] || slices.Max(totals) != totals[0] {
		t.Errorf("told %d of %d", told, totals)
	}
}

// TestRefusals: what can't be opened or made says why.
func TestRefusals(t *testing.T) {
	emulator(t, "")
	for want, o := range map[string]cuda.Options{
		`"q8_0" is not supported on CUDA: use f16, or --device cpu`: {KVType: "q8_0"},
		"utilization: 1.5": {Utilization: 1.5},
		"max rows: -1":     {MaxRows: -1},
		"device 7 does not exist: the driver shows 1": {Ordinal: 7},
	} {
		o.Driver = driverPath(t)
		if b, err := cuda.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open with %+v: %v, %v; want an error with %q", o, b, err, want)
		}
	}
	b := open(t)
	defer b.Close()
	for want, s := range map[string]backend.KVShape{
		"heads of 63 values":    {Layers: 1, Blocks: 1, BlockSize: 16, Heads: 1, HeadDim: 63},
		"heads of 264 values":   {Layers: 1, Blocks: 1, BlockSize: 16, Heads: 1, HeadDim: 264},
		"blocks of 24 position": {Layers: 1, Blocks: 1, BlockSize: 24, Heads: 1, HeadDim: 64},
		"4294967296 positions":  {Layers: 1, Blocks: 1 << 28, BlockSize: 16, Heads: 1, HeadDim: 8},
	} {
		if _, err := b.NewKV(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a cache of %+v: error %v, want one with %q", s, err, want)
		}
	}
}
