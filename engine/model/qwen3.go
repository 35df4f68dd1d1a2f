package model

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// qwen3 is the architecture of Qwen 3's dense models: Llama's with a norm of
// each query and key head before the rotation, in place of Qwen 2's biases.
// Source: https://arxiv.org/abs/2505.09388, section 2.
type qwen3 struct {
	*decoder
	layers []qwen3Layer
}

type qwen3Layer struct {
	attention
	qNorm, kNorm backend.Weight // [headDim]
	feedForward
}

func newQwen3(f *gguf.File, b backend.Backend) (Model, error) {
	c, err := readConfig(f, "qwen3")
	if err != nil {
		return nil, err
	}
	c.rope.Neox = true
	l := newLoader(f, b)
	m := &qwen3{}
	if m.decoder, err = newDecoder(c, l); err != nil {
		return nil, err
	}
	for i := range c.layers {
		name := layerPrefix(i)
		m.layers = append(m.layers, qwen3Layer{
			attention:   l.attention(name, &c),
			qNorm:       l.vector(name+"attn_q_norm.weight", c.headDim),
			kNorm:       l.vector(name+"attn_k_norm.weight", c.headDim),
			feedForward: l.feedForward(name, &c),
		})
	}
	m.operations = m.step
	return m, l.finish()
}

// step names the operations of a step, up to those of the last layer.
func (m *qwen3) step(batch *backend.Batch) {
	b, c := m.backend, &m.config
	q, k, v := m.qkv[0], m.qkv[1], m.qkv[2]

	m.embed(batch, 1)
	for i := range m.layers {
		l := &m.layers[i]

		b.Norm(m.normed, m.x, l.attention.norm, c.eps)
		b.MatMul(m.qkv[:], l.qkv[:], nil, m.normed)
		b.HeadNorm(q, l.qNorm, c.eps)
		b.HeadNorm(k, l.kNorm, c.eps)
		b.Rotate(q, c.headDim, c.rope)
		b.Rotate(k, c.headDim, c.rope)
		b.Store(m.kv, i, k, v)
		b.Attend(m.attended, q, m.kv, i, m.attentionScale(), 0)
		b.AddMatMul(m.x, l.attention.output, m.attended)

		b.Norm(m.normed, m.x, l.feedForward.norm, c.eps)
		b.GatedMatMul(m.gated, l.gate, l.up, m.normed, backend.SiLU)
		b.AddMatMul(m.x, l.down, m.gated)
	}
}
