package main

import "fmt"

// The matrix kernels keep these registers:
//
//	SI weights    DX activations  R8, R9    1 and 3 rows of activations in bytes
//	DI out        BX meta         R10, R11  1 and 3 rows of meta in bytes
//	CX blocks     R13 groups      R12, R15  1 and 3 rows of out in bytes
//
// Every level adds to the f32 accumulator in the same order, see matMulQ4Generic.
const matMulParameters = "out *float32, w *byte, x *int8, meta *Meta, ldo int, groups int, blocks int"

const (
	q4Bytes, q8Bytes           = 320, 544
	metaD, metaDSum, metaBias  = 0, 4, 8
	metaBytes                  = 12
	q4Scales, q4Mins, q8Scales = 256, 288, 512
)

// prefetchAhead is how far the AVX2 forms read weights ahead, in bytes. The hardware stops
// at each page: with this, a Zen 3 core streams weights for one token as fast as it reads
// plain memory, without, at 0.8 of it; for two to four tokens it gains a third. The VNNI
// forms go without, because a Zen 4 core lost by it. See RATIONALE.md: prefetching weights.
const prefetchAhead = 2560

func matMulFile() *file {
	f := &file{}
	for tokens := 1; tokens <= 4; tokens++ {
		matMul(f, q4AVX2, avx2(tokens))
		matMul(f, q8AVX2, avx2(tokens))
		matMul(f, q4VNNI, vnni(tokens))
		matMul(f, q8VNNI, vnni(tokens))
	}
	return f
}

func x(displacement, token int) string { return at(displacement, "DX", token, "R8", "R9") }

func meta(displacement, token int) string { return at(displacement, "BX", token, "R10", "R11") }

// format is one packed form on one level.
type format struct {
	name       string
	blockBytes int
	// block adds one block to the tile.
	block func(f *file, t tile)
}

// tile is the f32 accumulators of some tokens by 16 rows, a cell for each vector. They
// live in registers or, if acc is empty, in out itself: a load and a store a block cost
// less than a second pass over the weights for want of registers.
type tile struct {
	tokens, cells int      // cells of one token
	bytes         int      // of a cell
	acc           []string // [tokens, cells]
	sum           []string // integer sums of a block, alike
}

func (t tile) cell(token, c int) int { return token*t.cells + c }

// out addresses a cell in memory.
func (t tile) out(token, c int) string { return at(t.bytes*c, "DI", token, "R12", "R15") }

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

// matMul writes the function of one format for a number of tokens.
func matMul(f *file, v format, t tile) {
	f.begin(fmt.Sprintf("%sT%d", v.name, t.tokens), fmt.Sprintf("multiplies groups of rows with %d tokens.", t.tokens), matMulParameters, "")
	f.load("out", "DI", "w", "SI", "ldo", "R12", "groups", "R13", "blocks", "R8")
	f.op("SHLQ $2, R12")
	f.op("IMUL3Q $%d, R8, R10", metaBytes)
	f.op("SHLQ $5, R8")
	if t.tokens > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
		f.op("LEAQ (R10)(R10*2), R11")
		f.op("LEAQ (R12)(R12*2), R15")
	}
	f.label("group")
	f.load("x", "DX", "meta", "BX", "blocks", "CX")
	for _, acc := range t.acc {
		clear(f, acc)
	}
	if len(t.acc) == 0 {
		clear(f, "Y0")
		t.each(func(token, c int) { f.op("VMOVUPS Y0, %s", t.out(token, c)) })
	}
	f.label("block")
	if t.cells == 2 {
		for line := 0; line < v.blockBytes; line += 64 {
			f.op("PREFETCHT0 %d(SI)", prefetchAhead+line)
		}
	}
	v.block(f, t)
	f.op("ADDQ $%d, SI", v.blockBytes)
	f.op("ADDQ $32, DX")
	f.op("ADDQ $%d, BX", metaBytes)
	f.op("DECQ CX")
	f.op("JNZ block")
	if len(t.acc) > 0 {
		t.each(func(token, c int) { f.op("VMOVUPS %s, %s", t.acc[t.cell(token, c)], t.out(token, c)) })
	}
	f.op("ADDQ $64, DI")
	f.op("DECQ R13")
	f.op("JNZ group")
	f.end()
}

func (t tile) each(visit func(token, c int)) {
	for token := range t.tokens {
		for c := range t.cells {
			visit(token, c)
		}
	}
}

func clear(f *file, reg string) {
	if reg[0] == 'Z' {
		f.op("VPXORD %s, %s, %s", reg, reg, reg)
		return
	}
	f.op("VXORPS %s, %s, %s", reg, reg, reg)
}

// avx2 is a tile of two cells of eight rows. Beside its sums there are registers for the
// accumulators of two tokens.
func avx2(tokens int) tile {
	t := tile{tokens: tokens, cells: 2, bytes: 32, sum: regs("Y", 0, 2*tokens)}
	if tokens <= 2 {
		t.acc = regs("Y", 4, 2*tokens)
	}
	return t
}

// vnni is a tile of one cell of 16 rows.
func vnni(tokens int) tile {
	return tile{tokens: tokens, cells: 1, bytes: 64, acc: regs("Z", 0, tokens), sum: regs("Z", 4, tokens)}
}

// q4AVX2 multiplies unsigned nibbles with signed bytes in pairs. Eight such sums fit
// 16 bits: 16·15·127 = 30480.
var q4AVX2 = format{name: "matMulQ4AVX2", blockBytes: q4Bytes, block: func(f *file, t tile) {
	nibbles, ones := f.every("nibbles", 0x0f0f0f0f), f.every("ones", 0x00010001)
	low, high := regs("Y", 8, 2), regs("Y", 10, 2)
	for j := range 4 {
		for c := range t.cells {
			f.op("VMOVDQU %d(SI), %s", 64*j+32*c, high[c])
			f.op("VPAND %s, %s, %s", nibbles, high[c], low[c])
			f.op("VPSRLW $4, %s, %s", high[c], high[c])
			f.op("VPAND %s, %s, %s", nibbles, high[c], high[c])
		}
		for token := range t.tokens {
			f.op("VPBROADCASTD %s, Y12", x(8*j, token))
			f.op("VPBROADCASTD %s, Y13", x(8*j+4, token))
			for c := range t.cells {
				sum := t.sum[t.cell(token, c)]
				if j == 0 {
					f.op("VPMADDUBSW Y12, %s, %s", low[c], sum)
				} else {
					f.op("VPMADDUBSW Y12, %s, Y14", low[c])
					f.op("VPADDW Y14, %s, %s", sum, sum)
				}
				f.op("VPMADDUBSW Y13, %s, Y15", high[c])
				f.op("VPADDW Y15, %s, %s", sum, sum)
			}
		}
	}
	d, m := low, high
	for c := range t.cells {
		f.op("VCVTPH2PS %d(SI), %s", q4Scales+16*c, d[c])
		f.op("VCVTPH2PS %d(SI), %s", q4Mins+16*c, m[c])
	}
	for token := range t.tokens {
		f.op("VBROADCASTSS %s, Y12", meta(metaD, token))
		f.op("VBROADCASTSS %s, Y13", meta(metaDSum, token))
		for c := range t.cells {
			sum := t.sum[t.cell(token, c)]
			f.op("VPMADDWD %s, %s, %s", ones, sum, sum)
			f.op("VCVTDQ2PS %s, %s", sum, sum)
			f.op("VMULPS Y12, %s, Y14", d[c])
			t.accumulate(f, token, c, "Y15", func(acc string) {
				f.op("VFMADD231PS Y13, %s, %s", m[c], acc)
				f.op("VFMADD231PS %s, Y14, %s", sum, acc)
			})
		}
	}
}}

// q8AVX2 moves the weights' signs to the activations, because the instruction wants one
// unsigned side: |-128| is 128 there, and an activation is never -128, so a pair stays
// below 2·128·127 = 32512.
var q8AVX2 = format{name: "matMulQ8AVX2", blockBytes: q8Bytes, block: func(f *file, t tile) {
	w, magnitude := regs("Y", 8, 2), regs("Y", 10, 2)
	f.op("VMOVDQU %s, Y15", f.every("ones", 0x00010001))
	for j := range 8 {
		for c := range t.cells {
			f.op("VMOVDQU %d(SI), %s", 64*j+32*c, w[c])
			f.op("VPABSB %s, %s", w[c], magnitude[c])
		}
		for token := range t.tokens {
			f.op("VPBROADCASTD %s, Y12", x(4*j, token))
			for c := range t.cells {
				sum := t.sum[t.cell(token, c)]
				f.op("VPSIGNB %s, Y12, Y13", w[c])
				f.op("VPMADDUBSW Y13, %s, Y13", magnitude[c])
				if j == 0 {
					f.op("VPMADDWD Y15, Y13, %s", sum)
				} else {
					f.op("VPMADDWD Y15, Y13, Y13")
					f.op("VPADDD Y13, %s, %s", sum, sum)
				}
			}
		}
	}
	d := w
	for c := range t.cells {
		f.op("VCVTPH2PS %d(SI), %s", q8Scales+16*c, d[c])
	}
	for token := range t.tokens {
		f.op("VBROADCASTSS %s, Y12", meta(metaD, token))
		for c := range t.cells {
			sum := t.sum[t.cell(token, c)]
			f.op("VCVTDQ2PS %s, %s", sum, sum)
			f.op("VMULPS Y12, %s, Y13", d[c])
			t.accumulate(f, token, c, "Y15", func(acc string) {
				f.op("VFMADD231PS %s, Y13, %s", sum, acc)
			})
		}
	}
}}

// q4VNNI keeps a block of weights in Z24…Z31 while the tokens pass.
var q4VNNI = format{name: "matMulQ4VNNI", blockBytes: q4Bytes, block: func(f *file, t tile) {
	w := regs("Z", 24, 8)
	f.op("VPBROADCASTD %s, Z21", f.every("nibbles", 0x0f0f0f0f))
	for j := range 4 {
		low, high := w[2*j], w[2*j+1]
		f.op("VMOVDQU64 %d(SI), %s", 64*j, high)
		f.op("VPANDD Z21, %s, %s", high, low)
		f.op("VPSRLW $4, %s, %s", high, high)
		f.op("VPANDD Z21, %s, %s", high, high)
	}
	f.op("VCVTPH2PS %d(SI), Z22", q4Scales)
	f.op("VCVTPH2PS %d(SI), Z23", q4Mins)
	for token := range t.tokens {
		acc, sum, scale := t.acc[token], t.sum[token], fmt.Sprintf("Z%d", 8+token)
		clear(f, sum)
		for j := range 8 {
			f.op("VPDPBUSD.BCST %s, %s, %s", x(4*j, token), w[j], sum)
		}
		f.op("VMULPS.BCST %s, Z22, %s", meta(metaD, token), scale)
		f.op("VCVTDQ2PS %s, %s", sum, sum)
		f.op("VFMADD231PS.BCST %s, Z23, %s", meta(metaDSum, token), acc)
		f.op("VFMADD231PS %s, %s, %s", sum, scale, acc)
	}
}}

// q8VNNI flips the weights' sign bit, which makes them unsigned q+128; the sum starts at
// the -128·Σx that this adds. VPDPBUSD does not saturate.
var q8VNNI = format{name: "matMulQ8VNNI", blockBytes: q8Bytes, block: func(f *file, t tile) {
	w := regs("Z", 24, 8)
	f.op("VPBROADCASTD %s, Z21", f.every("signs", 0x80808080))
	for j := range 8 {
		f.op("VPXORD %d(SI), Z21, %s", 64*j, w[j])
	}
	f.op("VCVTPH2PS %d(SI), Z22", q8Scales)
	for token := range t.tokens {
		acc, sum, scale := t.acc[token], t.sum[token], fmt.Sprintf("Z%d", 8+token)
		f.op("VPBROADCASTD %s, %s", meta(metaBias, token), sum)
		for j := range 8 {
			f.op("VPDPBUSD.BCST %s, %s, %s", x(4*j, token), w[j], sum)
		}
		f.op("VMULPS.BCST %s, Z22, %s", meta(metaD, token), scale)
		f.op("VCVTDQ2PS %s, %s", sum, sum)
		f.op("VFMADD231PS %s, %s, %s", sum, scale, acc)
	}
}}
