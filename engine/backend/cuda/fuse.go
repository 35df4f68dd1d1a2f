package cuda

// fuse appends to fused what the list does in fewer launches, and returns it. few
// says that products of the step's rows norm their input themselves, as those of
// few rows do, fewSampled that those of the sampled rows do. Only neighbours are fused, and only where nobody later reads what is then not
// written:
//
//	norm, product                      → product with the norm
//	head norms, rotates, store         → finishHeads
func fuse(fused, list []op, few, fewSampled bool) []op {
	for len(list) > 0 {
		o, n := list[0], 1
		if o.kind == norm {
			if with, ok := normedProduct(list, few, fewSampled); ok {
				o, n = with, 2
			}
		} else if with, length := finishedHeads(list); length > 0 {
			o, n = with, length
		}
		fused, list = append(fused, o), list[n:]
	}
	return fused
}

// normedProduct makes one operation of a norm at the head of the list and the
// product behind it.
func normedProduct(list []op, few, fewSampled bool) (op, bool) {
	if len(list) < 2 {
		return op{}, false
	}
	first, o := &list[0], list[1]
	switch {
	case few && (o.kind == product || o.kind == gatedProduct), fewSampled && o.kind == logits:
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
