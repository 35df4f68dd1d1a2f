package model

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// llama is the architecture of Llama 1 to 3, Mistral, TinyLlama and SmolLM2.
// Source: Touvron et al., https://arxiv.org/abs/2302.13971, section 2.2, with
// grouped queries (https://arxiv.org/abs/2305.13245). Llama 3.1 and later
// stretch their positions by a tensor of factors; see loader.ropeFactors.
type llama struct {
	*decoder
	layers []llamaLayer
}

type llamaLayer struct {
	attention
	bias [3]backend.Weight // of q, k and v; nil where absent
	feedForward
}

func newLlama(f *gguf.File, b backend.Backend) (Model, error) {
	c, err := readConfig(f, "llama")
	if err != nil {
		return nil, err
	}
	l := newLoader(f, b)
	// Rows of q and k are permuted in these files, so that the rotated pairs are
	// neighbours (c.rope.Neox is false).
	l.ropeFactors(c.rope.Freqs)
	m := &llama{}
	if m.decoder, err = newDecoder(c, l); err != nil {
		return nil, err
	}
	for i := range c.layers {
		name := layerPrefix(i)
		m.layers = append(m.layers, llamaLayer{
			attention: l.attention(name, &c),
			bias: [3]backend.Weight{
				l.optionalVector(name+"attn_q.bias", c.heads*c.headDim),
				l.optionalVector(name+"attn_k.bias", c.kvHeads*c.headDim),
				l.optionalVector(name+"attn_v.bias", c.kvHeads*c.headDim),
			},
			feedForward: l.feedForward(name, &c),
		})
	}
	m.operations = m.step
	return m, l.finish()
}

// step names the operations of a step, up to those of the last layer.
func (m *llama) step(batch *backend.Batch) {
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
