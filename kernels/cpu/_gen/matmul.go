package main

import "fmt"

// The matrix kernels keep these registers:
//
//	SI weights    DX activations  R8, R9    1 and 3 rows of activations in bytes
//	DI out        BX meta         R10, R11  1 and 3 rows of meta in bytes
//	CX blocks     R13 groups      R12, R15  1 and 3 rows of out in bytes
//	AX header     R14 blocks until the next header
//
// Of eight tokens, R12 and R15 point to the fifth one's activations and meta instead, until
// the group is done; then AX points to its out.
//
// Every level adds to the f32 accumulator in the same order, see matMulGeneric.
const matMulParameters = "out *float32, w *byte, x *int8, meta *Meta, ldo int, groups int, blocks int"

// Offsets of a Meta's fields.
const (
	metaD, metaDSum, metaBias, metaPairs, metaHalves = 0, 4, 8, 12, 20
	metaBytes                                        = 28
)

// How far weights are read ahead, in bytes: by AVX2 into the first level of the caches, by
// the others into the second. The hardware stops at each page. See RATIONALE.md: prefetching
// weights.
const (
	prefetchFirst  = 2560
	prefetchSecond = 8192
)

func matMulFile() *file {
	f := &file{}
	for _, v := range forms {
		for tokens := 1; tokens <= 4; tokens++ {
			matMul(f, v, tile256("AVX2", tokens))
			matMul(f, v, tile256("AVXVNNI", tokens))
			matMul(f, v, tile512(tokens))
		}
		matMul(f, v, tile512(8))
		matMul(f, v, oneAhead512())
	}
	return f
}

func x(displacement, token int) string {
	if token >= 4 {
		return at(displacement, "R12", token-4, "R8", "R9")
	}
	return at(displacement, "DX", token, "R8", "R9")
}

func meta(displacement, token int) string {
	if token >= 4 {
		return at(displacement, "R15", token-4, "R10", "R11")
	}
	return at(displacement, "BX", token, "R10", "R11")
}

// tile is the f32 accumulators of some tokens by 16 rows, a cell for each vector. They
// live in registers or, if acc is empty, in out itself: a load and a store a block cost
// less than a second pass over the weights for want of registers.
type tile struct {
	level         string
	suffix        string   // of the function's name
	ahead         bool     // weights are prefetched
	tokens, cells int      // cells of one token
	bytes         int      // of a cell
	acc           []string // [tokens, cells]
	sum           []string // integer sums of a block, alike
}

// tile256 is a tile of two cells of eight rows. Beside its sums there are registers for the
// accumulators of two tokens.
func tile256(level string, tokens int) tile {
	t := tile{level: level, ahead: true, tokens: tokens, cells: 2, bytes: 32, sum: regs("Y", 0, 2*tokens)}
	if tokens <= 2 {
		t.acc = regs("Y", 4, 2*tokens)
	}
	return t
}

// tile512 is a tile of one cell of 16 rows.
func tile512(tokens int) tile {
	return tile{level: "AVX512", ahead: tokens > 1, tokens: tokens, cells: 1, bytes: 64, acc: regs("Z", 0, tokens), sum: regs("Z", 8, tokens)}
}

// oneAhead512 is tile512 of one token for processors that gain by prefetching its weights.
func oneAhead512() tile {
	t := tile512(1)
	t.ahead, t.suffix = true, "Ahead"
	return t
}

// prefetch reads one line ahead of the weights.
func (t tile) prefetch(f *file, line int) {
	switch {
	case !t.ahead:
	case t.level == "AVX2":
		f.op("PREFETCHT0 %d(SI)", prefetchFirst+line)
	default:
		f.op("PREFETCHT1 %d(SI)", prefetchSecond+line)
	}
}

// name is that of the function for a kind of weights.
func (t tile) name(weights string) string {
	return fmt.Sprintf("matMul%s%sT%d%s", weights, t.level, t.tokens, t.suffix)
}

func (t tile) cell(token, c int) int { return token*t.cells + c }

// rows is the number of rows of a cell.
func (t tile) rows() int { return t.bytes / 4 }

// out addresses a cell in memory.
func (t tile) out(token, c int) string {
	if token >= 4 {
		return at(t.bytes*c, "AX", token-4, "R12", "R15")
	}
	return at(t.bytes*c, "DI", token, "R12", "R15")
}

func (t tile) each(visit func(token, c int)) {
	for token := range t.tokens {
		for c := range t.cells {
			visit(token, c)
		}
	}
}

// accumulate lets add work on a cell's accumulator, in a register; the scratch register
// holds it if it lives in memory.
func (t tile) accumulate(f *file, token, c int, scratch string, add func(acc string)) {
	if len(t.acc) > 0 {
		add(t.acc[t.cell(token, c)])
		return
	}
	f.op("VMOVUPS %s, %s", t.out(token, c), scratch)
	add(scratch)
	f.op("VMOVUPS %s, %s", scratch, t.out(token, c))
}

// matMul writes the function of one form on one level for a number of tokens.
func matMul(f *file, v form, t tile) {
	f.begin(t.name(v.name), fmt.Sprintf("multiplies groups of rows with %d tokens.", t.tokens), matMulParameters, "")
	f.load("out", "DI", "w", "SI", "groups", "R13", "blocks", "R8")
	f.op("IMUL3Q $%d, R8, R10", metaBytes)
	f.op("SHLQ $5, R8")
	if t.tokens > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
		f.op("LEAQ (R10)(R10*2), R11")
	}
	if t.tokens <= 4 {
		t.outStrides(f)
	}
	if t.bytes == 64 {
		v.loadConstants(f)
	}
	f.label("group")
	f.load("x", "DX", "meta", "BX", "blocks", "CX")
	if t.tokens > 4 {
		f.op("LEAQ (DX)(R8*4), R12")
		f.op("LEAQ (BX)(R10*4), R15")
	}
	for _, acc := range t.acc {
		clear(f, acc)
	}
	if len(t.acc) == 0 {
		clear(f, "Y0")
		t.each(func(token, c int) { f.op("VMOVUPS Y0, %s", t.out(token, c)) })
	}
	if v.super {
		f.label("super")
		f.op("MOVQ SI, AX")
		f.op("ADDQ $%d, SI", v.headerBytes())
		f.op("MOVQ $%d, R14", superBlocks)
	}
	f.label("block")
	for line := 0; line < v.blockBytes(); line += 64 {
		t.prefetch(f, line)
	}
	switch {
	case t.bytes == 64:
		block512(f, v, t)
	case t.level == "AVX2" && v.bits == 8:
		blockSigned(f, v, t)
	default:
		block256(f, v, t)
	}
	f.op("ADDQ $%d, SI", v.blockBytes())
	f.op("ADDQ $32, DX")
	f.op("ADDQ $%d, BX", metaBytes)
	if t.tokens > 4 {
		f.op("ADDQ $32, R12")
		f.op("ADDQ $%d, R15", metaBytes)
	}
	if v.super {
		f.op("DECQ R14")
		f.op("JNZ block")
		f.op("SUBQ $%d, CX", superBlocks)
		f.op("JNZ super")
	} else {
		f.op("DECQ CX")
		f.op("JNZ block")
	}
	if t.tokens > 4 {
		t.outStrides(f)
		f.op("LEAQ (DI)(R12*4), AX")
	}
	if len(t.acc) > 0 {
		t.each(func(token, c int) { f.op("VMOVUPS %s, %s", t.acc[t.cell(token, c)], t.out(token, c)) })
	}
	f.op("ADDQ $64, DI")
	f.op("DECQ R13")
	f.op("JNZ group")
	f.end()
}

// outStrides loads one and three rows of out in bytes.
func (t tile) outStrides(f *file) {
	f.load("ldo", "R12")
	f.op("SHLQ $2, R12")
	if t.tokens > 3 {
		f.op("LEAQ (R12)(R12*2), R15")
	}
}

func clear(f *file, reg string) {
	if reg[0] == 'Z' {
		f.op("VPXORD %s, %s, %s", reg, reg, reg)
		return
	}
	f.op("VXORPS %s, %s, %s", reg, reg, reg)
}
