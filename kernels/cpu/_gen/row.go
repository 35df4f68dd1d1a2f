package main

import (
	"fmt"
	"strings"
)

// rowFile holds the operations on rows of f32.
func rowFile() *file {
	f := &file{}
	dot(f)
	maximum(f)
	index(f)
	finite(f)
	elementwise(f)
	expSum(f)
	expSum512(f)
	gates512(f)
	gate(f, "siluMulAVX2", "sets dst = silu(gate)·up.", func(f *file) {})
	gate(f, "geluMulAVX2", "sets dst = gelu(gate)·up.", geluArgument)
	quantize(f)
	halves(f)
	ropePairs(f)
	ropeHalves(f)
	pause(f)
	return f
}

// mask leaves in AX the address of the mask words for the last CX < 32 elements: CX
// words of ones, then zeros.
func mask(f *file) {
	words := make([]uint32, 64)
	for i := range 32 {
		words[i] = 0xffffffff
	}
	operand := f.words("tail", words...)
	f.op("LEAQ %s, AX", strings.Replace(operand, "(SB)", "+128(SB)", 1))
	f.op("SHLQ $2, CX")
	f.op("SUBQ CX, AX")
}

// vectors runs body for each eight of CX elements, then for the rest with masked memory
// access. Each pointer advances by eight f32.
func vectors(f *file, pointers []string, body func(m memory)) {
	f.label("loop")
	f.op("CMPQ CX, $8")
	f.op("JLT rest")
	body(memory{f: f})
	for _, p := range pointers {
		f.op("ADDQ $32, %s", p)
	}
	f.op("SUBQ $8, CX")
	f.op("JMP loop")
	f.label("rest")
	f.op("TESTQ CX, CX")
	f.op("JZ done")
	mask(f)
	f.op("VMOVUPS (AX), Y15")
	body(memory{f: f, masked: true})
	f.label("done")
}

// memory moves whole vectors, or those elements that Y15 selects.
type memory struct {
	f      *file
	masked bool
}

func (m memory) load(pointer, reg string) {
	if m.masked {
		m.f.op("VMASKMOVPS (%s), Y15, %s", pointer, reg)
		return
	}
	m.f.op("VMOVUPS (%s), %s", pointer, reg)
}

func (m memory) store(reg, pointer string) {
	if m.masked {
		m.f.op("VMASKMOVPS %s, Y15, (%s)", reg, pointer)
		return
	}
	m.f.op("VMOVUPS %s, (%s)", reg, pointer)
}

// keep clears what lies beyond the end.
func (m memory) keep(reg string) {
	if m.masked {
		m.f.op("VANDPS Y15, %s, %s", reg, reg)
	}
}

// sumLanes adds the eight lanes of Y0 into the lowest, in the order of the Go function
// of that name; Y1 is lost.
func sumLanes(f *file) {
	f.op("VHADDPS Y0, Y0, Y0")
	f.op("VHADDPS Y0, Y0, Y0")
	f.op("VEXTRACTF128 $1, Y0, X1")
	f.op("VADDPS X1, X0, X0")
}

func dot(f *file) {
	f.begin("dotAVX2", "returns Σ x[i]·y[i].", "x *float32, y *float32, n int", "float32")
	f.load("x", "SI", "y", "DX", "n", "CX")
	acc := regs("Y", 0, 4)
	for _, a := range acc {
		f.op("VXORPS %s, %s, %s", a, a, a)
	}
	f.label("loop")
	f.op("CMPQ CX, $32")
	f.op("JLT rest")
	for i, a := range acc {
		f.op("VMOVUPS %d(SI), Y%d", 32*i, 4+i)
		f.op("VFMADD231PS %d(DX), Y%d, %s", 32*i, 4+i, a)
	}
	f.op("ADDQ $128, SI")
	f.op("ADDQ $128, DX")
	f.op("SUBQ $32, CX")
	f.op("JMP loop")
	f.label("rest")
	f.op("TESTQ CX, CX")
	f.op("JZ done")
	mask(f)
	for i, a := range acc {
		f.op("VMOVUPS %d(AX), Y8", 32*i)
		f.op("VMASKMOVPS %d(SI), Y8, Y4", 32*i)
		f.op("VMASKMOVPS %d(DX), Y8, Y5", 32*i)
		f.op("VFMADD231PS Y5, Y4, %s", a)
	}
	f.label("done")
	f.op("VADDPS Y1, Y0, Y0")
	f.op("VADDPS Y3, Y2, Y2")
	f.op("VADDPS Y2, Y0, Y0")
	sumLanes(f)
	f.op("VMOVSS X0, %s", f.arg("ret"))
	f.end()
}

// maximum relies on VMAXPS giving its second source, here the accumulator, if the
// first is NaN or equal.
func maximum(f *file) {
	f.begin("maxAVX2", "returns the largest element, ignoring NaN.", "x *float32, n int", "float32")
	f.load("x", "SI", "n", "CX")
	acc := regs("Y", 0, 4)
	lowest := f.every("minusInfinity", 0xff800000)
	for _, a := range acc {
		f.op("VMOVUPS %s, %s", lowest, a)
	}
	f.op("VMOVUPS %s, Y9", lowest)
	f.label("loop")
	f.op("CMPQ CX, $32")
	f.op("JLT rest")
	for i, a := range acc {
		f.op("VMOVUPS %d(SI), Y%d", 32*i, 4+i)
		f.op("VMAXPS %s, Y%d, %s", a, 4+i, a)
	}
	f.op("ADDQ $128, SI")
	f.op("SUBQ $32, CX")
	f.op("JMP loop")
	f.label("rest")
	f.op("TESTQ CX, CX")
	f.op("JZ done")
	mask(f)
	for i, a := range acc {
		f.op("VMOVUPS %d(AX), Y8", 32*i)
		f.op("VMASKMOVPS %d(SI), Y8, Y4", 32*i)
		f.op("VBLENDVPS Y8, Y4, Y9, Y4")
		f.op("VMAXPS %s, Y4, %s", a, a)
	}
	f.label("done")
	f.op("VMAXPS Y1, Y0, Y0")
	f.op("VMAXPS Y3, Y2, Y2")
	f.op("VMAXPS Y2, Y0, Y0")
	f.op("VEXTRACTF128 $1, Y0, X1")
	f.op("VMAXPS X1, X0, X0")
	f.op("VPERMILPS $0x4e, X0, X1")
	f.op("VMAXPS X1, X0, X0")
	f.op("VPERMILPS $0xb1, X0, X1")
	f.op("VMAXPS X1, X0, X0")
	f.op("VMOVSS X0, %s", f.arg("ret"))
	f.end()
}

func index(f *file) {
	f.begin("indexAVX2", "returns the first index of a value equal to v, or -1.", "x *float32, n int, v float32", "int")
	f.load("x", "SI", "n", "CX")
	f.op("VBROADCASTSS %s, Y1", f.arg("v"))
	f.op("XORQ BX, BX")
	vectors(f, []string{"SI"}, func(m memory) {
		m.load("SI", "Y0")
		f.op("VCMPPS $0, Y0, Y1, Y0")
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

// finite looks for exponents of ones only, which NaN and infinities have.
func finite(f *file) {
	f.begin("finiteAVX2", "returns 1 if no element is NaN or infinite, else 0.", "x *float32, n int", "int")
	f.load("x", "SI", "n", "CX")
	f.op("VMOVUPS %s, Y14", f.every("infinity", 0x7f800000))
	f.op("VPXOR Y1, Y1, Y1")
	vectors(f, []string{"SI"}, func(m memory) {
		m.load("SI", "Y0")
		f.op("VPAND Y14, Y0, Y0")
		f.op("VPCMPEQD Y14, Y0, Y0")
		f.op("VPOR Y0, Y1, Y1")
	})
	f.op("XORL AX, AX")
	f.op("VPTEST Y1, Y1")
	f.op("SETEQ AX")
	f.op("MOVQ AX, %s", f.arg("ret"))
	f.end()
}

func elementwise(f *file) {
	f.begin("addAVX2", "sets dst += x.", "dst *float32, x *float32, n int", "")
	f.load("dst", "DI", "x", "SI", "n", "CX")
	vectors(f, []string{"DI", "SI"}, func(m memory) {
		m.load("DI", "Y0")
		m.load("SI", "Y1")
		f.op("VADDPS Y1, Y0, Y0")
		m.store("Y0", "DI")
	})
	f.end()

	f.begin("scaleAVX2", "sets dst *= s.", "dst *float32, n int, s float32", "")
	f.load("dst", "DI", "n", "CX")
	f.op("VBROADCASTSS %s, Y1", f.arg("s"))
	vectors(f, []string{"DI"}, func(m memory) {
		m.load("DI", "Y0")
		f.op("VMULPS Y1, Y0, Y0")
		m.store("Y0", "DI")
	})
	f.end()

	f.begin("scaleMulAVX2", "sets dst = x·s·w.", "dst *float32, x *float32, w *float32, n int, s float32", "")
	f.load("dst", "DI", "x", "SI", "w", "DX", "n", "CX")
	f.op("VBROADCASTSS %s, Y1", f.arg("s"))
	vectors(f, []string{"DI", "SI", "DX"}, func(m memory) {
		m.load("SI", "Y0")
		m.load("DX", "Y2")
		f.op("VMULPS Y1, Y0, Y0")
		f.op("VMULPS Y2, Y0, Y0")
		m.store("Y0", "DI")
	})
	f.end()
}

// The constants of exp32.
const (
	expMax, expMin  = 89, -105
	log2E           = 1.44269504088896340736
	ln2High, ln2Low = 0x1.62ep-1, 0x1.0bfbe8e7bcd5ep-15
)

var expTaylor = []float64{1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}

// exponential replaces Y0 by its exponential, as exp32 does step by step; Y1, Y2 and Y3
// are lost, Y13 and Y14 hold the bounds that expBounds loads. The bounds are the first
// sources of minimum and maximum, so that a NaN passes.
func exponential(f *file) {
	f.op("VMINPS Y0, Y14, Y0")
	f.op("VMAXPS Y0, Y13, Y0")
	f.op("VMULPS %s, Y0, Y1", f.float("log2E", log2E))
	f.op("VROUNDPS $8, Y1, Y1")
	f.op("VFNMADD231PS %s, Y1, Y0", f.float("ln2High", ln2High))
	f.op("VFNMADD231PS %s, Y1, Y0", f.float("ln2Low", ln2Low))
	f.op("VMOVUPS %s, Y2", f.float("taylor7", expTaylor[0]))
	for i, c := range expTaylor[1:] {
		f.op("VFMADD213PS %s, Y0, Y2", f.float(fmt.Sprint("taylor", 6-i), c))
	}
	f.op("VCVTPS2DQ Y1, Y1")
	f.op("VPSRAD $1, Y1, Y3")
	f.op("VPSUBD Y3, Y1, Y1")
	for _, exponent := range []string{"Y3", "Y1"} {
		f.op("VPADDD %s, %s, %s", f.every("exponentBias", 127), exponent, exponent)
		f.op("VPSLLD $23, %s, %s", exponent, exponent)
		f.op("VMULPS %s, Y2, Y2", exponent)
	}
	f.op("VMOVAPS Y2, Y0")
}

func expBounds(f *file) {
	f.op("VMOVUPS %s, Y14", f.float("expMax", expMax))
	f.op("VMOVUPS %s, Y13", f.float("expMin", expMin))
}

func expSum(f *file) {
	f.begin("expSumAVX2", "sets dst = exp(x - max) and returns the sum.", "dst *float32, x *float32, n int, max float32", "float32")
	f.load("dst", "DI", "x", "SI", "n", "CX")
	f.op("VBROADCASTSS %s, Y12", f.arg("max"))
	f.op("VXORPS Y11, Y11, Y11")
	expBounds(f)
	vectors(f, []string{"DI", "SI"}, func(m memory) {
		m.load("SI", "Y0")
		f.op("VSUBPS Y12, Y0, Y0")
		exponential(f)
		m.store("Y0", "DI")
		m.keep("Y0")
		f.op("VADDPS Y0, Y11, Y11")
	})
	f.op("VMOVAPS Y11, Y0")
	sumLanes(f)
	f.op("VMOVSS X0, %s", f.arg("ret"))
	f.end()
}

// gate writes g / (1 + exp(-a(g)))·up, where argument turns Y0 from g into a(g).
func gate(f *file, name, doc string, argument func(f *file)) {
	f.begin(name, doc, "dst *float32, gate *float32, up *float32, n int", "")
	f.load("dst", "DI", "gate", "SI", "up", "DX", "n", "CX")
	expBounds(f)
	vectors(f, []string{"DI", "SI", "DX"}, func(m memory) {
		m.load("SI", "Y4")
		f.op("VMOVAPS Y4, Y0")
		argument(f)
		f.op("VXORPS %s, Y0, Y0", f.every("sign", 0x80000000))
		exponential(f)
		f.op("VADDPS %s, Y0, Y0", f.float("taylor0", 1))
		f.op("VDIVPS Y0, Y4, Y0")
		m.load("DX", "Y1")
		f.op("VMULPS Y1, Y0, Y0")
		m.store("Y0", "DI")
	})
	f.end()
}

// The factors of GELU's argument.
const geluLinear, geluCubic = 1.59576912160573071176, 0.07135481627260025

func geluArgument(f *file) {
	f.op("VMULPS Y4, Y4, Y1")
	f.op("VMOVUPS %s, Y0", f.float("geluLinear", geluLinear))
	f.op("VFMADD231PS %s, Y1, Y0", f.float("geluCubic", geluCubic))
	f.op("VMULPS Y4, Y0, Y0")
}

func ropePairs(f *file) {
	f.begin("ropePairsAVX2", "rotates vectors of four neighbouring pairs.", "x *float32, cos *float32, sin *float32, vectors int", "")
	f.load("x", "DI", "cos", "SI", "sin", "DX", "vectors", "CX")
	f.op("VMOVDQU %s, Y15", f.words("twice", 0, 0, 1, 1, 2, 2, 3, 3))
	f.label("loop")
	f.op("VMOVUPS (SI), X1")
	f.op("VMOVUPS (DX), X2")
	f.op("VPERMPS Y1, Y15, Y1")
	f.op("VPERMPS Y2, Y15, Y2")
	f.op("VMOVUPS (DI), Y0")
	f.op("VPERMILPS $0xb1, Y0, Y3")
	f.op("VMULPS Y1, Y0, Y0")
	f.op("VMULPS Y2, Y3, Y3")
	f.op("VADDSUBPS Y3, Y0, Y0")
	f.op("VMOVUPS Y0, (DI)")
	f.op("ADDQ $16, SI")
	f.op("ADDQ $16, DX")
	f.op("ADDQ $32, DI")
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.end()
}

func ropeHalves(f *file) {
	f.begin("ropeHalvesAVX2", "rotates the pairs (low[i], high[i]).", "low *float32, high *float32, cos *float32, sin *float32, n int", "")
	f.load("low", "DI", "high", "BX", "cos", "SI", "sin", "DX", "n", "CX")
	vectors(f, []string{"DI", "BX", "SI", "DX"}, func(m memory) {
		m.load("DI", "Y0")
		m.load("BX", "Y1")
		m.load("SI", "Y2")
		m.load("DX", "Y3")
		f.op("VMULPS Y2, Y0, Y4")
		f.op("VMULPS Y3, Y1, Y5")
		f.op("VSUBPS Y5, Y4, Y4")
		f.op("VMULPS Y2, Y1, Y1")
		f.op("VMULPS Y3, Y0, Y0")
		f.op("VADDPS Y0, Y1, Y1")
		m.store("Y4", "DI")
		m.store("Y1", "BX")
	})
	f.end()
}

func pause(f *file) {
	f.begin("pauseAMD64", "spends n spin-wait hints.", "n int", "")
	f.load("n", "CX")
	f.label("loop")
	f.op("DECQ CX")
	f.op("JLT done")
	f.op("PAUSE")
	f.op("JMP loop")
	f.label("done")
	f.op("RET")
}
