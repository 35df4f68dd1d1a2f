package cuda

import (
	"slices"

	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// conditions are what a step's rows allow.
type conditions struct {
	// few: the products of the rows norm their input themselves, as those of few rows do;
	// fewSampled: those of the sampled rows do.
	few, fewSampled bool
	// singles: all attention is that of single rows, which finishes its heads itself.
	singles bool
	// tiled: products whose matrices are not float32 can leave a norm of their result to
	// the next product but for its roots, as those of many rows do.
	tiled bool
	// theirs tells of which products another library's kernels are, which know no norm.
	// Nil: none.
	theirs func(*op) bool
}

// fuse appends to fused what the list does in fewer launches, and returns it. Only
// neighbours are fused, and only where nobody later reads what is then not written:
//
//	norm, product                      → product with the norm
//	addNorm, norm                      → addNormNorm
//	addProduct, norm, product          → addProductNorm, product
//	head norms, rotates, store         → finishHeads
//	head norms, rotates, store, attend → finishAttend
func fuse(fused, list []op, c conditions) []op {
	for len(list) > 0 {
		o, n := list[0], 1
		switch o.kind {
		case norm:
			if with, ok := normedProduct(list, c); ok {
				o, n = with, 2
			}
		case addNorm:
			if with, ok := addedNorm(list); ok {
				o, n = with, 2
			}
		case addProduct:
			if with, next, ok := normedBetween(list, c); ok {
				fused = append(fused, with)
				o, n = next, 3
			}
		default:
			if with, length := finishedHeads(list); length > 0 {
				o, n = with, length
				if with, ok := finishedAttention(o, list[n:]); ok && c.singles {
					o, n = with, n+1
				}
			}
		}
		fused, list = append(fused, o), list[n:]
	}
	return fused
}

// normedProduct makes one operation of a norm at the head of the list and the
// product behind it.
func normedProduct(list []op, c conditions) (op, bool) {
	if len(list) < 2 {
		return op{}, false
	}
	first, o := &list[0], list[1]
	switch {
	case c.few && (o.kind == product || o.kind == gatedProduct), c.fewSampled && o.kind == logits:
	default:
		return op{}, false
	}
	between := first.dst[0]
	// A product must not write the rows that its other blocks still norm.
	if o.x != between || o.overwrites(first.x) || !dead(between, list[2:]) && !o.overwrites(between) {
		return op{}, false
	}
	o.x, o.norm, o.eps = first.x, first.w[0], first.eps
	return o, true
}

// addedNorm makes one operation of an addNorm at the head of the list and the norm of
// its result behind it.
func addedNorm(list []op) (op, bool) {
	if len(list) < 2 {
		return op{}, false
	}
	o, next := list[0], &list[1]
	if next.kind != norm || next.x != o.dst[0] || next.eps != o.eps || o.x == o.dst[0] {
		return op{}, false
	}
	o.kind, o.dst[1], o.w[1] = addNormNorm, next.dst[0], next.w[0]
	return o, true
}

// normedBetween makes two operations of an addProduct at the head of the list, the norm
// of its result behind it, and the product of that.
func normedBetween(list []op, c conditions) (first, second op, ok bool) {
	if len(list) < 3 || !c.tiled {
		return op{}, op{}, false
	}
	first, second = list[0], list[2]
	between := &list[1]
	normed := between.dst[0]
	switch {
	case between.kind != norm, between.x != first.dst[0], normed == first.dst[0], normed == first.x:
		return op{}, op{}, false
	case second.kind != product && second.kind != gatedProduct, second.x != normed, second.overwrites(normed), !dead(normed, list[3:]):
		return op{}, op{}, false
	case first.w[0].layout.Format == kernels.F32, slices.ContainsFunc(second.w[:], func(w *weight) bool { return w != nil && w.layout.Format == kernels.F32 }):
		return op{}, op{}, false
	}
	if c.theirs != nil && (c.theirs(&list[0]) || c.theirs(&list[2])) {
		return op{}, op{}, false
	}
	first.kind, first.dst[1], first.norm = addProductNorm, normed, between.w[0]
	second.rootless, second.eps = true, between.eps
	return first, second, true
}

// finishedAttention makes one operation of finishHeads and the attention of its
// queries, which heads the rest of the list.
func finishedAttention(o op, rest []op) (op, bool) {
	if len(rest) == 0 || rest[0].kind != attend {
		return op{}, false
	}
	next := &rest[0]
	same := next.x == o.x && next.kv == o.kv && next.layer == o.layer && next.dim == o.dim
	// Attention must not write the keys that its other blocks still read.
	if !same || next.overwrites(o.keys) || next.overwrites(o.vals) || !dead(o.x, rest[1:]) && !next.overwrites(o.x) {
		return op{}, false
	}
	o.kind, o.dst, o.scale, o.window = finishAttend, next.dst, next.scale, next.window
	return o, true
}

// finishedHeads makes one operation of the head norms and rotates of queries and
// keys and the store behind them, and returns their number, 0 if something else
// heads the list.
func finishedHeads(list []op) (op, int) {
	o := op{kind: finishHeads}
	at := 0
	next := func(k kind) *op {
		if at < len(list) && list[at].kind == k {
			return &list[at]
		}
		return nil
	}
	var normQ, normK, rotateQ, rotateK *op
	if normQ = next(headNorm); normQ != nil {
		at++
		if normK = next(headNorm); normK == nil {
			return op{}, 0
		}
		at++
	}
	if rotateQ = next(rotate); rotateQ == nil {
		return op{}, 0
	}
	at++
	if rotateK = next(rotate); rotateK == nil {
		return op{}, 0
	}
	at++
	stored := next(store)
	if stored == nil {
		return op{}, 0
	}
	at++
	q, k := rotateQ.x, rotateK.x
	same := rotateQ.rope == rotateK.rope && rotateQ.dim == stored.dim && rotateK.dim == stored.dim && stored.keys == k &&
		q != k && stored.vals != q && stored.vals != k
	if normQ != nil {
		same = same && normQ.x == q && normK.x == k && normQ.eps == normK.eps && normQ.dim == stored.dim && normK.dim == stored.dim
	}
	if !same || !dead(k, list[at:]) {
		return op{}, 0
	}
	o.x, o.keys, o.vals, o.kv, o.layer, o.dim, o.rope = q, k, stored.vals, stored.kv, stored.layer, stored.dim, rotateQ.rope
	if normQ != nil {
		o.norm, o.kNorm, o.eps = normQ.w[0], normK.w[0], normQ.eps
	}
	return o, at
}

// dead tells whether no operation reads what t holds before it is overwritten.
// After the step, nobody does.
func dead(t *tensor, rest []op) bool {
	for i := range rest {
		if rest[i].reads(t) {
			return false
		}
		if rest[i].overwrites(t) {
			return true
		}
	}
	return true
}
