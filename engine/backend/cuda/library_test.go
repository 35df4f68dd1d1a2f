//go:build cuda && cgo && linux

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	half "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// sixteenBit is a backend whose matrices become BF16 or F16 as they come, as if the file
// had them so; to F32, they stay as they are.
type sixteenBit struct {
	backend.Backend
	to gguf.DType
}

func (s sixteenBit) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	if len(t.Shape) < 2 || s.to == gguf.F32 {
		return s.Backend.NewWeight(t)
	}
	values := make([]float32, t.Elements())
	if err := gguf.Dequantize(values, t.Data, t.Type); err != nil {
		return nil, err
	}
	data := make([]byte, 0, 2*len(values))
	for _, v := range values {
		bits := uint16(math.Float32bits(v) >> 16) // cut off: what matters is that all have the same
		if s.to == gguf.F16 {
			bits = half.F16FromF32(v)
		}
		data = binary.LittleEndian.AppendUint16(data, bits)
	}
	return s.Backend.NewWeight(gguf.Tensor{Name: t.Name, Type: s.to, Shape: t.Shape, Data: data})
}

// withLibrary are options with cuBLASLt: the emulated one, or the host's.
func withLibrary(t *testing.T) cuda.Options {
	t.Helper()
	path, _ := emu.LibraryPath(driverPath(t))
	return cuda.Options{CuBLASLt: cuda.CuBLASLtOn, CuBLASLtPath: path}
}

// prompt is a step of so many rows of one sequence from a position on, with logits of
// all.
func prompt(rows, position int) *backend.Batch {
	b := &backend.Batch{}
	tokens := make([]int32, rows)
	for i := range tokens {
		tokens[i] = int32((7*i + 3*position) % 101)
		b.Sample = append(b.Sample, int32(i))
	}
	backendtest.Append(b, tokens, position, backendtest.Blocks(new(int32), position+rows, 16), 16)
	return b
}

// apart is the largest difference of two rows of numbers, measured as backendtest does:
// by the size of the number and the root mean square of all.
func apart(got, want []float32) float64 {
	worst, square := 0.0, 0.0
	for _, w := range want {
		square += float64(w) * float64(w)
	}
	rms := math.Sqrt(square / float64(len(want)))
	for i, w := range want {
		d := math.Abs(float64(got[i])-float64(w)) / (rms + math.Abs(float64(w)))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		worst = max(worst, d)
	}
	return worst
}

// TestLibraryComputesWhatKernelsDo: logits of prompts with cuBLASLt and without, and
// those of float32, for models with every kind of product; and that it was the library
// which multiplied, in steps of more than 64 rows alone.
func TestLibraryComputesWhatKernelsDo(t *testing.T) {
	for _, c := range []struct {
		model string
		calls int // of a layer: the output of wide heads has rows of 144, which are float32 on a device
	}{{"llama", 7}, {"qwen2", 7}, {"qwen3", 6}, {"gemma3", 6}} {
		for _, to := range []gguf.DType{gguf.BF16, gguf.F16} {
			t.Run(fmt.Sprintf("%s, %v", c.model, to), func(t *testing.T) {
				lib := emulator(t, "")
				file := tinyFile(t, c.model)
				with := load(t, file, sixteenBit{openWith(t, withLibrary(t)), to})
				without := load(t, file, sixteenBit{cuda.NormsApart(open(t)), to})
				reference := load(t, file, sixteenBit{backendtest.NewReference(backendtest.MaxRows), to})
				at := 0
				for _, step := range []struct{ rows, calls int }{{77, tinyLayers * c.calls}, {64, 0}, {1, 0}, {65, tinyLayers * c.calls}} {
					before := lib.Counter("library_calls")
					got := slices.Clone(forward(t, with, prompt(step.rows, at)))
					if n := int(lib.Counter("library_calls") - before); n != step.calls {
						t.Errorf("%d rows: %d products by the library, want %d", step.rows, n, step.calls)
					}
					ours := slices.Clone(forward(t, without, prompt(step.rows, at)))
					want := forward(t, reference, prompt(step.rows, at))
					// Of BF16, both round the same x to as many bits. Their sums have different orders, so that a
					// value in the next layer is now and then rounded the other way: less than the
					// distance of either from float32. Of F16 only the library has all bits, and
					// rounds x to more.
					d, limit := apart(got, ours), tolerance.Model
					if to == gguf.BF16 {
						limit /= 4
					}
					if d > limit || step.calls == 0 && at == 0 && d != 0 {
						t.Errorf("%d rows at %d: %.4f apart from our kernels, want %g", step.rows, at, d, limit)
					}
					limit = tolerance.Model
					if to == gguf.F16 && at == 0 {
						limit /= 4
					}
					if d := apart(got, want); d > limit {
						t.Errorf("%d rows at %d: %.4f apart from float32, want %g", step.rows, at, d, limit)
					}
					at += step.rows
				}
				if report := lib.Report(); report != "" {
					t.Error(report)
				}
			})
		}
	}
}

// TestLibraryLeavesOthers: quantised weights, and mixed ones, stay with our kernels; a
// model without weights for it takes no memory for it.
func TestLibraryLeavesOthers(t *testing.T) {
	lib := emulator(t, "")
	metadata, tensors := backendtest.TinyLlama()
	file := backendtest.File(t, metadata, tensors)
	before := lib.Counter("library_calls")
	got := slices.Clone(forward(t, load(t, file, openWith(t, withLibrary(t))), prompt(77, 0)))
	want := forward(t, load(t, file, open(t)), prompt(77, 0))
	// The types of its second layer: queries F16, keys BF16, values F32; the others are
	// quantised.
	if n := lib.Counter("library_calls") - before; n != 0 || !slices.Equal(got, want) {
		t.Errorf("%d products by the library, logits %.4f apart; want none, and the same", n, apart(got, want))
	}
	file = tinyFile(t, "llama") // float32
	left := func(o cuda.Options, to gguf.DType) (bytes int64) {
		t.Run(fmt.Sprintf("%v, cublaslt %s", to, o.CuBLASLt), func(t *testing.T) { // which gives the memory back
			b := openWith(t, o)
			backendtest.Load(t, file, sixteenBit{b, to})
			bytes = b.(backend.Sizer).KVMemory()
		})
		return bytes
	}
	if with, without := left(withLibrary(t), gguf.F32), left(cuda.Options{}, gguf.F32); with != without {
		t.Errorf("%d bytes left for the cache with cuBLASLt and weights of float32, %d without", with, without)
	}
	if with, without := left(withLibrary(t), gguf.BF16), left(cuda.Options{}, gguf.BF16); without-with < 32<<20 {
		t.Errorf("%d bytes left for the cache with cuBLASLt and weights of BF16, %d without", with, without)
	}
}

// TestLibraryStep: from the second on, a step of a known number of rows takes no memory,
// of Go or of the device.
func TestLibraryStep(t *testing.T) {
	emulator(t, "")
	m := load(t, tinyFile(t, "qwen2"), sixteenBit{openWith(t, withLibrary(t)), gguf.BF16})
	batch := prompt(70, 0)
	batch.Sample = batch.Sample[68:]
	forward(t, m, batch)
	got := counted(t, func() { forward(t, m, batch) })
	for name, want := range map[string]int{"graph_launches": 0, "copies": 2, "synchronous_copies": 0, "allocations": 0, "pinned_allocations": 0, "captures": 0} {
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
	if n := testing.AllocsPerRun(3, func() { forward(t, m, batch) }); n != 0 {
		t.Errorf("%v Go allocations a step, want none", n)
	}
}

// logger keeps a log as text.
func logger() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

// TestLibraryIsChosen: what the log says of each choice, and that only on is an error
// where there is no library.
func TestLibraryIsChosen(t *testing.T) {
	emulator(t, "")
	library, emulated := emu.LibraryPath(driverPath(t))
	if !emulated {
		t.Skip("needs the emulated cuBLASLt")
	}
	const nobody = "libcublasLt-of-nobody.so.13"
	for _, c := range []struct {
		choice, path, faults string
		logged               []string
		wrong                []string
	}{
		{"", library, "", []string{"level=INFO", "kernels of this program", "cublaslt=off"}, nil},
		{"off", library, "", []string{"kernels of this program"}, nil},
		{"auto", library, "", []string{"cuBLASLt 12.8.4", "library=" + library, "more than 64"}, nil},
		{"on", library, "", []string{"cuBLASLt 12.8.4", "cublaslt=on"}, nil},
		{"auto", nobody, "", []string{"level=INFO", "kernels of this program", nobody, "pip install"}, nil},
		{"on", nobody, "", nil, []string{"cublaslt: on: ", nobody, "pip install", "--cublaslt off"}},
		{"auto", library, "version=111103", []string{"too old", "11.11.3"}, nil},
		{"on", library, "version=111103", nil, []string{"cublaslt: on: ", "too old", "12.0.0 or later"}},
		{"auto", library, "create=3", []string{"level=WARN", "kernels of this program", "CUBLAS_STATUS_ALLOC_FAILED"}, nil},
		{"on", library, "create=3", nil, []string{"cublasLtCreate", "CUBLAS_STATUS_ALLOC_FAILED"}},
		{"perhaps", library, "", nil, []string{`cublaslt: "perhaps" is not one of off, auto and on`}},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.choice, c.path[strings.LastIndex(c.path, "/")+1:], c.faults), func(t *testing.T) {
			t.Setenv("CUBLASLT_EMU", c.faults)
			log, text := logger()
			b, err := cuda.Open(cuda.Options{Driver: driverPath(t), CuBLASLt: c.choice, CuBLASLtPath: c.path, Logger: log})
			if (err == nil) != (c.wrong == nil) {
				t.Fatalf("error %v", err)
			}
			for _, part := range c.wrong {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			for _, part := range c.logged {
				if !strings.Contains(text.String(), part) {
					t.Errorf("the log lacks %q: %s", part, text)
				}
			}
			if err == nil {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLibraryHasNoKernel: a product that it has no kernel for is ours, in the same bits,
// and said once.
func TestLibraryHasNoKernel(t *testing.T) {
	for faults, calls := range map[string]int{
		"heuristic=15":    0,
		"heuristic=7":     0,
		"unsupported=256": 5 * tinyLayers, // gate and up
	} {
		t.Run(faults, func(t *testing.T) {
			lib := emulator(t, "")
			t.Setenv("CUBLASLT_EMU", faults)
			log, text := logger()
			o := withLibrary(t)
			o.Logger = log
			file := tinyFile(t, "llama")
			m := load(t, file, sixteenBit{openWith(t, o), gguf.BF16})
			before := lib.Counter("library_calls")
			got := slices.Clone(forward(t, m, prompt(70, 0)))
			if n := int(lib.Counter("library_calls") - before); n != calls {
				t.Errorf("%d products by the library, want %d", n, calls)
			}
			want := forward(t, load(t, file, sixteenBit{open(t), gguf.BF16}), prompt(70, 0))
			if calls == 0 && !slices.Equal(got, want) || apart(got, want) > tolerance.Model {
				t.Errorf("logits are %.4f apart from those of our kernels", apart(got, want))
			}
			warnings := strings.Count(text.String(), "level=WARN")
			forward(t, m, prompt(70, 0))
			if again := strings.Count(text.String(), "level=WARN"); warnings == 0 || again != warnings {
				t.Errorf("%d warnings after a step, %d after two: %s", warnings, again, text)
			}
			if calls > 0 && (warnings != 1 || !strings.Contains(text.String(), "70 rows × [256, 96]ᵀ of BF16") || !strings.Contains(text.String(), "gated product with blk.0.ffn_gate.weight") || !strings.Contains(text.String(), "CUBLAS_STATUS_NOT_SUPPORTED")) {
				t.Errorf("%d warnings: %s", warnings, text)
			}
		})
	}
}

// TestLibraryFails: a step whose product fails names operation, shape and status, and
// the next step is not touched by it.
func TestLibraryFails(t *testing.T) {
	emulator(t, "")
	m := load(t, tinyFile(t, "llama"), sixteenBit{openWith(t, withLibrary(t)), gguf.BF16})
	want := slices.Clone(forward(t, m, prompt(70, 0)))
	t.Setenv("CUBLASLT_EMU", "matmul=13")
	_, err := m.Forward(prompt(70, 0))
	for _, part := range []string{"of 70 rows", "product with blk.0.attn_q.weight", "70 rows × [96, 96]ᵀ of BF16", "cublasLtMatmul", "CUBLAS_STATUS_EXECUTION_FAILED"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
	t.Setenv("CUBLASLT_EMU", "")
	if got := forward(t, m, prompt(70, 0)); !slices.Equal(got, want) {
		t.Errorf("the next step's logits are %.4f apart", apart(got, want))
	}
}

// TestLibraryOnRealModel: SmolLM2 in BF16, a prompt of 96 tokens.
func TestLibraryOnRealModel(t *testing.T) {
	if os.Getenv("WASMETER_MODEL_TESTS") == "" {
		t.Skip("takes a minute on the emulated driver: `make model cuda-test` runs it")
	}
	lib := emulator(t, "")
	ids := slices.Concat(readGolden(t)[0].IDs, readGolden(t)[1].IDs)
	for len(ids) < 96 {
		ids = append(ids, ids...)
	}
	batch := &backend.Batch{}
	backendtest.Append(batch, ids[:96], 0, backendtest.Blocks(new(int32), 96, 16), 16)
	for i := range 96 {
		batch.Sample = append(batch.Sample, int32(i))
	}
	logits := func(o cuda.Options) []float32 {
		o.MaxRows = 96
		var m model.Model = loadReal(t, sixteenBit{openWith(t, o), gguf.BF16})
		return slices.Clone(forward(t, m, batch))
	}
	want := logits(cuda.Options{})
	before := lib.Counter("library_calls")
	got := logits(withLibrary(t))
	if n := lib.Counter("library_calls") - before; n != 30*7 {
		t.Errorf("%d products by the library, want 7 of each of 30 layers", n)
	}
	d, same := apart(got, want), 0
	const vocab = 49152
	for i := range 96 {
		if argmax(got[i*vocab:][:vocab]) == argmax(want[i*vocab:][:vocab]) {
			same++
		}
	}
	t.Logf("logits are %.4f apart; the best token is the same for %d of 96", d, same)
	if d > tolerance.Model || same < 90 {
		t.Errorf("logits are %.4f apart, want %g; the best token is the same for %d of 96, want 90", d, tolerance.Model, same)
	}
}
