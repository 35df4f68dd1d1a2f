package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

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

// changeAll makes the tensors what a converter makes of them, some at once.
// Memory that they are put into is w's.
func (a *architecture) changeAll(tensors []gguf.Tensor, w *weights, c *config, o Options) error {
	releases := make([][]func() error, len(tensors))
	defer func() { w.releases = slices.Concat(w.releases, slices.Concat(releases...)) }()
	return gguf.Each(tensors, o.Workers, func(i int, t *gguf.Tensor) error {
		free := func() error { return nil }
		source := t.Data
		if a.interleaved && (strings.Contains(t.Name, ".attn_q.") || strings.Contains(t.Name, ".attn_k.")) {
			release, err := interleave(t, c)
			if err != nil {
				return err
			}
			releases[i], free = append(releases[i], release), release
			gguf.Forget(source)
		}
		if len(t.Shape) == 1 {
			return a.vector(t)
		}
		if !o.Quantize {
			return nil
		}
		release, err := t.Quantize()
		if err != nil || release == nil {
			return err
		}
		releases[i] = append(releases[i], release)
		gguf.Forget(source)
		return free() // what was interleaved, and is read no more
	})
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

// interleave puts the rows of queries and keys, and the values of their biases,
// into the order of a rope that rotates neighbours: of a head's d rows, row j and
// row j+d/2 become rows 2j and 2j+1. Source: LlamaModel.permute in llama.cpp's
// convert_hf_to_gguf.py.
func interleave(t *gguf.Tensor, c *config) (release func() error, err error) {
	rows := t.Shape[len(t.Shape)-1] // of a bias, its values
	d := uint64(c.headDim())
	if d == 0 || d%2 != 0 || rows%d != 0 {
		return nil, fmt.Errorf("%d rows cannot be cut into heads of %d, or these into halves", rows, d)
	}
	data, release, err := gguf.Memory(uint64(len(t.Data)))
	if err != nil {
		return nil, err
	}
	size := uint64(len(t.Data)) / rows
	to := data
	for head := uint64(0); head < rows; head += d {
		for j := range d / 2 {
			for _, row := range []uint64{head + j, head + j + d/2} {
				copy(to, t.Data[row*size:(row+1)*size])
				to = to[size:]
			}
		}
	}
	t.Data = data
	return release, nil
}
