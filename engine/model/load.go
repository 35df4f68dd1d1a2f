package model

import (
	"fmt"
	"math"
	"strings"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// supported lists the architectures that Load knows, in the file's words.
var supported = [...]string{"llama", "qwen2", "qwen3", "gemma3"}

// Load makes the model of a file on a backend, which the model owns if there
// is no error. The file stays the caller's and must be open until the model is
// closed.
func Load(f *gguf.File, b backend.Backend) (Model, error) {
	architecture, err := f.Text("general.architecture")
	if err != nil {
		return nil, fmt.Errorf("model file: %w", err)
	}
	var load func(*gguf.File, backend.Backend) (Model, error)
	switch architecture {
	case "llama":
		load = newLlama
	case "qwen2":
		load = newQwen2
	case "qwen3":
		load = newQwen3
	case "gemma3":
		load = newGemma3
	default:
		return nil, fmt.Errorf("model file: general.architecture: %q is not supported; supported are: %s", architecture, strings.Join(supported[:], ", "))
	}
	if p, ok := b.(backend.Planner); ok {
		if err := p.Plan(f.Tensors); err != nil {
			return nil, fmt.Errorf("model file: %w", err)
		}
	}
	return load(f, b)
}

// A loader moves a file's tensors to the backend and checks their shapes. Its
// first error stays and makes the later calls return nil.
type loader struct {
	file    *gguf.File
	backend backend.Backend
	taken   map[string]bool
	err     error
}

func newLoader(f *gguf.File, b backend.Backend) *loader {
	return &loader{file: f, backend: b, taken: make(map[string]bool)}
}

// matrix loads a matrix that maps cols values to rows values.
func (l *loader) matrix(name string, rows, cols int) backend.Weight {
	return l.weight(name, []uint64{uint64(cols), uint64(rows)})
}

// vector loads n values.
func (l *loader) vector(name string, n int) backend.Weight {
	return l.weight(name, []uint64{uint64(n)})
}

// optionalVector is vector, or nil if the file has no such tensor.
func (l *loader) optionalVector(name string, n int) backend.Weight {
	if !l.has(name) {
		return nil
	}
	return l.vector(name, n)
}

func (l *loader) has(name string) bool {
	_, ok := l.file.Tensor(name)
	return ok
}

func (l *loader) weight(name string, shape []uint64) backend.Weight {
	t, ok := l.tensor(name, shape)
	if !ok {
		return nil
	}
	defer l.file.Unload(t)
	if err := gguf.Guard(t.CheckFinite); err != nil {
		l.err = fmt.Errorf("model file: tensor %q: %w: the file is damaged", name, err)
		return nil
	}
	w, err := l.backend.NewWeight(t)
	if err != nil {
		l.err = fmt.Errorf("model file: %w", err)
		return nil
	}
	return w
}

// tensor finds a tensor and checks its shape, given in the file's order.
func (l *loader) tensor(name string, shape []uint64) (gguf.Tensor, bool) {
	if l.err != nil {
		return gguf.Tensor{}, false
	}
	t, ok := l.file.Tensor(name)
	if !ok {
		l.err = fmt.Errorf("model file: tensor %q is missing, want shape %d: the file is damaged or of another architecture than it says", name, shape)
		return gguf.Tensor{}, false
	}
	if !sameShape(t.Shape, shape) {
		l.err = fmt.Errorf("model file: tensor %q has shape %d, want %d by the file's metadata", name, t.Shape, shape)
		return gguf.Tensor{}, false
	}
	l.taken[name] = true
	return t, true
}

// sameShape compares two shapes; trailing dimensions of 1 count for nothing.
func sameShape(a, b []uint64) bool {
	for i := range max(len(a), len(b)) {
		x, y := uint64(1), uint64(1)
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
}

// ropeFactors divides the frequencies by the file's rope_freqs tensor, if it
// has one: the position scaling of Llama 3.1 and later. Source: llama.cpp,
// ggml_rope_ext's freq_factors.
func (l *loader) ropeFactors(freqs []float32) {
	const name = "rope_freqs.weight"
	if !l.has(name) {
		return
	}
	t, ok := l.tensor(name, []uint64{uint64(len(freqs))})
	if !ok {
		return
	}
	factors := make([]float32, len(freqs))
	if err := gguf.Dequantize(factors, t.Data, t.Type); err != nil {
		l.err = fmt.Errorf("model file: tensor %q: %w", name, err)
		return
	}
	for i, factor := range factors {
		if !(factor > 0) || math.IsInf(float64(factor), 0) {
			l.err = fmt.Errorf("model file: tensor %q: element %d is %g, want a positive number", name, i, factor)
			return
		}
		freqs[i] /= factor
	}
}

// finish returns the first error, or one for a tensor that nobody took: the
// forward pass would not be the one that the file was made for.
func (l *loader) finish() error {
	if l.err != nil {
		return l.err
	}
	for _, t := range l.file.Tensors {
		if !l.taken[t.Name] {
			return fmt.Errorf("model file: tensor %q is not known to this architecture: a variant that is not supported", t.Name)
		}
	}
	return nil
}
