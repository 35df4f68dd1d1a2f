package main

import "math"

func (f *neonFile) fmls(d, n, m int)  { f.three("FMLS", 0x4ea0cc00, d, n, m) } // d -= n·m
func (f *neonFile) fdiv(d, n, m int)  { f.three("FDIV", 0x6e20fc00, d, n, m) } // n / m
func (f *neonFile) fsub(d, n, m int)  { f.three("FSUB", 0x4ea0d400, d, n, m) } // n - m
func (f *neonFile) fmin(d, n, m int)  { f.three("FMIN", 0x4ea0f400, d, n, m) } // NaN if either is
func (f *neonFile) fmax(d, n, m int)  { f.three("FMAX", 0x4e20f400, d, n, m) }
func (f *neonFile) fneg(d, n int)     { f.two("FNEG", 0x6ea0f800, d, n) }
func (f *neonFile) frintn(d, n int)   { f.two("FRINTN", 0x4e218800, d, n) } // to the nearest, ties to even
func (f *neonFile) fcvtzs(d, n int)   { f.two("FCVTZS", 0x4ea1b800, d, n) }
func (f *neonFile) sshr1(d, n int)    { f.two("SSHR $1", 0x4f3f0400, d, n) }
func (f *neonFile) broadcast(d int)   { f.two("DUP S[0]", 0x4e040400, d, d) }
func (f *neonFile) constant(i, d int) { f.load128(16*i, "R10", d) } // of neonConstants

// neonConstants are the vectors at R10; the last of exp32's polynomial is the 1 of
// the gates too.
const (
	neonExpMax = iota
	neonExpMin
	neonLog2E
	neonLn2High
	neonLn2Low
	neonBias
	neonGELULinear
	neonGELUCubic
	neonTaylor
)

func neonConstants(f *neonFile) {
	values := []float64{expMax, expMin, log2E, ln2High, ln2Low, 0, 1.59576912160573071176, 0.07135481627260025}
	var words []uint32
	for i, v := range append(values, expTaylor...) {
		word := math.Float32bits(float32(v))
		if i == neonBias {
			word = 127
		}
		words = append(words, word, word, word, word)
	}
	f.words("neonConstants", words...)
	f.op("MOVD $neonConstants<>(SB), R10")
}

func neonRowFile() *neonFile {
	f := &neonFile{}
	neonDot(f)
	neonExpSum(f)
	neonQuantize(f)
	neonGate(f, "siluMulNEON", "sets vectors of four of dst to silu(gate)·up.", func() { f.fneg(0, 4) })
	neonGate(f, "geluMulNEON", "sets vectors of four of dst to gelu(gate)·up.", func() {
		f.fmul(1, 4, 4)
		f.constant(neonGELULinear, 0)
		f.constant(neonGELUCubic, 2)
		f.fmla(0, 1, 2)
		f.fmul(0, 0, 4)
		f.fneg(0, 0)
	})
	return f
}

// neonDot leaves the sums in memory: Go joins the elements behind the last run.
func neonDot(f *neonFile) {
	f.begin("dotNEON", "sets sums to those of n runs of 32 products.", "sums *float32, x *float32, y *float32, n int", "")
	f.arguments("sums", "R0", "x", "R1", "y", "R2", "n", "R3")
	for i := range 8 {
		f.zero(i)
	}
	f.label("loop")
	for i := range 8 {
		f.load128(16*i, "R1", 8+i)
		f.load128(16*i, "R2", 16+i)
		f.fmla(i, 8+i, 16+i)
	}
	f.op("ADD $128, R1, R1")
	f.op("ADD $128, R2, R2")
	f.again("R3", "loop")
	for i := range 8 {
		f.store128(i, 16*i, "R0")
	}
	f.ret()
}

// neonExponential replaces V0 by its exponential, as exp32 does step by step; V1, V2
// and V3 are lost.
func neonExponential(f *neonFile) {
	const x, n, scratch, other = 0, 1, 2, 3
	f.constant(neonExpMax, scratch)
	f.fmin(x, x, scratch)
	f.constant(neonExpMin, scratch)
	f.fmax(x, x, scratch)
	f.constant(neonLog2E, scratch)
	f.fmul(n, x, scratch)
	f.frintn(n, n)
	f.constant(neonLn2High, scratch)
	f.fmls(x, n, scratch)
	f.constant(neonLn2Low, scratch)
	f.fmls(x, n, scratch)
	p, next := scratch, other
	f.constant(neonTaylor, p)
	for i := range expTaylor[1:] {
		f.constant(neonTaylor+1+i, next)
		f.fmla(next, p, x)
		p, next = next, p
	}
	f.fcvtzs(n, n)
	f.sshr1(x, n)
	f.op("VSUB V%d.S4, V%d.S4, V%d.S4", x, n, n)
	f.constant(neonBias, next)
	for _, exponent := range []int{x, n} {
		f.op("VADD V%d.S4, V%d.S4, V%d.S4", next, exponent, exponent)
		f.op("VSHL $23, V%d.S4, V%d.S4", exponent, exponent)
		f.fmul(p, p, exponent)
	}
	f.op("VORR V%d.B16, V%d.B16, V%d.B16", p, p, x)
}

// neonExpSum adds to sums, which Go goes on with.
func neonExpSum(f *neonFile) {
	f.begin("expSumNEON", "sets n runs of eight of dst to exp(x - max), and sums to their eight sums.",
		"sums *float32, dst *float32, x *float32, n int, max float32", "")
	f.arguments("sums", "R0", "dst", "R1", "x", "R2", "n", "R3")
	neonConstants(f)
	f.op("FMOVS %s, F5", f.arg("max"))
	f.broadcast(5)
	f.zero(6)
	f.zero(7)
	f.label("loop")
	for half := range 2 {
		f.load128(16*half, "R2", 0)
		f.fsub(0, 0, 5)
		neonExponential(f)
		f.store128(0, 16*half, "R1")
		f.fadd(6+half, 6+half, 0)
	}
	f.op("ADD $32, R1, R1")
	f.op("ADD $32, R2, R2")
	f.again("R3", "loop")
	f.store128(6, 0, "R0")
	f.store128(7, 16, "R0")
	f.ret()
}

// neonGate writes g / (1 + exp(a(g)))·up, where argument sets V0 to a of V4.
func neonGate(f *neonFile, name, doc string, argument func()) {
	f.begin(name, doc, "dst *float32, gate *float32, up *float32, n int", "")
	f.arguments("dst", "R0", "gate", "R1", "up", "R2", "n", "R3")
	neonConstants(f)
	f.label("loop")
	f.load128(0, "R1", 4)
	argument()
	neonExponential(f)
	f.constant(neonTaylor+len(expTaylor)-1, 1)
	f.fadd(0, 0, 1)
	f.fdiv(0, 4, 0)
	f.load128(0, "R2", 1)
	f.fmul(0, 0, 1)
	f.store128(0, 0, "R0")
	for _, pointer := range []string{"R0", "R1", "R2"} {
		f.op("ADD $16, %s, %s", pointer, pointer)
	}
	f.again("R3", "loop")
	f.ret()
}
