package model

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// llama is the architecture of Llama 1 to 3, Mistral, TinyLlama and SmolLM2.
// Source: Touvron et al., https://arxiv.org/abs/2302.13971, section 2.2, with
// grouped queries (https://arxiv.org/abs/2305.13245).
type llama struct {
	config  config
	backend backend.Backend

	embedding  backend.Weight // [vocab, width]
	layers     []llamaLayer
	outputNorm backend.Weight // [width]
	output     backend.Weight // [vocab, width]; the embedding if the file has none

	kv       backend.KV
	x        backend.Tensor    // residual stream [rows, width]
	normed   backend.Tensor    // [rows, width]
	qkv      [3]backend.Tensor // [rows, heads*headDim], then twice [rows, kvHeads*headDim]
	attended backend.Tensor    // [rows, heads*headDim]
	gated    backend.Tensor    // [rows, hidden]
}

// llamaLayer holds the weights of a layer. Biases are nil where absent.
type llamaLayer struct {
	attnNorm   backend.Weight    // [width]
	qkv        [3]backend.Weight // [heads*headDim, width], then twice [kvHeads*headDim, width]
	qkvBias    [3]backend.Weight
	attnOutput backend.Weight // [width, heads*headDim]
	ffnNorm    backend.Weight // [width]
	ffnGate    backend.Weight // [hidden, width]
	ffnUp      backend.Weight // [hidden, width]
	ffnDown    backend.Weight // [width, hidden]
}

func newLlama(f *gguf.File, b backend.Backend) (*llama, error) {
	c, err := readConfig(f, "llama")
	if err != nil {
		return nil, err
	}
	m := &llama{config: c, backend: b}
	if err := m.loadWeights(&loader{file: f, backend: b, taken: make(map[string]bool)}); err != nil {
		return nil, err
	}
	if err := m.makeTensors(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *llama) loadWeights(l *loader) error {
	c := &m.config
	l.ropeFactors(c.rope.Freqs)
	m.embedding = l.matrix("token_embd.weight", c.vocab, c.width)
	m.outputNorm = l.vector("output_norm.weight", c.width)
	m.output = m.embedding
	if l.has("output.weight") {
		m.output = l.matrix("output.weight", c.vocab, c.width)
	}
	for i := 0; i < c.layers && l.err == nil; i++ {
		m.layers = append(m.layers, loadLlamaLayer(l, c, fmt.Sprintf("blk.%d.", i)))
	}
	return l.finish()
}

func loadLlamaLayer(l *loader, c *config, prefix string) llamaLayer {
	q, kv := c.heads*c.headDim, c.kvHeads*c.headDim
	return llamaLayer{
		attnNorm: l.vector(prefix+"attn_norm.weight", c.width),
		qkv: [3]backend.Weight{
			l.matrix(prefix+"attn_q.weight", q, c.width),
			l.matrix(prefix+"attn_k.weight", kv, c.width),
			l.matrix(prefix+"attn_v.weight", kv, c.width),
		},
		qkvBias: [3]backend.Weight{
			l.optionalVector(prefix+"attn_q.bias", q),
			l.optionalVector(prefix+"attn_k.bias", kv),
			l.optionalVector(prefix+"attn_v.bias", kv),
		},
		attnOutput: l.matrix(prefix+"attn_output.weight", c.width, q),
		ffnNorm:    l.vector(prefix+"ffn_norm.weight", c.width),
		ffnGate:    l.matrix(prefix+"ffn_gate.weight", c.hidden, c.width),
		ffnUp:      l.matrix(prefix+"ffn_up.weight", c.hidden, c.width),
		ffnDown:    l.matrix(prefix+"ffn_down.weight", c.width, c.hidden),
	}
}

func (m *llama) makeTensors() error {
	c := &m.config
	q, kv := c.heads*c.headDim, c.kvHeads*c.headDim
	for _, t := range []struct {
		tensor *backend.Tensor
		cols   int
	}{
		{&m.x, c.width}, {&m.normed, c.width},
		{&m.qkv[0], q}, {&m.qkv[1], kv}, {&m.qkv[2], kv},
		{&m.attended, q}, {&m.gated, c.hidden},
	} {
		var err error
		if *t.tensor, err = m.backend.NewTensor(t.cols); err != nil {
			return fmt.Errorf("make activations of %d columns: %w", t.cols, err)
		}
	}
	return nil
}

// Shape implements Model.
func (m *llama) Shape() Shape {
	c := &m.config
	return Shape{
		Name:         c.name,
		Architecture: c.architecture,
		Device:       m.backend.Name(),
		Vocab:        c.vocab,
		Context:      c.context,
		KVBytes:      m.backend.KVBytes(m.kvShape(1, 1)),
		MaxRows:      m.backend.MaxRows(),
	}
}

func (m *llama) kvShape(blocks, blockSize int) backend.KVShape {
	c := &m.config
	return backend.KVShape{Layers: c.layers, Blocks: blocks, BlockSize: blockSize, Heads: c.kvHeads, HeadDim: c.headDim}
}

// Reserve implements Model.
func (m *llama) Reserve(blocks, blockSize int) error {
	kv, err := m.backend.NewKV(m.kvShape(blocks, blockSize))
	if err != nil {
		return fmt.Errorf("reserve a KV cache of %d blocks of %d positions: %w", blocks, blockSize, err)
	}
	m.kv = kv
	return nil
}

// Forward implements Model.
func (m *llama) Forward(batch *backend.Batch) ([]float32, error) {
	b, c := m.backend, &m.config
	q, k, v := m.qkv[0], m.qkv[1], m.qkv[2]
	scale := float32(1 / math.Sqrt(float64(c.headDim)))

	b.Begin(batch)
	b.Embed(m.x, m.embedding, 1)
	for i := range m.layers {
		l := &m.layers[i]

		b.Norm(m.normed, m.x, l.attnNorm, c.eps)
		b.MatMul(m.qkv[:], l.qkv[:], l.qkvBias[:], m.normed)
		b.Rotate(q, c.headDim, c.rope)
		b.Rotate(k, c.headDim, c.rope)
		b.Store(m.kv, i, k, v)
		b.Attend(m.attended, q, m.kv, i, scale, 0)
		b.AddMatMul(m.x, l.attnOutput, m.attended)

		b.Norm(m.normed, m.x, l.ffnNorm, c.eps)
		b.GatedMatMul(m.gated, l.ffnGate, l.ffnUp, m.normed, backend.SiLU)
		b.AddMatMul(m.x, l.ffnDown, m.gated)
	}
	b.Norm(m.normed, m.x, m.outputNorm, c.eps)
	logits := b.Logits(m.output, m.normed)
	if err := b.Sync(); err != nil {
		return nil, fmt.Errorf("forward %d rows on %s: %w", batch.Rows(), b.Name(), err)
	}
	return logits, nil
}

// Close implements Model.
func (m *llama) Close() error { return m.backend.Close() }
