package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/safetensors"
)

// views gives the folder's tensors under the names of a GGUF file, with the bytes
// as they are, in the order of their names: that of the folder's files is of no
// meaning.
func (a *architecture) views(w *weights, c *config) ([]gguf.Tensor, error) {
	var tensors []gguf.Tensor
	seen := make(map[string]bool)
	for _, t := range w.tensors {
		if ignored(t.Name) || t.Name == "lm_head.weight" && c.tied(a) {
			continue
		}
		name, ok := a.rename(t.Name)
		if !ok {
			return nil, fmt.Errorf("tensor %.80q has no place in the architecture %s: the model is a variant that is not supported", t.Name, a.name)
		}
		if seen[name] {
			return nil, fmt.Errorf("tensor %q is there twice", t.Name)
		}
		seen[name] = true
		g, err := view(t, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		tensors = append(tensors, g)
	}
	if !seen["output.weight"] && !c.tied(a) {
		return nil, fmt.Errorf("tensor %q is missing, and tie_word_embeddings does not say that the embedding takes its place", "lm_head.weight")
	}
	slices.SortFunc(tensors, func(x, y gguf.Tensor) int { return strings.Compare(x.Name, y.Name) })
	return tensors, c.checkRows(tensors)
}

// checkRows makes sure that vocab_size is the number of rows that are there, and
// fills it in where it is missing.
func (c *config) checkRows(tensors []gguf.Tensor) error {
	i := slices.IndexFunc(tensors, func(t gguf.Tensor) bool { return t.Name == "token_embd.weight" })
	if i < 0 || len(tensors[i].Shape) != 2 {
		return fmt.Errorf("tensor %q is missing, or no matrix", "model.embed_tokens.weight")
	}
	rows := tensors[i].Shape[1]
	switch {
	case rows > math.MaxInt32:
		return fmt.Errorf("tensor %q has %d rows", "model.embed_tokens.weight", rows)
	case c.VocabSize == nil:
		n := uint32(rows)
		c.VocabSize = &n
	case uint64(*c.VocabSize) != rows:
		return fmt.Errorf("vocab_size: %d, but tensor %q has %d rows", *c.VocabSize, "model.embed_tokens.weight", rows)
	}
	return nil
}

// view gives a tensor another name and the dimensions in GGUF's order, and
// leaves its bytes where they are.
func view(t safetensors.Tensor, name string) (gguf.Tensor, error) {
	g := gguf.Tensor{Name: name, Shape: slices.Clone(t.Shape), Data: t.Data}
	switch t.Type {
	case "F32":
		g.Type = gguf.F32
	case "F16":
		g.Type = gguf.F16
	case "BF16":
		g.Type = gguf.BF16
	default:
		return g, fmt.Errorf("dtype %s is not supported; supported are BF16, F16 and F32", t.Type)
	}
	if len(g.Shape) != 1 && len(g.Shape) != 2 || len(t.Data) == 0 {
		return g, fmt.Errorf("shape %d is neither a vector nor a matrix", t.Shape)
	}
	slices.Reverse(g.Shape)
	return g, nil
}

// changeAll changes what must be changed, some tensors at once.
func (a *architecture) changeAll(tensors []gguf.Tensor, c *config, o Options) error {
	faults := make([]error, len(tensors))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range max(o.Workers, 1) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tensors); i = int(next.Add(1)) - 1 {
				faults[i] = a.change(&tensors[i], c, o)
			}
		})
	}
	wait.Wait()
	for i, err := range faults {
		if err != nil {
			return fmt.Errorf("tensor %q: %w", tensors[i].Name, err)
		}
	}
	return nil
}

// change makes a tensor what a converter makes of it.
func (a *architecture) change(t *gguf.Tensor, c *config, o Options) error {
	if a.interleaved {
		if err := interleave(t, c); err != nil {
			return err
		}
	}
	switch {
	case len(t.Shape) == 1:
		return a.vector(t)
	case o.Quantize != nil && t.Shape[0]%uint64(gguf.Q8_0.BlockLen()) == 0:
		return quantize(t)
	}
	return nil
}

// vector makes a vector float32, as its few values are used.
func (a *architecture) vector(t *gguf.Tensor) error {
	values := make([]float32, t.Shape[0])
	if err := gguf.Dequantize(values, t.Data, t.Type); err != nil {
		return err
	}
	if a.normPlusOne && strings.HasSuffix(t.Name, "norm.weight") {
		for i := range values {
			values[i]++
		}
	}
	if t.Type == gguf.F32 && !a.normPlusOne {
		return nil
	}
	t.Type, t.Data = gguf.F32, make([]byte, 0, 4*len(values))
	for _, x := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return nil
}

// quantize converts a matrix row by row.
func quantize(t *gguf.Tensor) error {
	cols := t.Shape[0]
	from, to := t.Type.RowBytes(cols), gguf.Q8_0.RowBytes(cols)
	values, data := make([]float32, cols), make([]byte, t.Shape[1]*to)
	for row := range t.Shape[1] {
		if err := gguf.Dequantize(values, t.Data[row*from:(row+1)*from], t.Type); err != nil {
			return err
		}
		if err := gguf.QuantizeQ8_0(data[row*to:(row+1)*to], values); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
	t.Type, t.Data = gguf.Q8_0, data
	return nil
}

// interleave puts the rows of queries and keys, and the values of their biases,
// into the order of a rope that rotates neighbours: of a head's d rows, row j and
// row j+d/2 become rows 2j and 2j+1. Source: LlamaModel.permute in llama.cpp's
// convert_hf_to_gguf.py.
func interleave(t *gguf.Tensor, c *config) error {
	if !strings.Contains(t.Name, ".attn_q.") && !strings.Contains(t.Name, ".attn_k.") {
		return nil
	}
	rows := t.Shape[len(t.Shape)-1] // of a bias, its values
	d := uint64(c.headDim())
	if d == 0 || d%2 != 0 || rows%d != 0 {
		return fmt.Errorf("%d rows cannot be cut into heads of %d, or these into halves", rows, d)
	}
	size := uint64(len(t.Data)) / rows
	data := make([]byte, 0, len(t.Data))
	for head := uint64(0); head < rows; head += d {
		for j := range d / 2 {
			for _, row := range []uint64{head + j, head + j + d/2} {
				data = append(data, t.Data[row*size:(row+1)*size]...)
			}
		}
	}
	t.Data = data
	return nil
}
