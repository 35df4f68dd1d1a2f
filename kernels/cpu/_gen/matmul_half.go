package main

import "fmt"

// The products of 16-bit floats keep the registers of the matrix kernels, with rows of f32
// activations and a count of columns. Every level adds column by column, see
// matMulHalfGeneric.
const halfParameters = "out *float32, w *byte, x *float32, ldo int, groups int, k int"

func halfFile() *file {
	f := &file{}
	for _, kind := range []string{"F16", "BF16"} {
		for tokens := 1; tokens <= 4; tokens++ {
			matMulHalf(f, kind, tile{level: "AVX2", ahead: true, tokens: tokens, cells: 2, bytes: 32, acc: regs("Y", 0, 2*tokens)})
			matMulHalf(f, kind, tile512(tokens))
		}
		matMulHalf(f, kind, tile512(8))
		matMulHalf(f, kind, oneAhead512())
	}
	return f
}

func matMulHalf(f *file, kind string, t tile) {
	f.begin(t.name(kind), fmt.Sprintf("multiplies groups of rows with %d tokens.", t.tokens), halfParameters, "")
	f.load("out", "DI", "w", "SI", "groups", "R13", "k", "R8")
	f.op("SHLQ $2, R8")
	if t.tokens > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
	}
	if t.tokens <= 4 {
		t.outStrides(f)
	}
	f.label("group")
	f.load("x", "DX", "k", "CX")
	if t.tokens > 4 {
		f.op("LEAQ (DX)(R8*4), R12")
	}
	for _, acc := range t.acc {
		clear(f, acc)
	}
	f.label("column")
	weights := regs(map[int]string{32: "Y", 64: "Z"}[t.bytes], 8, t.cells)
	t.prefetch(f, 0)
	for c, w := range weights {
		switch kind {
		case "F16":
			f.op("VCVTPH2PS %d(SI), %s", t.bytes/2*c, w)
		case "BF16":
			f.op("VPMOVZXWD %d(SI), %s", t.bytes/2*c, w)
			f.op("VPSLLD $16, %s, %s", w, w)
		}
	}
	for token := range t.tokens {
		if t.bytes == 64 {
			f.op("VFMADD231PS.BCST %s, %s, %s", x(0, token), weights[0], t.acc[token])
			continue
		}
		f.op("VBROADCASTSS %s, Y10", x(0, token))
		for c, w := range weights {
			f.op("VFMADD231PS Y10, %s, %s", w, t.acc[t.cell(token, c)])
		}
	}
	f.op("ADDQ $32, SI")
	f.op("ADDQ $4, DX")
	if t.tokens > 4 {
		f.op("ADDQ $4, R12")
	}
	f.op("DECQ CX")
	f.op("JNZ column")
	if t.tokens > 4 {
		t.outStrides(f)
		f.op("LEAQ (DI)(R12*4), AX")
	}
	t.each(func(token, c int) { f.op("VMOVUPS %s, %s", t.acc[t.cell(token, c)], t.out(token, c)) })
	f.op("ADDQ $64, DI")
	f.op("DECQ R13")
	f.op("JNZ group")
	f.end()
}
