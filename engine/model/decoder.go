package model

import (
	"fmt"
	"math"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// decoder is what the architectures share: tokens become a residual stream, the
// layers of the architecture add to it, and its end becomes logits. An
// architecture's own file has the layers.
type decoder struct {
	config  config
	backend backend.Backend
	// operations is the architecture's: it names those of a step, up to those of the
	// last layer.
	operations func(*backend.Batch)

	embedding  backend.Weight // [vocab, width]
	outputNorm backend.Weight // [width]
	output     backend.Weight // [vocab, width]; the embedding if the file has none

	kv       backend.KV
	x        backend.Tensor    // residual stream [rows, width]
	normed   backend.Tensor    // [rows, width]
	qkv      [3]backend.Tensor // [rows, heads*headDim], then twice [rows, kvHeads*headDim]
	attended backend.Tensor    // [rows, heads*headDim]
	gated    backend.Tensor    // [rows, hidden]
}

// Threads implements Sharer.
func (d *decoder) Threads() int {
	if s, ok := d.backend.(backend.Sharer); ok {
		return s.Threads()
	}
	return 1
}

// Share implements Sharer.
func (d *decoder) Share(parts int, do func(part, thread int)) {
	if s, ok := d.backend.(backend.Sharer); ok {
		s.Share(parts, do)
		return
	}
	for part := range parts {
		do(part, 0)
	}
}

// DeviceTime implements Timer.
func (d *decoder) DeviceTime() time.Duration {
	if t, ok := d.backend.(backend.Timer); ok {
		return t.DeviceTime()
	}
	return 0
}

// attention holds the weights of a layer's attention.
type attention struct {
	norm   backend.Weight    // [width]
	qkv    [3]backend.Weight // [heads*headDim, width], then twice [kvHeads*headDim, width]
	output backend.Weight    // [width, heads*headDim]
}

// feedForward holds the weights of a layer's feed-forward branch.
type feedForward struct {
	norm backend.Weight // [width]
	gate backend.Weight // [hidden, width]
	up   backend.Weight // [hidden, width]
	down backend.Weight // [width, hidden]
}

// newDecoder loads what is not in the layers and makes the activations.
func newDecoder(c config, l *loader) (*decoder, error) {
	d := &decoder{config: c, backend: l.backend}
	d.embedding = l.matrix("token_embd.weight", c.vocab, c.width)
	d.outputNorm = l.vector("output_norm.weight", c.width)
	d.output = d.embedding
	if l.has("output.weight") {
		d.output = l.matrix("output.weight", c.vocab, c.width)
	}
	if l.err != nil {
		return nil, l.err
	}
	q, kv := c.heads*c.headDim, c.kvHeads*c.headDim
	for _, t := range []struct {
		tensor *backend.Tensor
		cols   int
	}{
		{&d.x, c.width}, {&d.normed, c.width},
		{&d.qkv[0], q}, {&d.qkv[1], kv}, {&d.qkv[2], kv},
		{&d.attended, q}, {&d.gated, c.hidden},
	} {
		var err error
		if *t.tensor, err = d.backend.NewTensor(t.cols); err != nil {
			return nil, fmt.Errorf("make activations of %d columns: %w", t.cols, err)
		}
	}
	return d, nil
}

func (l *loader) attention(layer string, c *config) attention {
	q, kv := c.heads*c.headDim, c.kvHeads*c.headDim
	return attention{
		norm: l.vector(layer+"attn_norm.weight", c.width),
		qkv: [3]backend.Weight{
			l.matrix(layer+"attn_q.weight", q, c.width),
			l.matrix(layer+"attn_k.weight", kv, c.width),
			l.matrix(layer+"attn_v.weight", kv, c.width),
		},
		output: l.matrix(layer+"attn_output.weight", c.width, q),
	}
}

func (l *loader) feedForward(layer string, c *config) feedForward {
	return feedForward{
		norm: l.vector(layer+"ffn_norm.weight", c.width),
		gate: l.matrix(layer+"ffn_gate.weight", c.hidden, c.width),
		up:   l.matrix(layer+"ffn_up.weight", c.hidden, c.width),
		down: l.matrix(layer+"ffn_down.weight", c.width, c.hidden),
	}
}

// attentionScale keeps the products of queries and keys at the size of their
// values: 1/√headDim. Source: https://arxiv.org/abs/1706.03762, section 3.2.1.
func (d *decoder) attentionScale() float32 {
	return float32(1 / math.Sqrt(float64(d.config.headDim)))
}

// embed starts a step: the residual stream is the embedding times scale.
func (d *decoder) embed(batch *backend.Batch, scale float32) {
	d.backend.Begin(batch)
	d.backend.Embed(d.x, d.embedding, scale)
}

// Forward implements Model.
func (d *decoder) Forward(batch *backend.Batch) ([]float32, error) {
	b := d.backend
	d.operations(batch)
	b.Norm(d.normed, d.x, d.outputNorm, d.config.eps)
	logits := b.Logits(d.output, d.normed)
	if err := b.Sync(); err != nil {
		return nil, d.failed(batch.Rows(), err)
	}
	return logits, nil
}

func (d *decoder) failed(rows int, err error) error {
	return fmt.Errorf("forward %d rows on %s: %w", rows, d.backend.Name(), err)
}

// DrawLimits implements Drawer.
func (d *decoder) DrawLimits() (rows, logprobs int) {
	if b, ok := d.backend.(backend.Drawer); ok {
		return b.DrawLimits()
	}
	return 0, 0
}

// Queue implements Drawer.
func (d *decoder) Queue(batch *backend.Batch) error {
	b := d.backend.(backend.Drawer)
	d.operations(batch)
	d.backend.Norm(d.normed, d.x, d.outputNorm, d.config.eps)
	b.Draw(d.output, d.normed)
	if err := b.Queue(); err != nil {
		return d.failed(batch.Rows(), err)
	}
	return nil
}

// Wait implements Drawer.
func (d *decoder) Wait() ([]sample.Token, error) {
	tokens, err := d.backend.(backend.Drawer).Wait()
	if err != nil {
		return nil, fmt.Errorf("forward on %s: %w", d.backend.Name(), err)
	}
	return tokens, nil
}

// Shape implements Model.
func (d *decoder) Shape() Shape {
	_, reserved := d.backend.(backend.Sizer)
	c := &d.config
	return Shape{
		Name:         c.name,
		Architecture: c.architecture,
		Device:       d.backend.Name(),
		Vocab:        c.vocab,
		Context:      c.context,
		KVBytes:      d.backend.KVBytes(d.kvShape(1, 1)),
		KVReserved:   reserved,
		MaxRows:      d.backend.MaxRows(),
	}
}

func (d *decoder) kvShape(blocks, blockSize int) backend.KVShape {
	c := &d.config
	return backend.KVShape{Layers: c.layers, Blocks: blocks, BlockSize: blockSize, Heads: c.kvHeads, HeadDim: c.headDim}
}

// Reserve implements Model.
func (d *decoder) Reserve(blocks, blockSize int) error {
	kv, err := d.backend.NewKV(d.kvShape(blocks, blockSize))
	if err != nil {
		return fmt.Errorf("reserve a KV cache of %d blocks of %d positions: %w", blocks, blockSize, err)
	}
	d.kv = kv
	return nil
}

// Close implements Model.
func (d *decoder) Close() error { return d.backend.Close() }

// layerPrefix begins the names of a layer's tensors.
func layerPrefix(i int) string { return fmt.Sprintf("blk.%d.", i) }
