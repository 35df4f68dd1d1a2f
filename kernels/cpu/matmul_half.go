package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
)

// matMulHalfFunc multiplies groups of packed rows of 16-bit floats with at most
// a tile's tokens, as matMulFunc does.
type matMulHalfFunc func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int)

// PackedHalfBytes returns the size of a packed matrix of 16-bit floats of rows × k.
func PackedHalfBytes(rows, k int) int { return Groups(rows) * GroupRows * 2 * k }

// PackF16 repacks row-major little-endian IEEE 754 halves, for MatMulF16.
func PackF16(dst, src []byte, rows, k int) error {
	return packHalf(dst, src, rows, k, 0x7c00, F32FromF16)
}

// PackBF16 repacks row-major little-endian bfloat16, for MatMulBF16.
func PackBF16(dst, src []byte, rows, k int) error {
	return packHalf(dst, src, rows, k, 0x7f80, f32FromBF16)
}

// f32FromBF16 widens a bfloat16, which is the upper half of an f32.
func f32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// packHalf moves rows into groups. All bits of the exponent mark what is not finite.
func packHalf(dst, src []byte, rows, k int, exponent uint16, widen func(uint16) float32) error {
	if rows < 0 || k < 0 {
		return fmt.Errorf("pack %d rows of %d columns", rows, k)
	}
	if rows == 0 || k == 0 {
		return nil
	}
	if have := len(src) / 2 / k; have < rows {
		return fmt.Errorf("pack %d rows of %d columns: the source of %d bytes holds %d rows", rows, k, len(src), have)
	}
	groups := Groups(rows)
	if have := len(dst) / (2 * GroupRows) / k; have < groups {
		return fmt.Errorf("pack %d rows of %d columns: the destination of %d bytes holds %d groups of 16 rows, %d are needed", rows, k, len(dst), have, groups)
	}
	if rows%GroupRows != 0 {
		clear(dst[(groups-1)*2*GroupRows*k : groups*2*GroupRows*k])
	}
	for row := range rows {
		from, to := src[row*2*k:][:2*k], dst[row/GroupRows*2*GroupRows*k+2*(row%GroupRows):]
		for i := range k {
			h := binary.LittleEndian.Uint16(from[2*i:])
			if h&exponent == exponent {
				return fmt.Errorf("pack row %d, column %d: weight %g is not finite", row, i, widen(h))
			}
			binary.LittleEndian.PutUint16(to[2*GroupRows*i:], h)
		}
	}
	return nil
}

// MatMulF16 computes out[t·ldo + r] = Σ w[r, i]·x[t, i] for the 16·groups rows of a matrix
// that PackF16 has packed and all tokens. x is [tokens, k]. Padding rows are written
// too.
func (o *Ops) MatMulF16(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
	matMulHalf(o.matMulF16, o.halfTile, out, ldo, w, groups, x, tokens, k)
}

// MatMulBF16 is MatMulF16 for a matrix that PackBF16 has packed.
func (o *Ops) MatMulBF16(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
	matMulHalf(o.matMulBF16, o.halfTile, out, ldo, w, groups, x, tokens, k)
}

func matMulHalf(kernel matMulHalfFunc, tile int, out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
	rows := groups * GroupRows
	if groups < 0 || tokens < 0 || k < 0 || ldo < rows {
		panic("cpu: matmul of impossible shape")
	}
	if groups == 0 || tokens == 0 {
		return
	}
	groupBytes := 2 * GroupRows * k
	out = out[: (tokens-1)*ldo+rows : len(out)]
	w = w[: groups*groupBytes : len(w)]
	x = x[: tokens*k : len(x)]
	if k == 0 {
		for t := range tokens {
			clear(out[t*ldo:][:rows])
		}
		return
	}
	step := max(1, tileBytes/groupBytes)
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		for t := 0; t < tokens; t += tile {
			kernel(out[t*ldo+g*GroupRows:], ldo, w[g*groupBytes:], n, x[t*k:], min(tile, tokens-t), k)
		}
	}
}

// matMulHalfGeneric defines the result: a row's columns join its accumulator in their
// order, each by a fused multiply-add.
func matMulHalfGeneric(widen func(uint16) float32) matMulHalfFunc {
	return func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int) {
		for g := range groups {
			var acc [tileTokens][GroupRows]float32
			for i := range k {
				column := w[(g*k+i)*2*GroupRows:][:2*GroupRows]
				for r := range GroupRows {
					weight := widen(binary.LittleEndian.Uint16(column[2*r:]))
					for t := range tokens {
						acc[t][r] = fma32(weight, x[t*k+i], acc[t][r])
					}
				}
			}
			for t := range tokens {
				copy(out[t*ldo+g*GroupRows:], acc[t][:])
			}
		}
	}
}

// UnpackRowF16 sets dst to row r of a group that PackF16 has packed.
func UnpackRowF16(dst []float32, group []byte, r int) { unpackRowHalf(dst, group, r, F32FromF16) }

// UnpackRowBF16 sets dst to row r of a group that PackBF16 has packed.
func UnpackRowBF16(dst []float32, group []byte, r int) { unpackRowHalf(dst, group, r, f32FromBF16) }

func unpackRowHalf(dst []float32, group []byte, r int, widen func(uint16) float32) {
	for i := range dst {
		dst[i] = widen(binary.LittleEndian.Uint16(group[2*GroupRows*i+2*r:]))
	}
}
