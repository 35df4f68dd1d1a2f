package main

import "fmt"

// The matrix kernels keep these registers:
//
//	SI weights    DX activations  R8, R9    1 and 3 rows of activations in bytes
//	DI out        BX meta         R10, R11  1 and 3 rows of meta in bytes
//	CX blocks     R13 groups      R12       one row of out in bytes
//
// Every level adds to the f32 accumulator in the same order, see matMulQ4Generic.
const matMulParameters = "out *float32, w *byte, x *int8, meta *Meta, ldo int, groups int, blocks int"

const (
	q4Bytes, q8Bytes           = 320, 544
	metaD, metaDSum, metaBias  = 0, 4, 8
	metaBytes                  = 12
	q4Scales, q4Mins, q8Scales = 256, 288, 512
)

func matMulFile() *file {
	f := &file{}
	for tokens := 1; tokens <= 4; tokens++ {
		matMulAVX2(f, tokens, q4AVX2)
		matMulAVX2(f, tokens, q8AVX2)
		matMulVNNI(f, tokens, q4VNNI)
		matMulVNNI(f, tokens, q8VNNI)
	}
	return f
}

func x(displacement, token int) string { return at(displacement, "DX", token, "R8", "R9") }

func meta(displacement, token int) string { return at(displacement, "BX", token, "R10", "R11") }

// format is one packed form on one level.
type format struct {
	name       string
	blockBytes int
	// prologue loads constants; block adds one block to the tile.
	prologue func(f *file)
	block    func(f *file, tile tile)
}

// tile is a set of accumulators: tokens × halves of eight rows, or tokens × 16 rows.
type tile struct {
	tokens int
	halves []int    // which halves of the 16 rows; AVX2 only
	acc    []string // f32 sums, [tokens, halves]
	sum    []string // integer sums of a block, alike
}

func (t tile) cell(token, half int) int { return token*len(t.halves) + half }

func matMulBegin(f *file, v format, tokens int) {
	f.begin(fmt.Sprintf("%sT%d", v.name, tokens), fmt.Sprintf("multiplies groups of rows with %d tokens.", tokens), matMulParameters, "")
	f.load("out", "DI", "w", "SI", "ldo", "R12", "groups", "R13", "blocks", "R8")
	f.op("SHLQ $2, R12")
	f.op("IMUL3Q $%d, R8, R10", metaBytes)
	f.op("SHLQ $5, R8")
	if tokens > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
		f.op("LEAQ (R10)(R10*2), R11")
	}
	v.prologue(f)
	f.label("group")
}

// pass runs over the blocks of a group for one tile.
func pass(f *file, label string, v format, t tile, clear string) {
	f.load("x", "DX", "meta", "BX", "blocks", "CX")
	for _, acc := range t.acc {
		f.op("%s %s, %s, %s", clear, acc, acc, acc)
	}
	f.label(label)
	v.block(f, t)
	f.op("ADDQ $%d, SI", v.blockBytes)
	f.op("ADDQ $32, DX")
	f.op("ADDQ $%d, BX", metaBytes)
	f.op("DECQ CX")
	f.op("JNZ %s", label)
	f.op("MOVQ DI, AX")
	for token := range t.tokens {
		for h, half := range t.halves {
			f.op("VMOVUPS %s, %d(AX)", t.acc[t.cell(token, h)], 32*half)
		}
		if token+1 < t.tokens {
			f.op("ADDQ R12, AX")
		}
	}
}

func matMulEnd(f *file) {
	f.op("ADDQ $64, DI")
	f.op("DECQ R13")
	f.op("JNZ group")
	f.end()
}

// matMulAVX2 has registers for four accumulators: up to two tokens take all 16 rows in
// one pass, more take the halves one after the other, the second from the cache.
func matMulAVX2(f *file, tokens int, v format) {
	matMulBegin(f, v, tokens)
	whole := func(halves ...int) tile {
		n := tokens * len(halves)
		return tile{tokens: tokens, halves: halves, acc: regs("Y", 0, n), sum: regs("Y", 4, n)}
	}
	if tokens <= 2 {
		pass(f, "block", v, whole(0, 1), "VXORPS")
	} else {
		f.op("MOVQ SI, R15")
		pass(f, "low", v, whole(0), "VXORPS")
		f.op("MOVQ R15, SI")
		pass(f, "high", v, whole(1), "VXORPS")
	}
	matMulEnd(f)
}

// q4AVX2 multiplies unsigned nibbles with signed bytes in pairs. Eight such sums fit
// 16 bits: 16·15·127 = 30480.
var q4AVX2 = format{name: "matMulQ4AVX2", blockBytes: q4Bytes,
	prologue: func(f *file) { f.op("VMOVDQU %s, Y15", f.every("nibbles", 0x0f0f0f0f)) },
	block: func(f *file, t tile) {
		low, high := regs("Y", 8, len(t.halves)), regs("Y", 10, len(t.halves))
		for j := range 4 {
			for h, half := range t.halves {
				f.op("VMOVDQU %d(SI), %s", 64*j+32*half, high[h])
				f.op("VPAND Y15, %s, %s", high[h], low[h])
				f.op("VPSRLW $4, %s, %s", high[h], high[h])
				f.op("VPAND Y15, %s, %s", high[h], high[h])
			}
			for token := range t.tokens {
				f.op("VPBROADCASTD %s, Y12", x(8*j, token))
				f.op("VPBROADCASTD %s, Y13", x(8*j+4, token))
				for h := range t.halves {
					sum := t.sum[t.cell(token, h)]
					if j == 0 {
						f.op("VPMADDUBSW Y12, %s, %s", low[h], sum)
					} else {
						f.op("VPMADDUBSW Y12, %s, Y14", low[h])
						f.op("VPADDW Y14, %s, %s", sum, sum)
					}
					f.op("VPMADDUBSW Y13, %s, Y14", high[h])
					f.op("VPADDW Y14, %s, %s", sum, sum)
				}
			}
		}
		d, m := low, high
		for h, half := range t.halves {
			f.op("VCVTPH2PS %d(SI), %s", q4Scales+16*half, d[h])
			f.op("VCVTPH2PS %d(SI), %s", q4Mins+16*half, m[h])
		}
		for token := range t.tokens {
			f.op("VBROADCASTSS %s, Y12", meta(metaD, token))
			f.op("VBROADCASTSS %s, Y13", meta(metaDSum, token))
			for h := range t.halves {
				acc, sum := t.acc[t.cell(token, h)], t.sum[t.cell(token, h)]
				f.op("VPMADDWD %s, %s, %s", f.every("ones", 0x00010001), sum, sum)
				f.op("VCVTDQ2PS %s, %s", sum, sum)
				f.op("VFMADD231PS Y13, %s, %s", m[h], acc)
				f.op("VMULPS Y12, %s, Y14", d[h])
				f.op("VFMADD231PS %s, Y14, %s", sum, acc)
			}
		}
	},
}

// q8AVX2 moves the weights' signs to the activations, because the instruction wants one
// unsigned side: |-128| is 128 there, and an activation is never -128, so a pair stays
// below 2·128·127 = 32512.
var q8AVX2 = format{name: "matMulQ8AVX2", blockBytes: q8Bytes,
	prologue: func(f *file) { f.op("VMOVDQU %s, Y15", f.every("ones", 0x00010001)) },
	block: func(f *file, t tile) {
		w, magnitude := regs("Y", 8, len(t.halves)), regs("Y", 10, len(t.halves))
		for j := range 8 {
			for h, half := range t.halves {
				f.op("VMOVDQU %d(SI), %s", 64*j+32*half, w[h])
				f.op("VPABSB %s, %s", w[h], magnitude[h])
			}
			for token := range t.tokens {
				f.op("VPBROADCASTD %s, Y12", x(4*j, token))
				for h := range t.halves {
					sum := t.sum[t.cell(token, h)]
					f.op("VPSIGNB %s, Y12, Y13", w[h])
					f.op("VPMADDUBSW Y13, %s, Y13", magnitude[h])
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
		for h, half := range t.halves {
			f.op("VCVTPH2PS %d(SI), %s", q8Scales+16*half, d[h])
		}
		for token := range t.tokens {
			f.op("VBROADCASTSS %s, Y12", meta(metaD, token))
			for h := range t.halves {
				acc, sum := t.acc[t.cell(token, h)], t.sum[t.cell(token, h)]
				f.op("VCVTDQ2PS %s, %s", sum, sum)
				f.op("VMULPS Y12, %s, Y13", d[h])
				f.op("VFMADD231PS %s, Y13, %s", sum, acc)
			}
		}
	},
}

// matMulVNNI takes 16 rows in one register and keeps a block of weights in Z24…Z31
// while the tokens pass.
func matMulVNNI(f *file, tokens int, v format) {
	matMulBegin(f, v, tokens)
	t := tile{tokens: tokens, halves: []int{0}, acc: regs("Z", 0, tokens), sum: regs("Z", 4, tokens)}
	pass(f, "block", v, t, "VPXORD")
	matMulEnd(f)
}

var q4VNNI = format{name: "matMulQ4VNNI", blockBytes: q4Bytes,
	prologue: func(f *file) { f.op("VPBROADCASTD %s, Z21", f.every("nibbles", 0x0f0f0f0f)) },
	block: func(f *file, t tile) {
		w := regs("Z", 24, 8)
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
			f.op("VPXORD %s, %s, %s", sum, sum, sum)
			for j := range 8 {
				f.op("VPDPBUSD.BCST %s, %s, %s", x(4*j, token), w[j], sum)
			}
			f.op("VMULPS.BCST %s, Z22, %s", meta(metaD, token), scale)
			f.op("VCVTDQ2PS %s, %s", sum, sum)
			f.op("VFMADD231PS.BCST %s, Z23, %s", meta(metaDSum, token), acc)
			f.op("VFMADD231PS %s, %s, %s", sum, scale, acc)
		}
	},
}

// q8VNNI flips the weights' sign bit, which makes them unsigned q+128; the sum starts at
// the -128·Σx that this adds. VPDPBUSD does not saturate.
var q8VNNI = format{name: "matMulQ8VNNI", blockBytes: q8Bytes,
	prologue: func(f *file) { f.op("VPBROADCASTD %s, Z21", f.every("signs", 0x80808080)) },
	block: func(f *file, t tile) {
		w := regs("Z", 24, 8)
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
	},
}
