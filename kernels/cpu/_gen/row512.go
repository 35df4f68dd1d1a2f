package main

import "fmt"

// exponential512 is exponential of 16 values. VSCALEFPS rounds once where exponential's
// second factor does.
type exponential512 struct {
	high, low, octave string
	ln2, taylor       []string
	next              int
}

// newExponential512 loads the constants into Z16 and the registers behind it.
func newExponential512(f *file) *exponential512 {
	e := &exponential512{next: 16}
	e.high, e.low, e.octave = e.constant(f, "expMax", expMax), e.constant(f, "expMin", expMin), e.constant(f, "log2E", log2E)
	e.ln2 = []string{e.constant(f, "ln2High", ln2High), e.constant(f, "ln2Low", ln2Low)}
	for i, c := range expTaylor {
		e.taylor = append(e.taylor, e.constant(f, fmt.Sprint("taylor", len(expTaylor)-1-i), c))
	}
	return e
}

// constant loads a constant into the next register, which it returns.
func (e *exponential512) constant(f *file, name string, v float64) string {
	reg := fmt.Sprintf("Z%d", e.next)
	e.next++
	f.op("VBROADCASTSS %s, %s", f.float(name, v), reg)
	return reg
}

// one is the register that holds 1.
func (e *exponential512) one() string { return e.taylor[len(e.taylor)-1] }

// of replaces Z0 by its exponential; Z1 and Z2 are lost.
func (e *exponential512) of(f *file) {
	f.op("VMINPS Z0, %s, Z0", e.high)
	f.op("VMAXPS Z0, %s, Z0", e.low)
	f.op("VMULPS %s, Z0, Z1", e.octave)
	f.op("VRNDSCALEPS $8, Z1, Z1")
	for _, c := range e.ln2 {
		f.op("VFNMADD231PS %s, Z1, Z0", c)
	}
	f.op("VMOVAPS %s, Z2", e.taylor[0])
	for _, c := range e.taylor[1:] {
		f.op("VFMADD213PS %s, Z0, Z2", c)
	}
	f.op("VSCALEFPS Z1, Z2, Z0")
}

// vectors512 walks the pointers over CX values, 16 at a time and the rest masked. The body
// gets how to load and to store what a pointer points to, and the mask of the last ones.
func vectors512(f *file, pointers []string, body func(load func(pointer, reg string), store func(reg, pointer string), mask string)) {
	f.label("loop")
	f.op("CMPQ CX, $16")
	f.op("JLT rest")
	body(func(pointer, reg string) { f.op("VMOVUPS (%s), %s", pointer, reg) },
		func(reg, pointer string) { f.op("VMOVUPS %s, (%s)", reg, pointer) }, "")
	for _, pointer := range pointers {
		f.op("ADDQ $64, %s", pointer)
	}
	f.op("SUBQ $16, CX")
	f.op("JMP loop")
	f.label("rest")
	f.op("TESTQ CX, CX")
	f.op("JZ done")
	f.op("MOVL $1, AX")
	f.op("SHLL CX, AX")
	f.op("DECL AX")
	f.op("KMOVW AX, K1")
	body(func(pointer, reg string) { f.op("VMOVUPS.Z (%s), K1, %s", pointer, reg) },
		func(reg, pointer string) { f.op("VMOVUPS %s, K1, (%s)", reg, pointer) }, "K1")
	f.label("done")
}

// expSum512 is expSum with 16 exponentials at a time, whose halves join the eight sums one
// after the other.
func expSum512(f *file) {
	f.begin("expSumAVX512", "sets dst = exp(x - max) and returns the sum.", "dst *float32, x *float32, n int, max float32", "float32")
	f.load("dst", "DI", "x", "SI", "n", "CX")
	f.op("VBROADCASTSS %s, Z15", f.arg("max"))
	f.op("VXORPS Y4, Y4, Y4")
	e := newExponential512(f)
	vectors512(f, []string{"SI", "DI"}, func(load func(pointer, reg string), store func(reg, pointer string), mask string) {
		load("SI", "Z0")
		f.op("VSUBPS Z15, Z0, Z0")
		e.of(f)
		store("Z0", "DI")
		if mask != "" {
			f.op("VMOVAPS.Z Z0, %s, Z0", mask)
		}
		f.op("VEXTRACTF64X4 $1, Z0, Y1")
		f.op("VADDPS Y0, Y4, Y4")
		f.op("VADDPS Y1, Y4, Y4")
	})
	f.op("VMOVAPS Y4, Y0")
	sumLanes(f)
	f.op("VMOVSS X0, %s", f.arg("ret"))
	f.end()
}

// gates512 are siluMul and geluMul, see gate and geluArgument.
func gates512(f *file) {
	for _, gate := range []struct {
		name, doc string
		gelu      bool
	}{
		{"siluMulAVX512", "sets dst = silu(gate)·up.", false},
		{"geluMulAVX512", "sets dst = gelu(gate)·up.", true},
	} {
		f.begin(gate.name, gate.doc, "dst *float32, gate *float32, up *float32, n int", "")
		f.load("dst", "DI", "gate", "SI", "up", "DX", "n", "CX")
		e := newExponential512(f)
		f.op("VPBROADCASTD %s, Z15", f.every("sign", 0x80000000))
		f.op("VBROADCASTSS %s, Z14", f.float("geluLinear", geluLinear))
		f.op("VBROADCASTSS %s, Z13", f.float("geluCubic", geluCubic))
		vectors512(f, []string{"SI", "DX", "DI"}, func(load func(pointer, reg string), store func(reg, pointer string), _ string) {
			load("SI", "Z4")
			f.op("VMOVAPS Z4, Z0")
			if gate.gelu {
				f.op("VMULPS Z4, Z4, Z1")
				f.op("VMOVAPS Z14, Z0")
				f.op("VFMADD231PS Z13, Z1, Z0")
				f.op("VMULPS Z4, Z0, Z0")
			}
			f.op("VPXORD Z15, Z0, Z0")
			e.of(f)
			f.op("VADDPS %s, Z0, Z0", e.one())
			f.op("VDIVPS Z0, Z4, Z0")
			load("DX", "Z1")
			f.op("VMULPS Z1, Z0, Z0")
			store("Z0", "DI")
		})
		f.end()
	}
}
