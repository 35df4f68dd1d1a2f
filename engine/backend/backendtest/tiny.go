package backendtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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

// TinyLlama returns the parts of a model file of the Llama architecture with
// random weights of many types, for gguf.Write.
func TinyLlama() ([]gguf.KeyValue, []gguf.Tensor) {
	tokens := make([]string, tinyVocab)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("t%d", i)
	}
	metadata := []gguf.KeyValue{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "tiny"},
		{Key: "llama.block_count", Value: uint32(2)},
		{Key: "llama.context_length", Value: uint32(512)},
		{Key: "llama.embedding_length", Value: uint32(tinyWidth)},
		{Key: "llama.feed_forward_length", Value: uint32(tinyHidden)},
		{Key: "llama.attention.head_count", Value: uint32(tinyHeads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(tinyKVHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const q, kv = tinyHeads * tinyHeadDim, tinyKVHeads * tinyHeadDim
	tensors := []gguf.Tensor{
		randomTensor(rng, "token_embd.weight", gguf.Q8_0, 1, tinyWidth, tinyVocab),
		randomTensor(rng, "output_norm.weight", gguf.F32, 0.3, tinyWidth),
	}
	for i, types := range [][7]gguf.DType{
		{gguf.Q4_1, gguf.Q4_0, gguf.Q8_0, gguf.Q4_1, gguf.Q4_1, gguf.Q4_1, gguf.Q6_K},
		{gguf.F16, gguf.BF16, gguf.F32, gguf.Q4_0, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1},
	} {
		for j, matrix := range []struct {
			name       string
			rows, cols uint64
		}{
			{"attn_q", q, tinyWidth}, {"attn_k", kv, tinyWidth}, {"attn_v", kv, tinyWidth}, {"attn_output", tinyWidth, q},
			{"ffn_gate", tinyHidden, tinyWidth}, {"ffn_up", tinyHidden, tinyWidth}, {"ffn_down", tinyWidth, tinyHidden},
		} {
			name := fmt.Sprintf("blk.%d.%s.weight", i, matrix.name)
			tensors = append(tensors, randomTensor(rng, name, types[j], 0.15, matrix.cols, matrix.rows))
		}
		for _, name := range []string{"attn_norm", "ffn_norm"} {
			tensors = append(tensors, randomTensor(rng, fmt.Sprintf("blk.%d.%s.weight", i, name), gguf.F32, 1, tinyWidth))
		}
	}
	return metadata, tensors
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

// trial runs TinyLlama step by step and keeps the logits of every position.
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
func newTrial(t *testing.T, b backend.Backend, lengths ...int) *trial {
	t.Helper()
	m, err := model.Load(TinyFile(t), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r := &trial{t: t, model: m, logits: make([][]float32, len(lengths))}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range lengths {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(rng.IntN(tinyVocab))
		}
		r.tokens = append(r.tokens, tokens)
		r.tables = append(r.tables, Blocks(&r.next, n, trialBlockSize))
	}
	if err := m.Reserve(int(r.next), trialBlockSize); err != nil {
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
