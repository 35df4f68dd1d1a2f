package main

import "fmt"

// streamAhead is how far keys and values are read ahead, in bytes. A step goes through the
// weights between two layers, so a long context comes from memory: on a Zen 3 core scores
// took 7 GB/s of it without and 10 GB/s with, weighted values 5 and 6.5.
const streamAhead = 2048

func attentionFile() *file {
	f := &file{}
	for heads := 1; heads <= 4; heads++ {
		scores(f, heads)
		accum(f, heads)
	}
	for heads := 1; heads <= 6; heads++ {
		scores512(f, heads)
		accum512(f, heads)
	}
	for heads := 1; heads <= 3; heads++ {
		accumQ8(f, heads)
	}
	for heads := 1; heads <= 6; heads++ {
		accumQ8512(f, heads)
	}
	return f
}

// scores writes the dot products of some query heads with each key. Keys go in tiles,
// as many as the registers allow, so that a key is widened once for all heads and a
// query is loaded once for all keys; the rest one by one.
//
//	SI keys   R10, R11  1 and 3 keys in bytes
//	DX query  R8, R9    1 and 3 queries in bytes
//	DI dst    R12       one row of dst in bytes
func scores(f *file, heads int) {
	f.begin(fmt.Sprintf("scoresF16AVX2H%d", heads), fmt.Sprintf("multiplies %d queries with n keys.", heads),
		"dst *float32, q *float32, k *uint16, ldd int, n int, dim int", "")
	f.load("dst", "DI", "q", "DX", "k", "SI", "ldd", "R12", "n", "R13", "dim", "R8")
	f.op("SHLQ $2, R12")
	f.op("LEAQ (R8)(R8*1), R10")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R8)(R8*2), R9")
	f.op("LEAQ (R10)(R10*2), R11")
	keys := 4
	if heads == 4 {
		keys = 2
	}
	f.label("tile")
	f.op("CMPQ R13, $%d", keys)
	f.op("JLT single")
	scoresTile(f, heads, keys, "tileDim")
	f.op("SUBQ $%d, R13", keys)
	f.op("JMP tile")
	f.label("single")
	f.op("TESTQ R13, R13")
	f.op("JZ done")
	scoresTile(f, heads, 1, "singleDim")
	f.op("DECQ R13")
	f.op("JMP single")
	f.label("done")
	f.end()
}

func scoresTile(f *file, heads, keys int, label string) {
	acc := regs("Y", 0, heads*keys)
	query := regs("Y", heads*keys, heads)
	key := fmt.Sprintf("Y%d", heads*keys+heads)
	for _, a := range acc {
		f.op("VXORPS %s, %s, %s", a, a, a)
	}
	f.op("MOVQ R8, CX")
	f.label(label)
	for j := range keys {
		f.op("PREFETCHT0 %s", at(streamAhead, "SI", j, "R10", "R11"))
	}
	for h := range heads {
		f.op("VMOVUPS %s, %s", at(0, "DX", h, "R8", "R9"), query[h])
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
	f.op("JNZ %s", label)
	f.op("SUBQ R8, DX")
	f.op("SUBQ R10, SI")
	f.op("LEAQ (SI)(R10*%d), SI", keys)
	f.op("MOVQ DI, AX")
	for h := range heads {
		a := acc[h*keys:][:keys]
		// Two horizontal additions leave each key's sums of its halves in place.
		switch keys {
		case 4:
			f.op("VHADDPS %s, %s, %s", a[1], a[0], a[0])
			f.op("VHADDPS %s, %s, %s", a[3], a[2], a[2])
			f.op("VHADDPS %s, %s, %s", a[2], a[0], a[0])
		case 2:
			f.op("VHADDPS %s, %s, %s", a[1], a[0], a[0])
			f.op("VHADDPS %s, %s, %s", a[0], a[0], a[0])
		case 1:
			f.op("VHADDPS %s, %s, %s", a[0], a[0], a[0])
			f.op("VHADDPS %s, %s, %s", a[0], a[0], a[0])
		}
		x, high := "X"+a[0][1:], "X"+key[1:]
		f.op("VEXTRACTF128 $1, %s, %s", a[0], high)
		f.op("VADDPS %s, %s, %s", high, x, x)
		f.op("%s %s, (AX)", map[int]string{4: "VMOVUPS", 2: "VMOVSD", 1: "VMOVSS"}[keys], x)
		if h+1 < heads {
			f.op("ADDQ R12, AX")
		}
	}
	f.op("ADDQ $%d, DI", 4*keys)
}

// accum adds weighted values to the outputs of some heads. A tile of dimensions stays in
// registers over all positions; the tiles shrink until the dimension is used up.
//
//	SI values of the tile  R10       one value in bytes
//	DX weights             R8, R9    1 and 3 rows of weights in bytes
//	DI dst of the tile     R11, R12  1 and 3 rows of dst in bytes
func accum(f *file, heads int) {
	f.begin(fmt.Sprintf("accumF16AVX2H%d", heads), fmt.Sprintf("adds n weighted values to %d outputs.", heads),
		"dst *float32, p *float32, v *uint16, ldp int, n int, dim int", "")
	f.load("dst", "DI", "v", "R15", "ldp", "R8", "dim", "R13")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R8)(R8*2), R9")
	f.op("LEAQ (R13)(R13*1), R10")
	f.op("LEAQ (R13)(R13*1), R11")
	f.op("SHLQ $1, R11")
	f.op("LEAQ (R11)(R11*2), R12")
	// Eight accumulators hide the latency of the multiply-adds; R13 counts what is left
	// of the dimension.
	for _, vectors := range [][]int{{8, 2, 1}, {4, 2, 1}, {4, 2, 1}, {2, 1}}[heads-1] {
		tile, next := fmt.Sprint("tile", vectors), fmt.Sprint("below", vectors)
		f.label(tile)
		f.op("CMPQ R13, $%d", 8*vectors)
		f.op("JLT %s", next)
		accumTile(f, heads, vectors)
		f.op("SUBQ $%d, R13", 8*vectors)
		f.op("JMP %s", tile)
		f.label(next)
	}
	f.end()
}

func accumTile(f *file, heads, vectors int) {
	weight := regs("Y", heads*vectors, heads)
	value := fmt.Sprintf("Y%d", heads*vectors+heads)
	eachSum(heads, vectors, func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	label := fmt.Sprint("position", vectors)
	f.label(label)
	for h := range heads {
		f.op("VBROADCASTSS %s, %s", at(0, "DX", h, "R8", "R9"), weight[h])
	}
	for i := range vectors {
		if i%4 == 0 {
			f.op("PREFETCHT0 %d(SI)", streamAhead+16*i)
		}
		f.op("VCVTPH2PS %d(SI), %s", 16*i, value)
		for h := range heads {
			f.op("VFMADD231PS %s, %s, Y%d", weight[h], value, h*vectors+i)
		}
	}
	f.op("ADDQ R10, SI")
	f.op("ADDQ $4, DX")
	f.op("DECQ CX")
	f.op("JNZ %s", label)
	eachSum(heads, vectors, func(operand, acc string) { f.op("VMOVUPS %s, %s", acc, operand) })
	f.op("ADDQ $%d, DI", 32*vectors)
	f.op("ADDQ $%d, R15", 16*vectors)
}

// eachSum visits the accumulators of a tile, Y0 and on, and where they belong in dst.
func eachSum(heads, vectors int, visit func(operand, acc string)) {
	for h := range heads {
		for i := range vectors {
			visit(at(32*i, "DI", h, "R11", "R12"), fmt.Sprintf("Y%d", h*vectors+i))
		}
	}
}
