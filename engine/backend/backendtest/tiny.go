package backendtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// The dimensions of TinyLlama. No count of rows is a multiple of 16 that need
// not be one.
const (
	tinyVocab   = 101
	tinyWidth   = 96
	tinyHidden  = 256
	tinyHeads   = 6
	tinyKVHeads = 2
	tinyHeadDim = 16
)

// layerTypes are the types of a layer's seven matrices, in the order of
// tinyMatrices.
type layerTypes [7]gguf.DType

// TinyLlama returns the parts of a model file of the Llama architecture with
// random weights of many types, for gguf.Write.
func TinyLlama() ([]gguf.KeyValue, []gguf.Tensor) {
	return tiny("llama", gguf.Q8_0,
		layerTypes{gguf.Q4_1, gguf.Q4_0, gguf.Q8_0, gguf.Q4_1, gguf.Q4_1, gguf.Q4_1, gguf.Q6_K},
		layerTypes{gguf.F16, gguf.BF16, gguf.F32, gguf.Q4_0, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1})
}

// TinyFloat returns the parts of a model file of some architecture with random
// float32 weights, which any engine computes alike. Of these names, llama3 is
// the architecture llama with the stretched positions of Llama 3.1 and later,
// gemma3-4b has those of Gemma 3's larger models, and gemma3-27b has the many
// layers by which the largest is known.
func TinyFloat(name string) ([]gguf.KeyValue, []gguf.Tensor) {
	layers := 4
	if name == "gemma3-27b" {
		layers = 62
	}
	return tiny(name, gguf.F32, make([]layerTypes, layers)...)
}

// tinyShape is what the tiny models of the architectures differ in.
type tinyShape struct {
	architecture string
	headDim      int
	metadata     map[string]any // keys without the architecture
	vectors      map[string]int // of a layer, with their lengths
	bias         bool           // of q, k and v
	stretch      bool           // positions are stretched by factors
}

func tinyShapeOf(name string) tinyShape {
	const wide = 24 // heads that are not width/heads long
	switch name {
	case "llama":
		return tinyShape{architecture: "llama", headDim: tinyHeadDim}
	case "llama3":
		return tinyShape{architecture: "llama", headDim: tinyHeadDim, stretch: true}
	case "qwen2":
		return tinyShape{architecture: "qwen2", headDim: tinyHeadDim, bias: true, metadata: map[string]any{"rope.freq_base": float32(1e6)}}
	case "qwen3":
		return tinyShape{architecture: "qwen3", headDim: wide, vectors: map[string]int{"attn_q_norm": wide, "attn_k_norm": wide}}
	case "gemma3", "gemma3-4b", "gemma3-27b":
		s := tinyShape{
			architecture: "gemma3", headDim: wide,
			// Windows end inside the tests' prompts.
			metadata: map[string]any{"attention.sliding_window": uint32(7), "rope.freq_base": float32(1e6)},
			vectors:  map[string]int{"attn_q_norm": wide, "attn_k_norm": wide, "post_attention_norm": tinyWidth, "post_ffw_norm": tinyWidth},
		}
		if name != "gemma3-27b" {
			s.metadata["attention.sliding_window_pattern"] = uint32(2) // else six, of which there are too few layers
		}
		if name == "gemma3-4b" {
			s.metadata["rope.scaling.type"], s.metadata["rope.scaling.factor"] = "linear", float32(8)
		}
		return s
	}
	panic("backendtest: no tiny model " + name)
}

func tiny(name string, embedding gguf.DType, layers ...layerTypes) ([]gguf.KeyValue, []gguf.Tensor) {
	shape := tinyShapeOf(name)
	rng := rand.New(rand.NewPCG(3, 4))
	q, kv := uint64(tinyHeads*shape.headDim), uint64(tinyKVHeads*shape.headDim)
	tensors := []gguf.Tensor{
		randomTensor(rng, "token_embd.weight", embedding, 1, tinyWidth, tinyVocab),
		randomTensor(rng, "output_norm.weight", gguf.F32, 0.3, tinyWidth),
	}
	if shape.stretch {
		factors := gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []uint64{uint64(shape.headDim / 2)}}
		for i := range shape.headDim / 2 {
			factors.Data = binary.LittleEndian.AppendUint32(factors.Data, math.Float32bits(1+float32(i)))
		}
		tensors = append(tensors, factors)
	}
	for i, types := range layers {
		vector := func(name string, size float32, n int) {
			tensors = append(tensors, randomTensor(rng, fmt.Sprintf("blk.%d.%s", i, name), gguf.F32, size, uint64(n)))
		}
		for j, matrix := range []struct {
			name       string
			rows, cols uint64
		}{
			{"attn_q", q, tinyWidth}, {"attn_k", kv, tinyWidth}, {"attn_v", kv, tinyWidth}, {"attn_output", tinyWidth, q},
			{"ffn_gate", tinyHidden, tinyWidth}, {"ffn_up", tinyHidden, tinyWidth}, {"ffn_down", tinyWidth, tinyHidden},
		} {
			name := fmt.Sprintf("blk.%d.%s.weight", i, matrix.name)
			tensors = append(tensors, randomTensor(rng, name, types[j], 0.15, matrix.cols, matrix.rows))
			if shape.bias && j < 3 {
				vector(matrix.name+".bias", 1, int(matrix.rows))
			}
		}
		vector("attn_norm.weight", 1, tinyWidth)
		vector("ffn_norm.weight", 1, tinyWidth)
		for _, name := range slices.Sorted(maps.Keys(shape.vectors)) {
			vector(name+".weight", 1, shape.vectors[name])
		}
	}
	return tinyMetadata(shape, len(layers)), tensors
}

func tinyMetadata(shape tinyShape, layers int) []gguf.KeyValue {
	tokens := make([]string, tinyVocab)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("t%d", i)
	}
	metadata := []gguf.KeyValue{
		{Key: "general.architecture", Value: shape.architecture},
		{Key: "general.name", Value: "tiny"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
	}
	keys := map[string]any{
		"block_count":                      uint32(layers),
		"context_length":                   uint32(512),
		"embedding_length":                 uint32(tinyWidth),
		"feed_forward_length":              uint32(tinyHidden),
		"attention.head_count":             uint32(tinyHeads),
		"attention.head_count_kv":          uint32(tinyKVHeads),
		"attention.layer_norm_rms_epsilon": float32(1e-5),
	}
	if shape.headDim != tinyWidth/tinyHeads {
		keys["attention.key_length"], keys["attention.value_length"] = uint32(shape.headDim), uint32(shape.headDim)
	}
	maps.Copy(keys, shape.metadata)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		metadata = append(metadata, gguf.KeyValue{Key: shape.architecture + "." + key, Value: keys[key]})
	}
	return metadata
}

// TinyFile is TinyLlama as a file.
func TinyFile(t *testing.T) *gguf.File {
	t.Helper()
	metadata, tensors := TinyLlama()
	return File(t, metadata, tensors)
}

// File makes a model file of its parts.
func File(t *testing.T, metadata []gguf.KeyValue, tensors []gguf.Tensor) *gguf.File {
	t.Helper()
	var buffer bytes.Buffer
	if err := gguf.Write(&buffer, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Parse(buffer.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Load loads a model on a backend, and closes both when the test ends.
func Load(t testing.TB, file *gguf.File, b backend.Backend) model.Model {
	t.Helper()
	m, err := model.Load(file, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// trial runs a tiny model step by step and keeps the logits of every position.
type trial struct {
	t      *testing.T
	model  model.Model
	next   int32       // the next free block
	tokens [][]int32   // of each sequence
	tables [][]int32   // of each sequence
	logits [][]float32 // of each sequence, of the positions computed so far [positions, vocab]
}

const trialBlockSize = 16

// newTrial makes a trial of sequences of the given lengths, with the same
// random tokens for the same lengths.
func newTrial(t *testing.T, file *gguf.File, b backend.Backend, lengths ...int) *trial {
	t.Helper()
	r := &trial{t: t, model: Load(t, file, b), logits: make([][]float32, len(lengths))}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range lengths {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(rng.IntN(tinyVocab))
		}
		r.tokens = append(r.tokens, tokens)
		r.tables = append(r.tables, Blocks(&r.next, n, trialBlockSize))
	}
	if err := r.model.Reserve(int(r.next), trialBlockSize); err != nil {
		t.Fatal(err)
	}
	return r
}

// share is a sequence's part of a step: its next n tokens.
type share struct{ seq, n int }

func (r *trial) step(shares ...share) {
	r.t.Helper()
	batch := &backend.Batch{}
	for _, s := range shares {
		done := len(r.logits[s.seq]) / tinyVocab
		Append(batch, r.tokens[s.seq][done:done+s.n], done, r.tables[s.seq], trialBlockSize)
	}
	batch.Sample = count(batch.Rows())
	logits, err := r.model.Forward(batch)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range shares {
		r.logits[s.seq] = append(r.logits[s.seq], logits[:s.n*tinyVocab]...)
		logits = logits[s.n*tinyVocab:]
	}
}
