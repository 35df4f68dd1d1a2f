package main

import "fmt"

// With many queries keys are spread first: a panel is some keys as f32, a row for each
// dimension, so that a score is a lane. Then the eight sums of a score are eight vectors,
// which are added without moving a lane, and all the work is multiply-adds.
const (
	panelKeys  = 32
	panelBytes = 4 * panelKeys // of a dimension
)

// spread512 makes a panel of float16 keys. The registers take eight dimensions of 32 keys,
// key 8·lane + r in the 128-bit lanes of register r; transposing each 8 × 8 within its lane
// leaves a dimension's keys in order.
//
//	SI, R8, R9, R14 first, 9th, 17th and 25th key
//	R10, R11, R12, R13  1, 3, 5 and 7 keys in bytes
func spread512(f *file) {
	f.begin("spreadF16AVX512", fmt.Sprintf("makes a panel [dim, %d] of as many keys of a multiple of 8 dimensions.", panelKeys), "panel *float32, k *uint16, dim int", "")
	f.load("panel", "DI", "k", "SI", "dim", "CX")
	f.op("LEAQ (CX)(CX*1), R10")
	f.op("LEAQ (R10)(R10*2), R11")
	f.op("LEAQ (R10)(R10*4), R12")
	f.op("LEAQ (R11)(R10*4), R13")
	f.op("LEAQ (SI)(R10*8), R8")
	f.op("LEAQ (R8)(R10*8), R9")
	f.op("LEAQ (R9)(R10*8), R14")
	for lane := 1; lane < 4; lane++ {
		f.op("MOVL $%#x, AX", 0xf<<(4*lane))
		f.op("KMOVW AX, K%d", lane)
	}
	keys := regs("Z", 0, 8)
	f.label("dims")
	for r, key := range keys {
		index := []string{"", "(R10*1)", "(R10*2)", "(R11*1)", "(R10*4)", "(R12*1)", "(R11*2)", "(R13*1)"}[r]
		f.op("VMOVDQU (SI)%s, X%s", index, key[1:])
		for lane, pointer := range []string{"R8", "R9", "R14"} {
			f.op("VBROADCASTI32X4 (%s)%s, K%d, %s", pointer, index, lane+1, key)
		}
	}
	// Each stage joins neighbours of twice the width.
	words, longs, dims := regs("Z", 8, 8), regs("Z", 16, 8), regs("Z", 0, 8)
	for i := range 4 {
		f.op("VPUNPCKLWD %s, %s, %s", keys[2*i+1], keys[2*i], words[2*i])
		f.op("VPUNPCKHWD %s, %s, %s", keys[2*i+1], keys[2*i], words[2*i+1])
	}
	for i := range 2 { // of keys 4i … 4i+3: dimensions 0 1, 2 3, 4 5, 6 7
		for half := range 2 {
			f.op("VPUNPCKLDQ %s, %s, %s", words[4*i+2+half], words[4*i+half], longs[4*i+2*half])
			f.op("VPUNPCKHDQ %s, %s, %s", words[4*i+2+half], words[4*i+half], longs[4*i+2*half+1])
		}
	}
	for i := range 4 {
		f.op("VPUNPCKLQDQ %s, %s, %s", longs[4+i], longs[i], dims[2*i])
		f.op("VPUNPCKHQDQ %s, %s, %s", longs[4+i], longs[i], dims[2*i+1])
	}
	for i, dim := range dims {
		f.op("VEXTRACTI64X4 $1, %s, Y24", dim)
		f.op("VCVTPH2PS Y%s, Z25", dim[1:])
		f.op("VCVTPH2PS Y24, Z26")
		f.op("VMOVUPS Z25, %d(DI)", panelBytes*i)
		f.op("VMOVUPS Z26, %d(DI)", panelBytes*i+64)
	}
	for _, pointer := range []string{"SI", "R8", "R9", "R14"} {
		f.op("ADDQ $16, %s", pointer)
	}
	f.op("ADDQ $%d, DI", 8*panelBytes)
	f.op("SUBQ $8, CX")
	f.op("JNZ dims")
	f.end()
}

// panelScores512 multiplies pairs of queries with a panel: first the sums of dimensions 0 … 3
// of each eight, then the others. Two queries by two vectors of keys need a load for each
// multiply-add.
//
//	DX, BX queries  R8 a query in bytes  R9, R10 where they and the panel are read
//	DI dst  R12 a row of dst in bytes
func panelScores512(f *file) {
	f.begin("panelScoresAVX512", "multiplies pairs of queries with a panel.", "dst *float32, q *float32, panel *float32, ldd int, pairs int, dim int", "")
	f.load("dst", "DI", "q", "DX", "ldd", "R12", "pairs", "R13", "dim", "R8")
	f.op("SHLQ $2, R12")
	f.op("SHLQ $2, R8")
	f.label("pair")
	f.op("LEAQ (DX)(R8*1), BX")
	first := regs("Z", 16, 4) // the first half of the sums, [query, vector]
	for half := range 2 {
		acc := regs("Z", 0, 16) // [dimension, query, vector]
		for _, a := range acc {
			clear(f, a)
		}
		f.load("panel", "R10", "dim", "CX")
		f.op("XORL R9, R9")
		loop := fmt.Sprint("dims", half)
		f.label(loop)
		for i := range 4 {
			at := 4*half + i
			f.op("VMOVUPS %d(R10), Z20", panelBytes*at)
			f.op("VMOVUPS %d(R10), Z21", panelBytes*at+64)
			f.op("VBROADCASTSS %d(DX)(R9*1), Z22", 4*at)
			f.op("VBROADCASTSS %d(BX)(R9*1), Z23", 4*at)
			for query := range 2 {
				for vector := range 2 {
					f.op("VFMADD231PS Z%d, Z%d, %s", 20+vector, 22+query, acc[4*i+2*query+vector])
				}
			}
		}
		f.op("ADDQ $32, R9")
		f.op("ADDQ $%d, R10", 8*panelBytes)
		f.op("SUBQ $8, CX")
		f.op("JNZ %s", loop)
		for i, sum := range first {
			f.op("VADDPS %s, %s, %s", acc[4+i], acc[i], acc[i])
			f.op("VADDPS %s, %s, %s", acc[12+i], acc[8+i], acc[8+i])
			if half == 0 {
				f.op("VADDPS %s, %s, %s", acc[8+i], acc[i], sum)
				continue
			}
			f.op("VADDPS %s, %s, %s", acc[8+i], acc[i], acc[i])
			f.op("VADDPS %s, %s, %s", acc[i], sum, sum)
		}
	}
	f.op("VMOVUPS %s, (DI)", first[0])
	f.op("VMOVUPS %s, 64(DI)", first[1])
	f.op("VMOVUPS %s, (DI)(R12*1)", first[2])
	f.op("VMOVUPS %s, 64(DI)(R12*1)", first[3])
	f.op("LEAQ (DI)(R12*2), DI")
	f.op("LEAQ (DX)(R8*2), DX")
	f.op("DECQ R13")
	f.op("JNZ pair")
	f.end()
}

func panelFile() *file {
	f := &file{}
	spread512(f)
	panelScores512(f)
	return f
}
