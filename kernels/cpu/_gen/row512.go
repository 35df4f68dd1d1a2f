package main

import "fmt"

// expSum512 is expSum with 16 exponentials at a time, whose halves join the eight sums one
// after the other. VSCALEFPS rounds once where exponential's second factor does.
func expSum512(f *file) {
	f.begin("expSumAVX512", "sets dst = exp(x - max) and returns the sum.", "dst *float32, x *float32, n int, max float32", "float32")
	f.load("dst", "DI", "x", "SI", "n", "CX")
	f.op("VBROADCASTSS %s, Z15", f.arg("max"))
	f.op("VXORPS Y4, Y4, Y4")
	next := 16
	constant := func(name string, v float64) string {
		reg := fmt.Sprintf("Z%d", next)
		next++
		f.op("VBROADCASTSS %s, %s", f.float(name, v), reg)
		return reg
	}
	high, low := constant("expMax", expMax), constant("expMin", expMin)
	octave := constant("log2E", log2E)
	ln2 := []string{constant("ln2High", ln2High), constant("ln2Low", ln2Low)}
	var taylor []string
	for i, c := range expTaylor {
		taylor = append(taylor, constant(fmt.Sprint("taylor", len(expTaylor)-1-i), c))
	}
	body := func() {
		f.op("VSUBPS Z15, Z0, Z0")
		f.op("VMINPS Z0, %s, Z0", high)
		f.op("VMAXPS Z0, %s, Z0", low)
		f.op("VMULPS %s, Z0, Z1", octave)
		f.op("VRNDSCALEPS $8, Z1, Z1")
		for _, c := range ln2 {
			f.op("VFNMADD231PS %s, Z1, Z0", c)
		}
		f.op("VMOVAPS %s, Z2", taylor[0])
		for _, c := range taylor[1:] {
			f.op("VFMADD213PS %s, Z0, Z2", c)
		}
		f.op("VSCALEFPS Z1, Z2, Z0")
	}
	add := func() {
		f.op("VEXTRACTF64X4 $1, Z0, Y1")
		f.op("VADDPS Y0, Y4, Y4")
		f.op("VADDPS Y1, Y4, Y4")
	}
	f.label("loop")
	f.op("CMPQ CX, $16")
	f.op("JLT rest")
	f.op("VMOVUPS (SI), Z0")
	body()
	f.op("VMOVUPS Z0, (DI)")
	add()
	f.op("ADDQ $64, SI")
	f.op("ADDQ $64, DI")
	f.op("SUBQ $16, CX")
	f.op("JMP loop")
	f.label("rest")
	f.op("TESTQ CX, CX")
	f.op("JZ done")
	f.op("MOVL $1, AX")
	f.op("SHLL CX, AX")
	f.op("DECL AX")
	f.op("KMOVW AX, K1")
	f.op("VMOVUPS.Z (SI), K1, Z0")
	body()
	f.op("VMOVUPS Z0, K1, (DI)")
	f.op("VMOVAPS.Z Z0, K1, Z0")
	add()
	f.label("done")
	f.op("VMOVAPS Y4, Y0")
	sumLanes(f)
	f.op("VMOVSS X0, %s", f.arg("ret"))
	f.end()
}
