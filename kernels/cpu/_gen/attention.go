package main

import "fmt"

// stored is how keys and values stand in the cache.
type stored struct {
	name    string // of the functions
	element string // in Go
	// bytes is the size of a stored value; scaled tells that f16 scales, one for each 32
	// values, follow the values of a row.
	bytes  int
	scaled bool
	// heads is the largest number of query heads of one pass, heads512 in AVX-512.
	heads, heads512 int
}

var (
	storedF16 = stored{name: "F16", element: "uint16", bytes: 2, heads: 4, heads512: 6}
	storedQ8  = stored{name: "Q8", element: "byte", bytes: 1, scaled: true, heads: 3, heads512: 5}
)

// streamAhead is how far keys and values are read ahead, in bytes. A step goes through the
// weights between two layers, so a long context comes from memory: on a Zen 3 core scores
// took 7 GB/s of it without and 10 GB/s with, weighted values 5 and 6.5.
const streamAhead = 2048

func attentionFile() *file {
	f := &file{}
	for _, s := range []stored{storedF16, storedQ8} {
		for heads := 1; heads <= s.heads; heads++ {
			scores(f, s, heads)
			accum(f, s, heads)
		}
		for heads := 1; heads <= s.heads512; heads++ {
			scores512(f, s, heads)
			accum512(f, s, heads)
		}
	}
	return f
}

// row loads the number of bytes of a row of dim values, whose register is given.
func (s stored) row(f *file, dim, reg string) {
	if !s.scaled {
		f.op("LEAQ (%s)(%s*1), %s", dim, dim, reg)
		return
	}
	f.op("MOVQ %s, %s", dim, reg)
	f.op("SHRQ $4, %s", reg)
	f.op("ADDQ %s, %s", dim, reg)
}

// widen loads eight values, without their scale.
func (s stored) widen(f *file, operand, reg string) {
	if !s.scaled {
		f.op("VCVTPH2PS %s, %s", operand, reg)
		return
	}
	f.op("VPMOVSXBD %s, %s", operand, reg)
	f.op("VCVTDQ2PS %s, %s", reg, reg)
}

// scale loads a scale into all of reg.
func (s stored) scale(f *file, operand, reg string) {
	f.op("VPBROADCASTW %s, X%s", operand, reg[1:])
	f.op("VCVTPH2PS X%s, %s", reg[1:], reg)
}

// scores writes the dot products of some query heads with each key. Keys go in tiles,
// as many as the registers allow, so that a key is widened once for all heads and a
// query is loaded once for all keys; the rest one by one.
//
//	SI keys   R10, R11  1 and 3 keys in bytes
//	DX query  R8, R9    1 and 3 queries in bytes
//	DI dst    R12       one row of dst in bytes
//	BX scales of the keys
func scores(f *file, s stored, heads int) {
	f.begin(fmt.Sprintf("scores%sAVX2H%d", s.name, heads), fmt.Sprintf("multiplies %d queries with n keys.", heads),
		fmt.Sprintf("dst *float32, q *float32, k *%s, ldd int, n int, dim int", s.element), "")
	f.load("dst", "DI", "q", "DX", "k", "SI", "ldd", "R12", "n", "R13", "dim", "R8")
	f.op("SHLQ $2, R12")
	s.row(f, "R8", "R10")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R8)(R8*2), R9")
	f.op("LEAQ (R10)(R10*2), R11")
	keys := 4
	if heads == 4 || s.scaled && heads == 3 {
		keys = 2
	}
	f.label("tile")
	f.op("CMPQ R13, $%d", keys)
	f.op("JLT single")
	scoresTile(f, s, heads, keys, "tileDim")
	f.op("SUBQ $%d, R13", keys)
	f.op("JMP tile")
	f.label("single")
	f.op("TESTQ R13, R13")
	f.op("JZ done")
	scoresTile(f, s, heads, 1, "singleDim")
	f.op("DECQ R13")
	f.op("JMP single")
	f.label("done")
	f.end()
}

func scoresTile(f *file, s stored, heads, keys int, label string) {
	acc := regs("Y", 0, heads*keys)
	query := regs("Y", heads*keys, heads)
	key := fmt.Sprintf("Y%d", heads*keys+heads)
	scale := regs("Y", heads*keys+heads+1, keys)
	for _, a := range acc {
		f.op("VXORPS %s, %s, %s", a, a, a)
	}
	f.op("MOVQ R8, CX")
	vectors := 1 // of a turn
	if s.scaled {
		vectors = 4
		f.op("MOVQ R8, BX")
		f.op("SHRQ $2, BX")
		f.op("ADDQ SI, BX")
	}
	f.label(label)
	for j := range keys {
		f.op("PREFETCHT0 %s", at(streamAhead, "SI", j, "R10", "R11"))
		if s.scaled {
			s.scale(f, at(0, "BX", j, "R10", "R11"), scale[j])
		}
	}
	for v := range vectors {
		for h := range heads {
			f.op("VMOVUPS %s, %s", at(32*v, "DX", h, "R8", "R9"), query[h])
		}
		for j := range keys {
			s.widen(f, at(8*s.bytes*v, "SI", j, "R10", "R11"), key)
			if s.scaled {
				f.op("VMULPS %s, %s, %s", scale[j], key, key)
			}
			for h := range heads {
				f.op("VFMADD231PS %s, %s, %s", query[h], key, acc[h*keys+j])
			}
		}
	}
	f.op("ADDQ $%d, DX", 32*vectors)
	f.op("ADDQ $%d, SI", 8*s.bytes*vectors)
	if s.scaled {
		f.op("ADDQ $2, BX")
	}
	f.op("SUBQ $%d, CX", 32*vectors)
	f.op("JNZ %s", label)
	f.op("SUBQ R8, DX")
	if s.scaled {
		f.op("MOVQ R8, BX")
		f.op("SHRQ $2, BX")
		f.op("SUBQ BX, SI")
	} else {
		f.op("SUBQ R10, SI")
	}
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
// registers over all positions; the tiles shrink until the dimension is used up. A scale
// joins the weights of its 32 values.
//
//	SI values of the tile  R10       one value in bytes
//	DX weights             R8, R9    1 and 3 rows of weights in bytes
//	DI dst of the tile     R11, R12  1 and 3 rows of dst in bytes
//	BX scales of the tile  R14       of its first position
func accum(f *file, s stored, heads int) {
	f.begin(fmt.Sprintf("accum%sAVX2H%d", s.name, heads), fmt.Sprintf("adds n weighted values to %d outputs.", heads),
		fmt.Sprintf("dst *float32, p *float32, v *%s, ldp int, n int, dim int", s.element), "")
	f.load("dst", "DI", "v", "R15", "ldp", "R8", "dim", "R13")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R8)(R8*2), R9")
	s.row(f, "R13", "R10")
	f.op("LEAQ (R13)(R13*1), R11")
	f.op("SHLQ $1, R11")
	f.op("LEAQ (R11)(R11*2), R12")
	// Eight accumulators hide the latency of the multiply-adds; R13 counts what is left
	// of the dimension.
	tiles := [][]int{{8, 2, 1}, {4, 2, 1}, {4, 2, 1}, {2, 1}}[heads-1]
	if s.scaled {
		tiles = []int{4}
		f.op("LEAQ (R15)(R13*1), R14")
	}
	for _, vectors := range tiles {
		tile, next := fmt.Sprint("tile", vectors), fmt.Sprint("below", vectors)
		f.label(tile)
		f.op("CMPQ R13, $%d", 8*vectors)
		f.op("JLT %s", next)
		accumTile(f, s, heads, vectors)
		f.op("SUBQ $%d, R13", 8*vectors)
		f.op("JMP %s", tile)
		f.label(next)
	}
	f.end()
}

func accumTile(f *file, s stored, heads, vectors int) {
	acc := regs("Y", 0, heads*vectors)
	weight := regs("Y", heads*vectors, heads)
	value := fmt.Sprintf("Y%d", heads*vectors+heads)
	each := func(visit func(operand, acc string)) {
		for h := range heads {
			for i := range vectors {
				visit(at(32*i, "DI", h, "R11", "R12"), acc[h*vectors+i])
			}
		}
	}
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	if s.scaled {
		f.op("MOVQ R14, BX")
	}
	label := fmt.Sprint("position", vectors)
	f.label(label)
	if s.scaled {
		s.scale(f, "(BX)", value)
	}
	for h := range heads {
		f.op("VBROADCASTSS %s, %s", at(0, "DX", h, "R8", "R9"), weight[h])
		if s.scaled {
			f.op("VMULPS %s, %s, %s", value, weight[h], weight[h])
		}
	}
	for i := range vectors {
		if i%4 == 0 {
			f.op("PREFETCHT0 %d(SI)", streamAhead+8*s.bytes*i)
		}
		s.widen(f, fmt.Sprintf("%d(SI)", 8*s.bytes*i), value)
		for h := range heads {
			f.op("VFMADD231PS %s, %s, %s", weight[h], value, acc[h*vectors+i])
		}
	}
	f.op("ADDQ R10, SI")
	if s.scaled {
		f.op("ADDQ R10, BX")
	}
	f.op("ADDQ $4, DX")
	f.op("DECQ CX")
	f.op("JNZ %s", label)
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", acc, operand) })
	f.op("ADDQ $%d, DI", 32*vectors)
	f.op("ADDQ $%d, R15", 8*s.bytes*vectors)
	if s.scaled {
		f.op("ADDQ $2, R14")
	}
}
