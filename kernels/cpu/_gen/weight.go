package main

import (
	"fmt"
	"math"
	"slices"
)

// weightFile holds what sampling asks of a row of logits.
func weightFile() *file {
	f := &file{}
	sumWeights(f)
	above(f)
	return f
}

// double is a constant of four equal f64.
func (f *file) double(name string, v float64) string {
	return f.quad(name, math.Float64bits(v))
}

// quad is a constant of four equal 64-bit words.
func (f *file) quad(name string, v uint64) string {
	low, high := uint32(v), uint32(v>>32)
	return f.words(name, low, high, low, high, low, high, low, high)
}

// sumWeights follows Weight step by step. Four vectors of four logits take each
// step in turn, since a step waits for the one before. What is far below the peak,
// or NaN, is put where it weighs nothing; the peak itself weighs one by the
// formula.
func sumWeights(f *file) {
	f.begin("sumWeightsAVX2", "returns the sum of the weights of 16·n logits; the peak is finite.",
		"x *float32, n int, peak float64, scale float64", "int")
	f.load("x", "SI", "n", "CX")
	f.op("VBROADCASTSD %s, Y12", f.arg("peak"))
	f.op("VBROADCASTSD %s, Y13", f.arg("scale"))
	f.op("VXORPD Y15, Y15, Y15")
	y, n, p := regs("Y", 0, 4), regs("Y", 4, 4), regs("Y", 8, 4)
	// each writes an instruction for each vector; a list gives each its own operand.
	each := func(format string, operands ...any) {
		for i := range 4 {
			own := slices.Clone(operands)
			for j, o := range own {
				if list, ok := o.([]string); ok {
					own[j] = list[i]
				}
			}
			f.op(format, own...)
		}
	}
	f.label("loop")
	for i := range 4 {
		f.op("VCVTPS2PD %d(SI), %s", 16*i, y[i])
	}
	each("VSUBPD Y12, %s, %s", y, y)
	each("VMULPD Y13, %s, %s", y, y)
	each("VMAXPD %s, %s, %s", f.double("nothing", -60), y, y)
	each("VROUNDPD $0, %s, %s", y, n)
	each("VSUBPD %s, %s, %s", n, y, y)
	f.op("VMOVUPD %s, Y14", f.double("taylor8", taylor(8)))
	each("VMOVAPD Y14, %s", p)
	for degree := 7; degree >= 0; degree-- {
		f.op("VMOVUPD %s, Y14", f.double(fmt.Sprintf("taylor%d", degree), taylor(degree)))
		each("VFMADD213PD Y14, %s, %s", y, p)
	}
	// Beside 1.5·2⁵², n + 40 is an integer in the lower bits; beside 2⁵², a weight is.
	f.op("VMOVUPD %s, Y14", f.double("exponent", 3<<51+40))
	each("VADDPD Y14, %s, %s", n, n)
	each("VPSLLQ $52, %s, %s", n, n)
	each("VPADDQ %s, %s, %s", n, p, p)
	f.op("VMOVUPD %s, Y14", f.double("integer", 1<<52))
	each("VADDPD Y14, %s, %s", p, p)
	// Both have the exponent of 2⁵²: their difference is the integer.
	each("VPSUBQ Y14, %s, %s", p, p)
	f.op("VPADDQ %s, %s, %s", p[1], p[0], p[0])
	f.op("VPADDQ %s, %s, %s", p[3], p[2], p[2])
	f.op("VPADDQ %s, Y15, Y15", p[0])
	f.op("VPADDQ %s, Y15, Y15", p[2])
	f.op("ADDQ $64, SI")
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.op("VEXTRACTI128 $1, Y15, X0")
	f.op("VPADDQ X0, X15, X0")
	f.op("VPSRLDQ $8, X0, X1")
	f.op("VPADDQ X0, X1, X0")
	f.op("VMOVQ X0, %s", f.arg("ret"))
	f.end()
}

// taylor is (ln 2)ⁿ/n!, as Go computes it.
func taylor(n int) float64 {
	term := 1.
	for i := range n {
		term *= math.Ln2 / float64(i+1)
	}
	return term
}

func above(f *file) {
	f.begin("aboveAVX2", "returns the first index of a value greater than floor, or -1.", "x *float32, n int, floor float32", "int")
	f.load("x", "SI", "n", "CX")
	f.op("VBROADCASTSS %s, Y4", f.arg("floor"))
	f.op("XORQ BX, BX")
	// Most of a row is below: 32 values a turn, until one is not.
	f.label("four")
	f.op("CMPQ CX, $32")
	f.op("JLT loop")
	for i := range 4 {
		f.op("VMOVUPS %d(SI), Y%d", 32*i, i)
		f.op("VCMPPS $0x1e, Y4, Y%d, Y%d", i, i)
	}
	f.op("VORPS Y0, Y1, Y0")
	f.op("VORPS Y2, Y3, Y2")
	f.op("VORPS Y0, Y2, Y0")
	f.op("VMOVMSKPS Y0, DX")
	f.op("TESTL DX, DX")
	f.op("JNZ loop")
	f.op("ADDQ $128, SI")
	f.op("ADDQ $32, BX")
	f.op("SUBQ $32, CX")
	f.op("JMP four")
	vectors(f, []string{"SI"}, func(m memory) {
		m.load("SI", "Y0")
		f.op("VCMPPS $0x1e, Y4, Y0, Y0")
		m.keep("Y0")
		f.op("VMOVMSKPS Y0, DX")
		f.op("TESTL DX, DX")
		f.op("JNZ found")
		f.op("ADDQ $8, BX")
	})
	f.op("MOVQ $-1, %s", f.arg("ret"))
	f.end()
	f.label("found")
	f.op("BSFL DX, DX")
	f.op("ADDQ DX, BX")
	f.op("MOVQ BX, %s", f.arg("ret"))
	f.end()
}
