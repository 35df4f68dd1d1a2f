package cpu

// tileTokens is the number of tokens that share one pass over the weights.
const tileTokens = 4

// tileBytes bounds the weights of one kernel call, so that they stay in the first
// level cache while the tiles of tokens pass over them. It also bounds the time
// of an assembly call to a few microseconds.
const tileBytes = 16 << 10

// matMulFunc multiplies groups of packed rows with at most tileTokens tokens:
// out[t·ldo + r] for the 16·groups rows. The slices start at the tile's first
// element; k is 32·blocks.
type matMulFunc func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int)

// MatMulQ4 computes out[t·ldo + r] = Σ w[r, i]·x[t, i] for the 16·groups rows of a
// packed 4-bit matrix and all tokens. x is [tokens, k] with meta [tokens, k/32], as
// Quantize makes them; w holds the groups' blocks. Padding rows are written too.
func (o *Ops) MatMulQ4(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, k int) {
	matMul(o.matMulQ4, q4BlockBytes, out, ldo, w, groups, x, meta, tokens, k)
}

// MatMulQ8 is MatMulQ4 for a packed 8-bit matrix.
func (o *Ops) MatMulQ8(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, k int) {
	matMul(o.matMulQ8, q8BlockBytes, out, ldo, w, groups, x, meta, tokens, k)
}

func matMul(kernel matMulFunc, blockBytes int, out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, k int) {
	blocks := k / BlockColumns
	rows := groups * GroupRows
	if groups < 0 || tokens < 0 || k < 0 || k%BlockColumns != 0 || ldo < rows {
		panic("cpu: matmul of impossible shape")
	}
	if groups == 0 || tokens == 0 {
		return
	}
	// The assembly trusts these lengths. The third index makes a slice that is too short
	// panic even if its capacity would do.
	out = out[: (tokens-1)*ldo+rows : len(out)]
	w = w[: groups*blocks*blockBytes : len(w)]
	x = x[: tokens*k : len(x)]
	meta = meta[: tokens*blocks : len(meta)]
	if blocks == 0 {
		for t := range tokens {
			clear(out[t*ldo:][:rows])
		}
		return
	}
	groupBytes := blocks * blockBytes
	step := max(1, tileBytes/groupBytes)
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		for t := 0; t < tokens; t += tileTokens {
			kernel(out[t*ldo+g*GroupRows:], ldo, w[g*groupBytes:], n, x[t*k:], meta[t*blocks:], min(tileTokens, tokens-t), blocks)
		}
	}
}

// matMulQ4Generic defines the result: for each block, in order, first the minimum
// and then the exact integer sum join the row's accumulator, each by one fused
// multiply-add.
func matMulQ4Generic(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	for g := range groups {
		var acc [tileTokens][GroupRows]float32
		for b := range blocks {
			block := w[(g*blocks+b)*q4BlockBytes:][:q4BlockBytes]
			d, m := q4Scales(block)
			for t := range tokens {
				x := x[(t*blocks+b)*BlockColumns:][:BlockColumns]
				a := meta[t*blocks+b]
				for r := range GroupRows {
					var sum int32
					for j := range 4 {
						q := block[64*j+4*r:][:4]
						lo, hi := x[8*j:][:4], x[8*j+4:][:4]
						for i := range 4 {
							sum += int32(q[i]&15)*int32(lo[i]) + int32(q[i]>>4)*int32(hi[i])
						}
					}
					v := fma32(m[r], a.DSum, acc[t][r])
					acc[t][r] = fma32(float32(sum), d[r]*a.D, v)
				}
			}
		}
		for t := range tokens {
			copy(out[t*ldo+g*GroupRows:], acc[t][:])
		}
	}
}

// matMulQ8Generic is matMulQ4Generic without minimums.
func matMulQ8Generic(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
	for g := range groups {
		var acc [tileTokens][GroupRows]float32
		for b := range blocks {
			block := w[(g*blocks+b)*q8BlockBytes:][:q8BlockBytes]
			d := q8Scales(block)
			for t := range tokens {
				x := x[(t*blocks+b)*BlockColumns:][:BlockColumns]
				a := meta[t*blocks+b]
				for r := range GroupRows {
					var sum int32
					for j := range 8 {
						q, x := block[64*j+4*r:][:4], x[4*j:][:4]
						for i := range 4 {
							sum += int32(int8(q[i])) * int32(x[i])
						}
					}
					acc[t][r] = fma32(float32(sum), d[r]*a.D, acc[t][r])
				}
			}
		}
		for t := range tokens {
			copy(out[t*ldo+g*GroupRows:], acc[t][:])
		}
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
