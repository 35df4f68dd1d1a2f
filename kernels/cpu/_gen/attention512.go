package main

import "fmt"

// ahead512 is how far keys and values are read ahead into the second level of the caches, in
// bytes. A core waits for some 24 lines of its first level at a time, 15 GB/s from memory, so
// float16, which it takes at 30 GB/s, comes to the second: attention of a layer behind 1,024
// positions took 1.42 ms of a Zen 4 core with 4,096 bytes into the first, 1.33 with 8,192, 0.98
// with 8,192 to 32,768 into the second.
const ahead512 = 8192

// scores512 is scores with the 32 registers of AVX-512, for a multiple of four keys and up to
// six queries. A vector stays one of eight values of a key, because a score has eight sums.
// Twice the width would gain nothing: a Zen 4 core does two multiply-adds of 256 bits in a
// cycle, or one of 512. There are registers for eight keys and three queries, but a Granite
// Rapids core streams keys at 15 GB/s so, and at 26 by fours.
//
//	SI keys   R10, R11  1 and 3 keys in bytes  R9 what is read ahead
//	DX query  R8 a query in bytes
//	DI dst    R12 a row of dst in bytes  AX a query, or its row of dst
func scores512(f *file, heads int) {
	const keys = 4
	f.begin(fmt.Sprintf("scoresF16AVX512H%d", heads), fmt.Sprintf("multiplies %d queries with n keys, a multiple of %d.", heads, keys),
		"dst *float32, q *float32, k *uint16, ldd int, n int, dim int", "")
	f.load("dst", "DI", "q", "DX", "k", "SI", "ldd", "R12", "n", "R13", "dim", "R8")
	f.op("SHLQ $2, R12")
	f.op("LEAQ (R8)(R8*1), R10")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R10)(R10*2), R11")
	f.op("MOVQ SI, R9")
	f.op("MOVL $0xaa, AX")
	f.op("KMOVW AX, K1")
	f.op("MOVL $0xcc, AX")
	f.op("KMOVW AX, K2")
	acc := regs("Y", 0, heads*keys)
	query := regs("Y", heads*keys, heads)
	const key = "Y31"
	f.label("tile")
	for _, a := range acc {
		f.op("VXORPS %s, %s, %s", a, a, a)
	}
	f.op("MOVQ R8, CX")
	f.label("dim")
	f.op("PREFETCHT1 %d(R9)", ahead512)
	f.op("ADDQ $%d, R9", 16*keys)
	f.op("MOVQ DX, AX")
	for h, reg := range query {
		f.op("VMOVUPS 0(AX), %s", reg)
		if h+1 < heads {
			f.op("ADDQ R8, AX")
		}
	}
	for j := range keys {
		f.op("VCVTPH2PS %s, %s", at(0, "SI", j, "R10", "R11"), key)
		for h := range heads {
			f.op("VFMADD231PS %s, %s, %s", query[h], key, acc[h*keys+j])
		}
	}
	f.op("ADDQ $32, DX")
	f.op("ADDQ $16, SI")
	f.op("SUBQ $32, CX")
	f.op("JNZ dim")
	f.op("SUBQ R8, DX")
	f.op("ADDQ R11, SI") // from the second key
	f.op("MOVQ DI, AX")
	for h := range heads {
		sumFour(f, acc[h*keys:][:keys], "Y30", "Y31")
		f.op("VMOVUPS X%s, (AX)", acc[h*keys][1:])
		if h+1 < heads {
			f.op("ADDQ R12, AX")
		}
	}
	f.op("ADDQ $%d, DI", 4*keys)
	f.op("SUBQ $%d, R13", keys)
	f.op("JNZ tile")
	f.end()
}

// sumFour adds the lanes of four vectors, as sumLanes does, into the lower half of the first.
// Each step adds neighbours of two vectors: what stays of both, and what has to move of both,
// are blended, so that one shuffle does for the two. K1 selects odd elements, K2 odd pairs.
func sumFour(f *file, a []string, stay, move string) {
	add := func(x, y, mask, shuffle string) {
		f.op("VBLENDMPS %s, %s, %s, %s", y, x, mask, stay)
		f.op("VBLENDMPS %s, %s, %s, %s", x, y, mask, move)
		f.op("VPERMILPS %s, %s, %s", shuffle, move, move)
		f.op("VADDPS %s, %s, %s", move, stay, x)
	}
	add(a[0], a[1], "K1", "$0xb1")
	add(a[2], a[3], "K1", "$0xb1")
	add(a[0], a[2], "K2", "$0x4e")
	f.op("VEXTRACTF32X4 $1, %s, X%s", a[0], move[1:])
	f.op("VADDPS X%s, X%s, X%s", move[1:], a[0][1:], a[0][1:])
}

// accum512 is accum for a multiple of 16 dimensions. Up to 24 accumulators hold a whole head
// of usual size, so that values pass once.
func accum512(f *file, heads int) {
	f.begin(fmt.Sprintf("accumF16AVX512H%d", heads), fmt.Sprintf("adds n weighted values, of a multiple of 16, to %d outputs.", heads),
		"dst *float32, p *float32, v *uint16, ldp int, n int, dim int", "")
	f.load("dst", "DI", "v", "R15", "ldp", "R8", "dim", "R13")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R13)(R13*1), R10")
	f.op("LEAQ (R13)(R13*1), R11")
	f.op("SHLQ $1, R11")
	for vectors := 8; vectors > 0; vectors /= 2 {
		if heads*vectors > 24 {
			continue
		}
		tile, next := fmt.Sprint("tile", vectors), fmt.Sprint("below", vectors)
		f.label(tile)
		f.op("CMPQ R13, $%d", 16*vectors)
		f.op("JLT %s", next)
		accumTile512(f, heads, vectors)
		f.op("SUBQ $%d, R13", 16*vectors)
		f.op("JMP %s", tile)
		f.label(next)
	}
	f.end()
}

func accumTile512(f *file, heads, vectors int) {
	const value = "Z31"
	weight := regs("Z", 24, heads)
	each := func(visit func(operand, acc string)) { each512(f, heads, vectors, "ADDQ R11, AX", visit) }
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	label := fmt.Sprint("position", vectors)
	f.label(label)
	f.op("MOVQ DX, AX")
	for h, w := range weight {
		f.op("VBROADCASTSS (AX), %s", w)
		if h+1 < heads {
			f.op("ADDQ R8, AX")
		}
	}
	for i := range vectors {
		if i%2 == 0 {
			f.op("PREFETCHT1 %d(SI)", ahead512+32*i)
		}
		f.op("VCVTPH2PS %d(SI), %s", 32*i, value)
		for h := range heads {
			f.op("VFMADD231PS %s, %s, Z%d", weight[h], value, h*vectors+i)
		}
	}
	f.op("ADDQ R10, SI")
	f.op("ADDQ $4, DX")
	f.op("DECQ CX")
	f.op("JNZ %s", label)
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", acc, operand) })
	f.op("ADDQ $%d, DI", 64*vectors)
	f.op("ADDQ $%d, R15", 32*vectors)
}

// each512 visits the accumulators of a tile, Z0 and on, and where they belong in dst. AX
// walks over its rows, by what next does.
func each512(f *file, heads, vectors int, next string, visit func(operand, acc string)) {
	f.op("MOVQ DI, AX")
	for h := range heads {
		for i := range vectors {
			visit(fmt.Sprintf("%d(AX)", 64*i), fmt.Sprintf("Z%d", h*vectors+i))
		}
		if h+1 < heads {
			f.op("%s", next)
		}
	}
}
