package model

import (
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// gemma3 is the architecture of Gemma 3's text models. Of six layers, five are
// local: they see a window of positions and have a rope of their own. Both
// branches of a layer are normed before and after, each query and key head is
// normed too, and the embedding is scaled by the root of the width. Source:
// https://arxiv.org/abs/2503.19786, section 2. Norms are x·(1+w) there; files
// hold 1+w.
type gemma3 struct {
	*decoder
	layers    []gemma3Layer
	window    int          // positions that a local layer sees
	localRope backend.Rope // of local layers
	scale     float32      // of queries times keys

	// The arguments of project, kept so that a step does not allocate.
	branch [1]backend.Tensor
	matrix [1]backend.Weight
}

type gemma3Layer struct {
	local bool
	attention
	qNorm, kNorm backend.Weight // [headDim]
	attnPostNorm backend.Weight // [width]
	feedForward
	ffnPostNorm backend.Weight // [width]
}

// The layers of the 27B model, whose queries are scaled by another number than
// the others'; its file doesn't say so. Source: config.py of google/gemma_pytorch,
// query_pre_attn_scalar.
const gemma3Layers27B = 62

func newGemma3(f *gguf.File, b backend.Backend) (Model, error) {
	c, err := readConfig(f, "gemma3")
	if err != nil {
		return nil, err
	}
	c.rope.Neox = true
	m := &gemma3{scale: float32(1 / math.Sqrt(float64(c.headDim)))}
	if c.layers == gemma3Layers27B {
		m.scale = float32(1 / math.Sqrt(float64(c.width/c.heads)))
	}
	period, err := m.readWindow(f, &c)
	if err != nil {
		return nil, err
	}
	l := newLoader(f, b)
	if m.decoder, err = newDecoder(c, l); err != nil {
		return nil, err
	}
	for i := range c.layers {
		name := layerPrefix(i)
		m.layers = append(m.layers, gemma3Layer{
			local:        m.window > 0 && i%period < period-1,
			attention:    l.attention(name, &c),
			qNorm:        l.vector(name+"attn_q_norm.weight", c.headDim),
			kNorm:        l.vector(name+"attn_k_norm.weight", c.headDim),
			attnPostNorm: l.vector(name+"post_attention_norm.weight", c.width),
			feedForward:  l.feedForward(name, &c),
			ffnPostNorm:  l.vector(name+"post_ffw_norm.weight", c.width),
		})
	}
	m.operations = m.step
	return m, l.finish()
}

// readWindow reads what is of local layers: the window, the rope and the number
// of layers of which the last is global. llama.cpp's converter leaves the keys
// of the latter two out.
func (m *gemma3) readWindow(f *gguf.File, c *config) (period int, err error) {
	r := &keyReader{file: f, prefix: "gemma3."}
	m.window = r.countOr("attention.sliding_window", maxContext, 0)
	period = r.countOr("attention.sliding_window_pattern", maxLayers, 6)
	base := r.base("rope.freq_base_swa", 10000)
	if limit := r.floatOr("final_logit_softcapping", 0); limit != 0 {
		r.faultf("final_logit_softcapping: found %g: capped logits are not supported", limit)
	}
	if err := r.err(); err != nil {
		return 0, fmt.Errorf("sliding window: %w", err)
	}
	m.localRope = backend.Rope{Dims: c.rope.Dims, Freqs: ropeFreqs(c.rope.Dims, base, 1), Neox: true}
	return period, nil
}

// step names the operations of a step, up to those of the last layer.
func (m *gemma3) step(batch *backend.Batch) {
	b, c := m.backend, &m.config
	q, k, v := m.qkv[0], m.qkv[1], m.qkv[2]

	m.embed(batch, float32(math.Sqrt(float64(c.width))))
	for i := range m.layers {
		l := &m.layers[i]
		rope, window := c.rope, 0
		if l.local {
			rope, window = m.localRope, m.window
		}

		b.Norm(m.normed, m.x, l.attention.norm, c.eps)
		b.MatMul(m.qkv[:], l.qkv[:], nil, m.normed)
		b.HeadNorm(q, l.qNorm, c.eps)
		b.HeadNorm(k, l.kNorm, c.eps)
		b.Rotate(q, c.headDim, rope)
		b.Rotate(k, c.headDim, rope)
		b.Store(m.kv, i, k, v)
		b.Attend(m.attended, q, m.kv, i, m.scale, window)
		m.project(l.attention.output, m.attended)
		b.AddNorm(m.x, m.normed, l.attnPostNorm, c.eps)

		b.Norm(m.normed, m.x, l.feedForward.norm, c.eps)
		b.GatedMatMul(m.gated, l.gate, l.up, m.normed, backend.GELU)
		m.project(l.down, m.gated)
		b.AddNorm(m.x, m.normed, l.ffnPostNorm, c.eps)
	}
}

// project sets the normed rows to the product of a branch's last matrix.
func (m *gemma3) project(w backend.Weight, x backend.Tensor) {
	m.branch[0], m.matrix[0] = m.normed, w
	m.backend.MatMul(m.branch[:], m.matrix[:], nil, x)
}
