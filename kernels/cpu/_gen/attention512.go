package main

import "fmt"

// ahead512 is how far keys and values are read ahead, in bytes, and into which level of the
// caches. A core waits for some 24 lines of its first level at a time, 15 GB/s from memory, so
// float16, which it takes at 30 GB/s, comes to the second: attention of a layer behind 1,024
// positions took 1.42 ms of a Zen 4 core with 4,096 bytes into the first, 1.33 with 8,192, 0.98
// with 8,192 to 32,768 into the second. Int8 takes more work a byte: 1.29 ms, and 1.51 from
// the second.
func (s stored) ahead512() (instruction string, bytes int) {
	if s.scaled {
		return "PREFETCHT0", 4096
	}
	return "PREFETCHT1", 8192
}

// keys512 is the number of keys of a tile: as many as the registers allow beside the
// queries.
func (s stored) keys512(heads int) int {
	if heads > 3 || s.scaled && heads > 2 {
		return 4
	}
	return 8
}

// scores512 is scores with the 32 registers of AVX-512, for a multiple of keys. A vector
// stays one of eight values of a key, because a score has eight sums. Twice the width would
// gain nothing: a Zen 4 core does two multiply-adds of 256 bits in a cycle, or one of 512.
//
//	R14 fifth key  BX, R15 scales of the first and of the fifth key
//	AX  a query, or its row of dst  R9 what is read ahead, in the order of memory
func scores512(f *file, s stored, heads int) {
	keys := s.keys512(heads)
	f.begin(fmt.Sprintf("scores%sAVX512H%d", s.name, heads), fmt.Sprintf("multiplies %d queries with n keys, a multiple of %d.", heads, keys),
		fmt.Sprintf("dst *float32, q *float32, k *%s, ldd int, n int, dim int", s.element), "")
	f.load("dst", "DI", "q", "DX", "k", "SI", "ldd", "R12", "n", "R13", "dim", "R8")
	f.op("SHLQ $2, R12")
	s.row(f, "R8", "R10")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R10)(R10*2), R11")
	f.op("MOVQ SI, R9")
	f.op("MOVL $0xaa, AX")
	f.op("KMOVW AX, K1")
	f.op("MOVL $0xcc, AX")
	f.op("KMOVW AX, K2")
	acc := regs("Y", 0, heads*keys)
	query := regs("Y", heads*keys, heads)
	scale := regs("Y", heads*(keys+1), keys)
	key := "Y31"
	// at addresses a key, or its scale.
	at := func(displacement, j int, first, fifth string) string {
		if j < 4 {
			return at(displacement, first, j, "R10", "R11")
		}
		return at(displacement, fifth, j-4, "R10", "R11")
	}
	f.label("tile")
	for _, a := range acc {
		f.op("VXORPS %s, %s, %s", a, a, a)
	}
	f.op("MOVQ R8, CX")
	f.op("LEAQ (SI)(R10*4), R14")
	vectors := 1 // of a turn
	if s.scaled {
		vectors = 4
		f.op("MOVQ R8, BX")
		f.op("SHRQ $2, BX")
		f.op("LEAQ (R14)(BX*1), R15")
		f.op("ADDQ SI, BX")
	}
	f.label("dim")
	turn := 8 * s.bytes * vectors * keys
	if s.scaled {
		turn += 2 * keys
	}
	prefetch, ahead := s.ahead512()
	for line := 0; line < turn; line += 64 {
		f.op("%s %d(R9)", prefetch, ahead+line)
	}
	f.op("ADDQ $%d, R9", turn)
	if s.scaled {
		for j, reg := range scale[:keys] {
			s.scale(f, at(0, j, "BX", "R15"), reg)
		}
	}
	for v := range vectors {
		f.op("MOVQ DX, AX")
		for h, reg := range query {
			f.op("VMOVUPS %d(AX), %s", 32*v, reg)
			if h+1 < heads {
				f.op("ADDQ R8, AX")
			}
		}
		for j := range keys {
			s.widen(f, at(8*s.bytes*v, j, "SI", "R14"), key)
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
	f.op("ADDQ $%d, R14", 8*s.bytes*vectors)
	if s.scaled {
		f.op("ADDQ $2, BX")
		f.op("ADDQ $2, R15")
	}
	f.op("SUBQ $%d, CX", 32*vectors)
	f.op("JNZ dim")
	f.op("SUBQ R8, DX")
	// SI or BX stands at the second key.
	next := "SI"
	if s.scaled {
		next = "BX"
	}
	f.op("LEAQ (%s)(R10*%d), SI", next, keys)
	f.op("SUBQ R10, SI")
	f.op("MOVQ DI, AX")
	for h := range heads {
		for j := 0; j < keys; j += 4 {
			sumFour(f, acc[h*keys+j:][:4], "Y30", "Y31")
			f.op("VMOVUPS X%s, %d(AX)", acc[h*keys+j][1:], 4*j)
		}
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
func accum512(f *file, s stored, heads int) {
	f.begin(fmt.Sprintf("accum%sAVX512H%d", s.name, heads), fmt.Sprintf("adds n weighted values, of a multiple of 16, to %d outputs.", heads),
		fmt.Sprintf("dst *float32, p *float32, v *%s, ldp int, n int, dim int", s.element), "")
	f.load("dst", "DI", "v", "R15", "ldp", "R8", "dim", "R13")
	f.op("SHLQ $2, R8")
	s.row(f, "R13", "R10")
	f.op("LEAQ (R13)(R13*1), R11")
	f.op("SHLQ $1, R11")
	if s.scaled {
		f.op("LEAQ (R15)(R13*1), R14")
	}
	for vectors := 8; vectors > 0; vectors /= 2 {
		if heads*vectors > 24 || s.scaled && vectors < 2 {
			continue
		}
		tile, next := fmt.Sprint("tile", vectors), fmt.Sprint("below", vectors)
		f.label(tile)
		f.op("CMPQ R13, $%d", 16*vectors)
		f.op("JLT %s", next)
		accumTile512(f, s, heads, vectors)
		f.op("SUBQ $%d, R13", 16*vectors)
		f.op("JMP %s", tile)
		f.label(next)
	}
	f.end()
}

func accumTile512(f *file, s stored, heads, vectors int) {
	acc := regs("Z", 0, heads*vectors)
	weight := regs("Z", 24, heads)
	const value, scale = "Z31", "Z30"
	// each visits the accumulators; AX walks over the rows of dst.
	each := func(visit func(operand, acc string)) {
		f.op("MOVQ DI, AX")
		for h := range heads {
			for i := range vectors {
				visit(fmt.Sprintf("%d(AX)", 64*i), acc[h*vectors+i])
			}
			if h+1 < heads {
				f.op("ADDQ R11, AX")
			}
		}
	}
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	if s.scaled {
		f.op("MOVQ R14, BX")
	}
	loadWeights := func(scaled bool) {
		f.op("MOVQ DX, AX")
		for h, w := range weight {
			if scaled {
				f.op("VMULPS.BCST (AX), %s, %s", scale, w)
			} else {
				f.op("VBROADCASTSS (AX), %s", w)
			}
			if h+1 < heads {
				f.op("ADDQ R8, AX")
			}
		}
	}
	prefetch, ahead := s.ahead512()
	label := fmt.Sprint("position", vectors)
	f.label(label)
	if !s.scaled {
		loadWeights(false)
	}
	for i := range vectors {
		if s.scaled && i%2 == 0 {
			f.op("VPBROADCASTW %d(BX), Y%s", i, scale[1:])
			f.op("VCVTPH2PS Y%s, %s", scale[1:], scale)
			loadWeights(true)
		}
		if at := 16 * s.bytes * i; at%64 == 0 {
			f.op("%s %d(SI)", prefetch, ahead+at)
		}
		s.widen(f, fmt.Sprintf("%d(SI)", 16*s.bytes*i), value)
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
	f.op("ADDQ $%d, DI", 64*vectors)
	f.op("ADDQ $%d, R15", 16*s.bytes*vectors)
	if s.scaled {
		f.op("ADDQ $%d, R14", vectors)
	}
}
