package cuda

import (
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// maxShared is the number of matrices that one product multiplies with the same
// input: queries, keys and values.
const maxShared = 3

// kind says what an operation does, and which of its fields count.
type kind uint8

const (
	// embed: dst[0] = scale · the rows of w[0] that the tokens name.
	embed kind = iota + 1
	// norm: dst[0] = x's RMS norm · w[0].
	norm
	// addNorm: dst[0] += x's RMS norm · w[0].
	addNorm
	// addNormNorm: dst[0] += x's RMS norm · w[0], and then dst[1] = dst[0]'s · w[1].
	addNormNorm
	// product: dst[i] = x·w[i]ᵀ + bias[i]. With norm, x is normed first.
	product
	// addProduct: dst[0] += x·w[0]ᵀ.
	addProduct
	// addProductNorm: addProduct, and then dst[1] = dst[0] ⊙ norm, with which dst[0]'s RMS
	// norm is done but for the rows' roots.
	addProductNorm
	// gatedProduct: dst[0] = act(x·w[0]ᵀ) ⊙ (x·w[1]ᵀ). With norm, x is normed first.
	gatedProduct
	// headNorm: each head of x becomes its RMS norm · w[0].
	headNorm
	// rotate: the heads of x are rotated by rope.
	rotate
	// store: keys and values are put into their slots of a layer.
	store
	// finishHeads: headNorm of x (queries) by norm and of keys by kNorm, where there
	// are any, rotate of both, and store. Only the queries are written back.
	finishHeads
	// attend: dst[0] = attention of x over a layer of the cache.
	attend
	// finishAttend: finishHeads, and attend of the queries, which are not written back.
	finishAttend
	// logits: the sampled rows of x times w[0]ᵀ, for the host. With norm, x is
	// normed first.
	logits
	// draw: a token from each row of the logits of w[0].
	draw
)

var kindNames = [...]string{
	embed: "embed", norm: "norm", addNorm: "add norm", addNormNorm: "add norm, norm", product: "product", addProduct: "add product", addProductNorm: "add product, norm", gatedProduct: "gated product",
	headNorm: "head norm", rotate: "rotate", store: "store", finishHeads: "finish heads", attend: "attend", finishAttend: "finish heads and attend", logits: "logits",
	draw: "draw",
}

// op is one operation of a step. It holds no slices, so that two can be compared:
// that is how a captured graph is known to be that of a step.
type op struct {
	kind   kind
	act    backend.Activation
	layer  int
	window int
	dim    int // values of a head
	eps    float32
	scale  float32

	dst        [maxShared]*tensor
	x          *tensor
	rootless   bool // x is addProductNorm's: it is still to be divided by its rows' roots
	w, bias    [maxShared]*weight
	norm       *weight // of x, or of its heads; nil: none
	kNorm      *weight // of the keys' heads
	keys, vals *tensor
	rope       *rope
	kv         *cache
}

// String names the operation in errors.
func (o *op) String() string {
	text := kindNames[o.kind]
	switch o.kind {
	case store, finishHeads, attend, finishAttend:
		return fmt.Sprintf("%s of layer %d", text, o.layer)
	}
	if w := o.w[0]; w != nil && w.name != "" {
		return fmt.Sprintf("%s with %s", text, w.name)
	}
	return text
}

// reads tells whether the operation uses what t holds.
func (o *op) reads(t *tensor) bool {
	switch {
	case o.x == t, o.keys == t, o.vals == t:
		return true
	case o.kind == addNorm, o.kind == addNormNorm, o.kind == addProduct, o.kind == addProductNorm:
		return o.dst[0] == t
	}
	return false
}

// overwrites tells whether nothing of what t held is left after the operation.
func (o *op) overwrites(t *tensor) bool {
	switch o.kind {
	case embed, norm, product, gatedProduct, attend, finishAttend:
		return o.dst[0] == t || o.dst[1] == t || o.dst[2] == t
	case addNormNorm, addProductNorm:
		return o.dst[1] == t
	}
	return false
}

// list is the operations of a step, in their order. It implements the part of
// backend.Backend that models call between Begin and Sync.
type list struct {
	ops   []op
	ropes []*rope
}

// reset empties the list and keeps its storage.
func (l *list) reset() { l.ops = l.ops[:0] }

func (l *list) add(o op) { l.ops = append(l.ops, o) }

// Embed implements backend.Backend.
func (l *list) Embed(dst backend.Tensor, table backend.Weight, scale float32) {
	l.add(op{kind: embed, dst: one(dst), w: [maxShared]*weight{table.(*weight)}, scale: scale})
}

// Norm implements backend.Backend.
func (l *list) Norm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	l.add(op{kind: norm, dst: one(dst), x: x.(*tensor), w: [maxShared]*weight{w.(*weight)}, eps: eps})
}

// AddNorm implements backend.Backend.
func (l *list) AddNorm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	l.add(op{kind: addNorm, dst: one(dst), x: x.(*tensor), w: [maxShared]*weight{w.(*weight)}, eps: eps})
}

// MatMul implements backend.Backend.
func (l *list) MatMul(dst []backend.Tensor, w, bias []backend.Weight, x backend.Tensor) {
	for len(dst) > 0 {
		n := min(len(dst), maxShared)
		o := op{kind: product, x: x.(*tensor)}
		for i := range n {
			o.dst[i], o.w[i] = dst[i].(*tensor), w[i].(*weight)
			if bias != nil && bias[i] != nil {
				o.bias[i] = bias[i].(*weight)
			}
		}
		l.add(o)
		dst, w = dst[n:], w[n:]
		if bias != nil {
			bias = bias[n:]
		}
	}
}

// AddMatMul implements backend.Backend.
func (l *list) AddMatMul(dst backend.Tensor, w backend.Weight, x backend.Tensor) {
	l.add(op{kind: addProduct, dst: one(dst), w: [maxShared]*weight{w.(*weight)}, x: x.(*tensor)})
}

// GatedMatMul implements backend.Backend.
func (l *list) GatedMatMul(dst backend.Tensor, gate, up backend.Weight, x backend.Tensor, act backend.Activation) {
	l.add(op{kind: gatedProduct, dst: one(dst), w: [maxShared]*weight{gate.(*weight), up.(*weight)}, x: x.(*tensor), act: act})
}

// HeadNorm implements backend.Backend.
func (l *list) HeadNorm(x backend.Tensor, w backend.Weight, eps float32) {
	l.add(op{kind: headNorm, x: x.(*tensor), w: [maxShared]*weight{w.(*weight)}, dim: w.Cols(), eps: eps})
}

// Rotate implements backend.Backend.
func (l *list) Rotate(x backend.Tensor, headDim int, r backend.Rope) {
	l.add(op{kind: rotate, x: x.(*tensor), dim: headDim, rope: l.rope(r)})
}

// Store implements backend.Backend.
func (l *list) Store(kv backend.KV, layer int, k, v backend.Tensor) {
	c := kv.(*cache)
	l.add(op{kind: store, kv: c, layer: layer, keys: k.(*tensor), vals: v.(*tensor), dim: c.shape.HeadDim})
}

// Attend implements backend.Backend.
func (l *list) Attend(dst, q backend.Tensor, kv backend.KV, layer int, scale float32, window int) {
	c := kv.(*cache)
	l.add(op{kind: attend, dst: one(dst), x: q.(*tensor), kv: c, layer: layer, scale: scale, window: window, dim: c.shape.HeadDim})
}

func one(t backend.Tensor) [maxShared]*tensor { return [maxShared]*tensor{t.(*tensor)} }

// rope is a backend.Rope whose angles are on the device.
type rope struct {
	dims  int
	neox  bool
	freqs []float32 // the model's: they are not changed, and their address is the rope's identity
	data  uint64    // the address of the angles on the device; 0: not there yet
}

// rope finds what was made of r before, or begins it. A model has one or two.
func (l *list) rope(r backend.Rope) *rope {
	for _, known := range l.ropes {
		if len(known.freqs) == len(r.Freqs) && (len(r.Freqs) == 0 || &known.freqs[0] == &r.Freqs[0]) && known.dims == r.Dims && known.neox == r.Neox {
			return known
		}
	}
	made := &rope{dims: r.Dims, neox: r.Neox, freqs: r.Freqs}
	l.ropes = append(l.ropes, made)
	return made
}
