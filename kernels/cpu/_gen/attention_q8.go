package main

import "fmt"

const accumQ8Parameters = "dst *float32, p *float32, v *int8, scales *uint16, ldp int, lds int, n int, dim int, next *byte, step int"

// accumQ8 is accum for values of 8 bits. A scale joins the weights of its 32 values, which
// are a tile. What is read next is left to the processor.
//
//	BX scales of the tile  R14 of its first position  AX a row of scales in bytes
func accumQ8(f *file, heads int) {
	const vectors = 4
	f.begin(fmt.Sprintf("accumQ8AVX2H%d", heads), fmt.Sprintf("adds n weighted values to %d outputs.", heads), accumQ8Parameters, "")
	f.load("dst", "DI", "v", "R15", "scales", "R14", "ldp", "R8", "lds", "AX", "dim", "R10")
	f.op("SHLQ $1, AX")
	f.op("SHLQ $2, R8")
	f.op("LEAQ (R8)(R8*2), R9")
	f.op("MOVQ R10, R13")
	f.op("MOVQ R10, R11")
	f.op("SHLQ $2, R11")
	f.op("LEAQ (R11)(R11*2), R12")
	weight := regs("Y", heads*vectors, heads)
	value := fmt.Sprintf("Y%d", heads*vectors+heads)
	f.label("tile")
	eachSum(heads, vectors, func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	f.op("MOVQ R14, BX")
	f.label("position")
	f.op("VPBROADCASTW (BX), X%s", value[1:])
	f.op("VCVTPH2PS X%s, %s", value[1:], value)
	for h := range heads {
		f.op("VBROADCASTSS %s, %s", at(0, "DX", h, "R8", "R9"), weight[h])
		f.op("VMULPS %s, %s, %s", value, weight[h], weight[h])
	}
	f.op("PREFETCHT0 %d(SI)", streamAhead)
	for i := range vectors {
		f.op("VPMOVSXBD %d(SI), %s", 8*i, value)
		f.op("VCVTDQ2PS %s, %s", value, value)
		for h := range heads {
			f.op("VFMADD231PS %s, %s, Y%d", weight[h], value, h*vectors+i)
		}
	}
	f.op("ADDQ R10, SI")
	f.op("ADDQ $2, BX")
	f.op("ADDQ $4, DX")
	f.op("DECQ CX")
	f.op("JNZ position")
	eachSum(heads, vectors, func(operand, acc string) { f.op("VMOVUPS %s, %s", acc, operand) })
	f.op("ADDQ $128, DI")
	f.op("ADDQ $32, R15")
	f.op("ADDQ AX, R14")
	f.op("SUBQ $32, R13")
	f.op("JNZ tile")
	f.end()
}

// The weights of accumQ8512, [head, scale of the tile, 16 positions], stand on the stack, at
// a line of the caches.
const (
	weightPositions = 16
	weightLine      = 4 * weightPositions
	weightFrame     = 12*weightLine + 64
)

// accumQ8512 is accumQ8 with the 32 registers of AVX-512, of which up to 24 hold sums, as in
// accum512. The weights of 16 positions are computed side by side before their values are
// added one by one. With each line of values comes one of what is read next, step bytes
// after the one before.
//
//	SI values of the tile  R15 of its first position  R10 one value in bytes
//	BX scales of the tile  R14 of its first position
//	DX weights             R8 a row of weights in bytes
//	DI dst of the tile     R11 products of weights and scales
//	R12 what is read next
func accumQ8512(f *file, heads int) {
	f.beginWithFrame(fmt.Sprintf("accumQ8AVX512H%d", heads), fmt.Sprintf("adds n weighted values to %d outputs.", heads), accumQ8Parameters, "", weightFrame)
	f.load("dst", "DI", "v", "R15", "scales", "R14", "ldp", "R8", "next", "R12", "dim", "R10")
	f.op("SHLQ $2, R8")
	f.op("TESTQ R12, R12")
	f.op("CMOVQEQ DI, R12") // address 0 would be looked up again and again
	f.op("MOVQ R10, R13")
	f.op("LEAQ 63(SP), R11")
	f.op("ANDQ $-64, R11")
	for vectors := 8; vectors >= 2; vectors /= 2 {
		if heads*vectors > 24 {
			continue
		}
		tile, next := fmt.Sprint("tile", vectors), fmt.Sprint("below", vectors)
		f.label(tile)
		f.op("CMPQ R13, $%d", 16*vectors)
		f.op("JLT %s", next)
		accumQ8Tile512(f, heads, vectors)
		f.op("SUBQ $%d, R13", 16*vectors)
		f.op("JMP %s", tile)
		f.label(next)
	}
	f.end()
}

func accumQ8Tile512(f *file, heads, vectors int) {
	const value = "Z31"
	weight, blocks := regs("Z", 24, heads), vectors/2
	each := func(visit func(operand, acc string)) { each512(f, heads, vectors, "LEAQ (AX)(R10*4), AX", visit) }
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", operand, acc) })
	f.load("p", "DX", "n", "CX")
	f.op("MOVQ R15, SI")
	f.op("MOVQ R14, BX")
	turn, position := fmt.Sprint("turn", vectors), fmt.Sprint("position", vectors)
	f.label(turn)
	multiplyWeights(f, heads, blocks)
	f.op("MOVL $%d, AX", weightPositions)
	f.op("CMPQ CX, AX")
	f.op("CMOVQLT CX, AX")
	f.op("MOVQ R11, R9")
	f.label(position)
	for i := range vectors {
		if i%2 == 0 {
			for h, w := range weight {
				f.op("VBROADCASTSS %d(R9), %s", weightLine*(h*blocks+i/2), w)
			}
		}
		if i%4 == 0 {
			f.op("PREFETCHT1 %d(SI)", ahead512+16*i)
			f.op("PREFETCHT1 (R12)")
			f.op("ADDQ %s, R12", f.arg("step"))
		}
		f.op("VPMOVSXBD %d(SI), %s", 16*i, value)
		f.op("VCVTDQ2PS %s, %s", value, value)
		for h, w := range weight {
			f.op("VFMADD231PS %s, %s, Z%d", w, value, h*vectors+i)
		}
	}
	f.op("ADDQ R10, SI")
	f.op("ADDQ $4, R9")
	f.op("DECQ AX")
	f.op("JNZ %s", position)
	f.op("ADDQ $%d, DX", 4*weightPositions)
	f.op("ADDQ $%d, BX", 2*weightPositions)
	f.op("SUBQ $%d, CX", weightPositions)
	f.op("JGT %s", turn)
	each(func(operand, acc string) { f.op("VMOVUPS %s, %s", acc, operand) })
	f.op("ADDQ $%d, DI", 64*vectors)
	f.op("ADDQ $%d, R15", 16*vectors)
	f.load("lds", "R9")
	for range blocks {
		f.op("LEAQ (R14)(R9*2), R14")
	}
}

// multiplyWeights puts the products of weights and scales of up to 16 of the CX positions
// that are left on the stack. Of the rest, which may lie in no memory, nothing is read.
func multiplyWeights(f *file, heads, blocks int) {
	const product = "Z31"
	scale := regs("Z", 24, blocks)
	f.op("VPBROADCASTD CX, %s", product)
	f.op("VPCMPD $6, %s, %s, K1", f.words("positions", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), product) // 6: greater
	f.op("MOVQ BX, AX")
	f.load("lds", "R9")
	for b, s := range scale {
		f.op("VCVTPH2PS.Z (AX), K1, %s", s)
		if b+1 < blocks {
			f.op("LEAQ (AX)(R9*2), AX")
		}
	}
	f.op("MOVQ DX, AX")
	for h := range heads {
		for b, s := range scale {
			f.op("VMULPS.Z (AX), %s, K1, %s", s, product)
			f.op("VMOVUPS %s, %d(R11)", product, weightLine*(h*blocks+b))
		}
		if h+1 < heads {
			f.op("ADDQ R8, AX")
		}
	}
}
