package cpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

func TestStepsDoNotAllocate(t *testing.T) {
	files := map[string]*gguf.File{"quantised": backendtest.TinyFile(t)}
	for _, name := range []string{"llama", "qwen2", "qwen3", "gemma3"} {
		metadata, tensors := backendtest.TinyFloat(name)
		files[name] = backendtest.File(t, metadata, tensors)
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) { testStepsDoNotAllocate(t, file) })
	}
}

func testStepsDoNotAllocate(t *testing.T, file *gguf.File) {
	for _, threads := range []int{1, 2} {
		m := backendtest.Load(t, file, open(t, threads, kernels.Best()))
		if err := m.Reserve(40, 16); err != nil {
			t.Fatal(err)
		}
		var next int32
		prompt, long, short := &backend.Batch{}, backendtest.Blocks(&next, 400, 16), backendtest.Blocks(&next, 70, 16)
		backendtest.Append(prompt, make([]int32, 70), 0, short, 16)
		prompt.Sample = []int32{69}
		decode := &backend.Batch{Sample: []int32{0, 1}}
		backendtest.Append(decode, []int32{1}, 399, long, 16)
		backendtest.Append(decode, []int32{2}, 50, short, 16)
		for _, c := range []struct {
			name  string
			batch *backend.Batch
		}{{"prompt", prompt}, {"decode", decode}} {
			n := testing.AllocsPerRun(20, func() {
				if _, err := m.Forward(c.batch); err != nil {
					t.Error(err)
				}
			})
			if n != 0 {
				t.Errorf("%s with %d threads: %v allocations a step, want none", c.name, threads, n)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		options cpu.Options
		want    []string // parts of the error; none: no error
	}{
		{"defaults", cpu.Options{}, nil},
		{"generic", cpu.Options{Level: "generic", Threads: 1, MaxRows: 1}, nil},
		{"all wrong", cpu.Options{Threads: -1, MaxRows: 1 << 30, Level: "sse"}, []string{"threads: -1", "max rows: 1073741824", `"sse"`, "generic, avx2"}},
	} {
		b, err := cpu.New(c.options)
		if err == nil {
			err = b.Close()
		}
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q lacks %q", c.name, err, part)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	b, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Name(), "cpu "+kernels.Best().String()+", 1 thread"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	if b.MaxRows() != 512 {
		t.Errorf("max rows %d, want 512", b.MaxRows())
	}
	for range 2 { // closing again does nothing
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTooManyThreadsAreWarnedOf(t *testing.T) {
	var log bytes.Buffer
	b, err := cpu.New(cpu.Options{Threads: runtime.GOMAXPROCS(0) + 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "cores=") {
		t.Errorf("log %q, want a warning with the number of cores", log.String())
	}
}

// A weight that cannot be right is refused with its name and where it is wrong.
func TestDamagedWeights(t *testing.T) {
	b := open(t, 2, kernels.Best())
	defer b.Close()
	data := make([]byte, 34*2*600)
	binary.LittleEndian.PutUint16(data[34*2*577:], 0x7c00) // infinity, the scale of row 577
	for _, c := range []struct {
		tensor gguf.Tensor
		want   []string
	}{
		{gguf.Tensor{Name: "a", Type: gguf.Q8_0, Shape: []uint64{64, 600}, Data: data}, []string{`"a"`, "not finite", "damaged"}},
		{gguf.Tensor{Name: "b", Type: 16, Shape: []uint64{256, 2}, Data: make([]byte, 2*66)}, []string{`"b"`, "IQ2_XXS"}},
	} {
		_, err := b.NewWeight(c.tensor)
		if err == nil {
			t.Errorf("tensor %q: no error, want one with %q", c.tensor.Name, c.want)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("tensor %q: error %q lacks %q", c.tensor.Name, err, part)
			}
		}
	}
}

// A file that is truncated while it is loaded is an error, whichever thread reads it.
func TestTornWeights(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the file is not mapped here, or the fault is another")
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	const cols, rows = 4096, 512
	var tensors []gguf.Tensor
	for _, c := range []struct {
		name  string
		dtype gguf.DType
		shape []uint64
	}{{"packed", gguf.Q8_0, []uint64{cols, rows}}, {"floats", gguf.F32, []uint64{cols, rows}}, {"vector", gguf.F32, []uint64{cols * rows}}} {
		size := uint64(1)
		for _, n := range c.shape[1:] {
			size *= n
		}
		tensors = append(tensors, gguf.Tensor{Name: c.name, Type: c.dtype, Shape: c.shape, Data: make([]byte, size*c.dtype.RowBytes(c.shape[0]))})
	}
	var file bytes.Buffer
	if err := gguf.Write(&file, nil, tensors); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	b := open(t, 2, kernels.Best())
	defer b.Close()
	for _, tensor := range f.Tensors {
		f.Unload(tensor)
		if _, err := b.NewWeight(tensor); !errors.Is(err, gguf.ErrTorn) || !strings.Contains(err.Error(), tensor.Name) {
			t.Errorf("tensor %q of a file that was truncated: error %v, want ErrTorn with the name", tensor.Name, err)
		}
	}
}

func TestCacheSize(t *testing.T) {
	b := open(t, 1, kernels.Best())
	defer b.Close()
	shape := backend.KVShape{Layers: 3, Blocks: 5, BlockSize: 16, Heads: 2, HeadDim: 64}
	const want = 2 * 3 * 5 * 16 * 2 * 64 * 2 // keys and values, float16
	kv, err := b.NewKV(shape)
	if err != nil {
		t.Fatal(err)
	}
	if kv.Bytes() != want || b.KVBytes(shape) != want {
		t.Errorf("the cache has %d bytes and was announced with %d, want %d", kv.Bytes(), b.KVBytes(shape), want)
	}
	for _, c := range []struct {
		name  string
		shape backend.KVShape
		want  string
	}{
		{"odd head", backend.KVShape{Layers: 1, Blocks: 1, BlockSize: 16, Heads: 1, HeadDim: 63}, "multiple of 8"},
		{"too many positions", backend.KVShape{Layers: 1, Blocks: 1 << 28, BlockSize: 16, Heads: 1, HeadDim: 8}, "4294967296 positions"},
		{"more than there is", backend.KVShape{Layers: 1 << 12, Blocks: 1 << 26, BlockSize: 16, Heads: 1 << 10, HeadDim: 128}, "bytes for keys and values"},
	} {
		if _, err := b.NewKV(c.shape); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
