package main

import "fmt"

// The matrix kernels for NEON keep these registers:
//
//	R0 out      R1 weights of the group  R2 x, R3 meta of the tile
//	R4 row of out in bytes               R5 groups    R6 blocks
//	R7 row of x in bytes                 R19 row of meta in bytes
//	R8 … R11    activations of a token   R12 … R15    its meta
//	R20 weights R21 blocks left          R22 header   R23 blocks until the next header
//
// A weight vector is a cell of four rows by four columns. It is multiplied with
// four activations of each token: SDOT by element.
type neonTile struct {
	tokens, cells int // cells of a pass; four make a group
}

func newNeonTile(tokens int) neonTile {
	if tokens <= 2 {
		return neonTile{tokens, 4}
	}
	return neonTile{tokens, 2} // or the sums would need more than the 32 vectors
}

// Vectors: accumulators, sums, activations from the first on, then what is
// scratch in turn, and constants.
func (t neonTile) acc(token, c int) int  { return token*t.cells + c }
func (t neonTile) sum(token, c int) int  { return (t.tokens+token)*t.cells + c }
func (t neonTile) x(token, half int) int { return 2*t.tokens*t.cells + 2*token + half }

const (
	neonLow, neonHigh, neonScratch        = 24, 25, 26
	neonNibbles, neonUpper, neonZero      = 27, 28, 29
	neonMeta, neonMinimum                 = 30, 31
	neonScale, neonProduct, neonX, neonXM = neonLow, neonHigh, 8, 12 // the last two: first general registers
)

func neonMatMulFile() *neonFile {
	f := &neonFile{}
	for _, v := range forms {
		for tokens := 1; tokens <= 4; tokens++ {
			neonMatMul(f, v, newNeonTile(tokens))
		}
	}
	for _, bf16 := range []bool{false, true} {
		for tokens := 1; tokens <= 4; tokens++ {
			neonHalf(f, bf16, tokens)
		}
	}
	return f
}

func neonMatMul(f *neonFile, v form, t neonTile) {
	f.begin(fmt.Sprintf("matMul%sNEONT%d", v.name, t.tokens), fmt.Sprintf("multiplies groups of rows with %d tokens.", t.tokens), matMulParameters, "")
	f.arguments("out", "R0", "w", "R1", "x", "R2", "meta", "R3", "ldo", "R4", "groups", "R5", "blocks", "R6")
	f.op("LSL $2, R4, R4")
	f.op("LSL $5, R6, R7")
	f.op("MOVD $%d, R19", metaBytes)
	f.op("MUL R6, R19, R19")
	if v.bits < 8 {
		f.bytes(15, neonNibbles)
	}
	if v.bits == 5 || v.bits == 6 {
		f.bytes((1<<(v.bits-4)-1)<<4, neonUpper)
	}
	if v.zero > 0 {
		f.bytes(v.zero, neonZero)
	}
	f.label("group")
	for pass := 0; pass < 4; pass += t.cells {
		name := func(label string) string { return fmt.Sprintf("%s%d", label, pass) }
		f.op("MOVD R1, R20")
		f.op("MOVD R6, R21")
		for token := range t.tokens {
			if token == 0 {
				f.op("MOVD R2, R%d", neonX)
				f.op("MOVD R3, R%d", neonXM)
				continue
			}
			f.op("ADD R7, R%d, R%d", neonX+token-1, neonX+token)
			f.op("ADD R19, R%d, R%d", neonXM+token-1, neonXM+token)
		}
		for i := range t.tokens * t.cells {
			f.zero(i)
		}
		if v.super {
			f.label(name("super"))
			f.op("MOVD R20, R22")
			f.op("ADD $%d, R20, R20", v.headerBytes())
			f.op("MOVD $%d, R23", superBlocks)
		}
		f.label(name("block"))
		neonBlock(f, v, t, pass)
		f.op("ADD $%d, R20, R20", v.blockBytes())
		for token := range t.tokens {
			f.op("ADD $32, R%d, R%d", neonX+token, neonX+token)
			f.op("ADD $%d, R%d, R%d", metaBytes, neonXM+token, neonXM+token)
		}
		if v.super {
			f.again("R23", name("block"))
			f.op("SUBS $%d, R21, R21", superBlocks)
			f.op("BNE %s", name("super"))
		} else {
			f.again("R21", name("block"))
		}
		neonStore(f, t, pass)
	}
	f.op("MOVD R20, R1")
	f.op("ADD $64, R0, R0")
	f.again("R5", "group")
	f.ret()
}

// neonStore writes a pass's accumulators to the rows of out.
func neonStore(f *neonFile, t neonTile, pass int) {
	f.op("MOVD R0, R24")
	for token := range t.tokens {
		for c := range t.cells {
			f.store128(t.acc(token, c), 16*(pass+c), "R24")
		}
		if token < t.tokens-1 {
			f.op("ADD R4, R24, R24")
		}
	}
}

// neonBlock adds a block to the accumulators: part by part the exact sums, then the
// minimums and the sums by one fused multiply-add each, as matMulGeneric does.
func neonBlock(f *neonFile, v form, t neonTile, pass int) {
	for token := range t.tokens {
		for half := range 2 {
			f.load128(16*half, fmt.Sprintf("R%d", neonX+token), t.x(token, half))
		}
	}
	columns := 8 / v.parts()
	for part := range v.parts() {
		for token := range t.tokens {
			for c := range t.cells {
				f.zero(t.sum(token, c))
			}
		}
		for column := part * columns; column < (part+1)*columns; column += 2 {
			for c := range t.cells {
				neonCodes(f, v, column/2, 16*(pass+c))
				for i, codes := range []int{neonLow, neonHigh} {
					for token := range t.tokens {
						f.sdotBy(t.sum(token, c), codes, t.x(token, (column+i)/4), (column+i)%4)
					}
				}
			}
		}
		for c := range t.cells {
			neonFactor(f, v, v.scalesAt()+16*part, 0, pass+c, v.halves, neonScale)
			if v.minimum {
				neonFactor(f, v, v.minimumsAt(), 32, pass+c, false, neonMinimum)
			}
			for token := range t.tokens {
				acc, sum := t.acc(token, c), t.sum(token, c)
				f.load64(metaD, fmt.Sprintf("R%d", neonXM+token), neonMeta) // D and DSum
				f.scvtf(sum, sum)
				f.fmulBy(neonProduct, neonScale, neonMeta, 0)
				if v.minimum {
					f.fmlaBy(acc, neonMinimum, neonMeta, 1)
				}
				f.fmla(acc, sum, neonProduct)
			}
		}
	}
}

// neonCodes unpacks columns 8·pair … 8·pair+3 of a cell into low and the next four into
// high, less their zero; at is the cell's place in a line.
func neonCodes(f *neonFile, v form, pair, at int) {
	if v.bits == 8 {
		f.load128(128*pair+at, "R20", neonLow)
		f.load128(128*pair+64+at, "R20", neonHigh)
		return
	}
	f.load128(64*pair+at, "R20", neonHigh)
	f.op("VAND V%d.B16, V%d.B16, V%d.B16", neonNibbles, neonHigh, neonLow)
	f.op("VUSHR $4, V%d.B16, V%d.B16", neonHigh, neonHigh)
	for i, reg := range []int{neonLow, neonHigh} {
		if width := v.bits - 4; width > 0 {
			// A byte of a plane has the upper bits of four or eight codes; those of the code
			// in question are moved to bit 4.
			bit := (2*pair + i) * width
			f.load128(256+64*(bit/8)+at, "R20", neonScratch)
			switch shift := 4 - bit%8; {
			case shift > 0:
				f.op("VSHL $%d, V%d.B16, V%d.B16", shift, neonScratch, neonScratch)
			case shift < 0:
				f.op("VUSHR $%d, V%d.B16, V%d.B16", -shift, neonScratch, neonScratch)
			}
			f.op("VAND V%d.B16, V%d.B16, V%d.B16", neonUpper, neonScratch, neonScratch)
			f.op("VORR V%d.B16, V%d.B16, V%d.B16", neonScratch, reg, reg)
		}
		if v.zero > 0 {
			f.op("VSUB V%d.B16, V%d.B16, V%d.B16", neonZero, reg, reg)
		}
	}
}

// neonFactor loads a cell's f16 factors, or bytes at an offset of the block times the f16
// of the header.
func neonFactor(f *neonFile, v form, offset, header, c int, signed bool, reg int) {
	if !v.super {
		f.load64(offset+8*c, "R20", reg)
		f.fcvtl(reg, reg)
		return
	}
	f.load32(offset+4*c, "R20", reg)
	f.widen(reg, reg, signed)
	f.scvtf(reg, reg)
	f.load64(header+8*c, "R22", neonScratch)
	f.fcvtl(neonScratch, neonScratch)
	f.fmul(reg, reg, neonScratch)
}

// neonHalf writes the function for 16-bit floats: a column of 16 rows at a time, which
// the tokens share.
func neonHalf(f *neonFile, bf16 bool, tokens int) {
	kind := map[bool]string{false: "F16", true: "BF16"}[bf16]
	f.begin(fmt.Sprintf("matMul%sNEONT%d", kind, tokens), fmt.Sprintf("multiplies groups of rows with %d tokens.", tokens),
		"out *float32, w *byte, x *float32, ldo int, groups int, k int", "")
	f.arguments("out", "R0", "w", "R1", "x", "R2", "ldo", "R4", "groups", "R5", "k", "R6")
	f.op("LSL $2, R4, R4")
	f.op("LSL $2, R6, R7")
	t := neonTile{tokens, 4}
	weights, x := []int{20, 21, 22, 23}, 24
	f.label("group")
	f.op("MOVD R6, R21")
	for token := range tokens {
		if token == 0 {
			f.op("MOVD R2, R%d", neonX)
			continue
		}
		f.op("ADD R7, R%d, R%d", neonX+token-1, neonX+token)
	}
	for i := range 4 * tokens {
		f.zero(i)
	}
	f.label("column")
	for i := range 2 {
		f.load128(16*i, "R1", 18+i)
		low, high := weights[2*i], weights[2*i+1]
		if bf16 {
			f.shll(low, 18+i)
			f.shll2(high, 18+i)
		} else {
			f.fcvtl(low, 18+i)
			f.fcvtl2(high, 18+i)
		}
	}
	f.op("ADD $32, R1, R1")
	for token := range tokens {
		f.load32(0, fmt.Sprintf("R%d", neonX+token), x+token)
		f.op("ADD $4, R%d, R%d", neonX+token, neonX+token)
	}
	for token := range tokens {
		for c, w := range weights {
			f.fmlaBy(t.acc(token, c), w, x+token, 0)
		}
	}
	f.again("R21", "column")
	neonStore(f, t, 0)
	f.op("ADD $64, R0, R0")
	f.again("R5", "group")
	f.ret()
}
