package model

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// qwen2 is the architecture of Qwen 2 and 2.5: Llama's with biases on queries,
// keys and values. Source: https://arxiv.org/abs/2407.10671, section 2.2.1.
type qwen2 struct {
	*decoder
	layers []qwen2Layer
}

type qwen2Layer struct {
	attention
	bias [3]backend.Weight // of q, k and v
	feedForward
}

func newQwen2(f *gguf.File, b backend.Backend) (Model, error) {
	c, err := readConfig(f, "qwen2")
	if err != nil {
		return nil, err
	}
	c.rope.Neox = true
	l := newLoader(f, b)
	m := &qwen2{}
	if m.decoder, err = newDecoder(c, l); err != nil {
		return nil, err
	}
	for i := range c.layers {
		name := layerPrefix(i)
		m.layers = append(m.layers, qwen2Layer{
			attention: l.attention(name, &c),
			bias: [3]backend.Weight{
				l.vector(name+"attn_q.bias", c.heads*c.headDim),
				l.vector(name+"attn_k.bias", c.kvHeads*c.headDim),
				l.vector(name+"attn_v.bias", c.kvHeads*c.headDim),
			},
			feedForward: l.feedForward(name, &c),
		})
	}
	m.operations = m.step
	return m, l.finish()
}

// step names the operations of a step, up to those of the last layer.
func (m *qwen2) step(batch *backend.Batch) {
	b, c := m.backend, &m.config
	q, k, v := m.qkv[0], m.qkv[1], m.qkv[2]

	m.embed(batch, 1)
	for i := range m.layers {
		l := &m.layers[i]

		b.Norm(m.normed, m.x, l.attention.norm, c.eps)
		b.MatMul(m.qkv[:], l.qkv[:], l.bias[:], m.normed)
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
