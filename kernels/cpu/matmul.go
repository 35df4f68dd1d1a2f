package cpu

import "unsafe"

// tileTokens is the number of tokens that share one pass over the weights, maxTileTokens
// the most that a level may take instead.
const (
	tileTokens    = 4
	maxTileTokens = 8
)

// tileBytes bounds the weights of one kernel call, so that they stay in the first
// level cache while the tiles of tokens pass over them. It also bounds the time
// of an assembly call to a few microseconds.
const tileBytes = 16 << 10

// passBytes bounds the activations that pass over the weights, so that they stay in the
// second level cache from one group to the next.
const (
	passBytes = 128 << 10
	metaSize  = int(unsafe.Sizeof(Meta{}))
)

// matMulFunc multiplies groups of packed rows with at most a tile's tokens:
// out[t·ldo + r] for the 16·groups rows. The slices start at the tile's first
// element; k is 32·blocks.
type matMulFunc func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int)

// Arranges tells whether MatMul of so many tokens arranges the activations first, in each
// call: the more groups it is given, the better.
func (o *Ops) Arranges(tokens int) bool { return o.arranged > 0 && tokens >= o.arranged }

// MatMul computes out[t·ldo + r] = Σ w[r, i]·x[t, i] for the 16·groups rows of a packed
// matrix and all tokens. x is [tokens, k] with meta [tokens, k/32], as Quantize makes
// them; w holds the groups' blocks. Padding rows are written too.
func (o *Ops) MatMul(form Form, out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, k int) {
	blocks := k / BlockColumns
	rows := groups * GroupRows
	if groups < 0 || tokens < 0 || k < 0 || k%form.Columns() != 0 || ldo < rows {
		panic("cpu: matmul of impossible shape")
	}
	if groups == 0 || tokens == 0 {
		return
	}
	groupBytes := layouts[form].groupBytes(blocks)
	// The assembly trusts these lengths. The third index makes a slice that is too short
	// panic even if its capacity would do.
	out = out[: (tokens-1)*ldo+rows : len(out)]
	w = w[: groups*groupBytes : len(w)]
	x = x[: tokens*k : len(x)]
	meta = meta[: tokens*blocks : len(meta)]
	if blocks == 0 {
		for t := range tokens {
			clear(out[t*ldo:][:rows])
		}
		return
	}
	if o.tile == 0 {
		o.matMul[form](out, ldo, w, groups, x, meta, tokens, blocks)
		return
	}
	inTiles(o.matMul[form], o.tile, groupBytes, out, ldo, w, groups, x, meta, tokens, blocks)
}

// inTiles gives a kernel a tile's tokens at a time, and groups that stay in the caches meanwhile.
func inTiles(kernel matMulFunc, tile, groupBytes int, out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	k := blocks * BlockColumns
	step := max(1, tileBytes/groupBytes)
	pass := max(tile, passBytes/(k+blocks*metaSize)&^(tile-1))
	for first := 0; first < tokens; first += pass {
		last := min(first+pass, tokens)
		for g := 0; g < groups; g += step {
			n := min(step, groups-g)
			for t := first; t < last; t += tile {
				kernel(out[t*ldo+g*GroupRows:], ldo, w[g*groupBytes:], n, x[t*k:], meta[t*blocks:], min(tile, last-t), blocks)
			}
		}
	}
}

// matMulGeneric defines the result: for each block, in order, first the minimum
// and then the exact integer sum, or those of both halves, join the row's
// accumulator, each by one fused multiply-add.
func matMulGeneric(form Form) matMulFunc {
	l := &layouts[form]
	return func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
		groupBytes := l.groupBytes(blocks)
		var u block
		for g := range groups {
			var acc [maxTileTokens][GroupRows]float32
			for b := range blocks {
				l.unpack(&u, w[g*groupBytes:][:groupBytes], b)
				for t := range tokens {
					u.multiply(&acc[t], l, x[(t*blocks+b)*BlockColumns:][:BlockColumns], &meta[t*blocks+b])
				}
			}
			for t := range tokens {
				copy(out[t*ldo+g*GroupRows:], acc[t][:])
			}
		}
	}
}

// multiply adds a block's product with the activations of a token.
func (u *block) multiply(acc *[GroupRows]float32, l *layout, x []int8, a *Meta) {
	columns := BlockColumns / 4 / l.parts()
	for r := range GroupRows {
		v := acc[r]
		if l.minimum {
			v = fma32(u.minimums[r], a.DSum, v)
		}
		for part := range l.parts() {
			var sum int32
			for j := part * columns; j < (part+1)*columns; j++ {
				q, x := u.codes[64*j+4*r:][:4], x[4*j:][:4]
				for i := range 4 {
					sum += int32(q[i]) * int32(x[i])
				}
			}
			v = fma32(float32(sum), u.scales[part][r]*a.D, v)
		}
		acc[r] = v
	}
}

// MatMulF32 computes out[t·ldo + r] = w[r]·x[t] for unquantised weights; w is [rows, k],
// x is [tokens, k], both row-major. Each result is DotF32 of its two rows.
func (o *Ops) MatMulF32(out []float32, ldo int, w []float32, rows int, x []float32, tokens, k int) {
	if rows < 0 || tokens < 0 || k < 0 || ldo < rows {
		panic("cpu: matmul of impossible shape")
	}
	for r := range rows {
		for t := range tokens {
			out[t*ldo+r] = o.dot(w[r*k:][:k], x[t*k:][:k])
		}
	}
}
