package main

import "fmt"

// neonFile is a file for arm64. Go's assembler has few of the NEON instructions
// on floats and none of the dot products: those are written as words, encoded as
// the Arm Architecture Reference Manual (DDI 0487, C7.2) has them. Vector
// registers are numbers here.
type neonFile struct{ file }

// word writes an instruction that the assembler does not know.
func (f *neonFile) word(encoding uint32, format string, args ...any) {
	f.op("WORD $%#08x // %s", encoding, fmt.Sprintf(format, args...))
}

// three encodes d, n, m of an instruction on three vectors.
func (f *neonFile) three(name string, base uint32, d, n, m int) {
	f.word(base|uint32(m<<16|n<<5|d), "%s V%d, V%d, V%d", name, m, n, d)
}

// element encodes an instruction whose last operand is word i of m.
func (f *neonFile) element(name string, base uint32, d, n, m, i int) {
	f.word(base|uint32(i&1<<21|i>>1<<11|m<<16|n<<5|d), "%s V%d.S[%d], V%d, V%d", name, m, i, n, d)
}

// two encodes d, n of an instruction on two vectors.
func (f *neonFile) two(name string, base uint32, d, n int) {
	f.word(base|uint32(n<<5|d), "%s V%d, V%d", name, n, d)
}

// Floats are four f32.
func (f *neonFile) fadd(d, n, m int)  { f.three("FADD", 0x4e20d400, d, n, m) }
func (f *neonFile) faddp(d, n, m int) { f.three("FADDP", 0x6e20d400, d, n, m) }
func (f *neonFile) fmul(d, n, m int)  { f.three("FMUL", 0x6e20dc00, d, n, m) }
func (f *neonFile) fmla(d, n, m int)  { f.three("FMLA", 0x4e20cc00, d, n, m) } // d += n·m

// The same by one f32 of m.
func (f *neonFile) fmulBy(d, n, m, i int) { f.element("FMUL", 0x4f809000, d, n, m, i) }
func (f *neonFile) fmlaBy(d, n, m, i int) { f.element("FMLA", 0x4f801000, d, n, m, i) }

// sdotBy adds to each of four int32 the products of four int8 of n with the i-th four of m.
func (f *neonFile) sdotBy(d, n, m, i int) { f.element("SDOT", 0x4f80e000, d, n, m, i) }

func (f *neonFile) scvtf(d, n int)  { f.two("SCVTF", 0x4e21d800, d, n) } // int32 to f32
func (f *neonFile) fcvtl(d, n int)  { f.two("FCVTL", 0x0e217800, d, n) } // the lower four f16 to f32
func (f *neonFile) fcvtl2(d, n int) { f.two("FCVTL2", 0x4e217800, d, n) }
func (f *neonFile) shll(d, n int)   { f.two("SHLL $16", 0x2e613800, d, n) } // the lower four bf16 to f32
func (f *neonFile) shll2(d, n int)  { f.two("SHLL2 $16", 0x6e613800, d, n) }

// widen makes four int32 of the lower four bytes of n.
func (f *neonFile) widen(d, n int, signed bool) {
	name, base := "UXTL", uint32(0x2f00a400)
	if signed {
		name, base = "SXTL", 0x0f00a400
	}
	f.two(name+" bytes", base|1<<19, d, n)
	f.two(name+" halves", base|1<<20, d, d)
}

func (f *neonFile) zero(d int) { f.op("VEOR V%d.B16, V%d.B16, V%d.B16", d, d, d) }

// load128 and store128 move a vector, load64 half of one, load32 a word; the rest becomes zero.
func (f *neonFile) load128(offset int, base string, d int) {
	f.op("FMOVQ %d(%s), F%d", offset, base, d)
}
func (f *neonFile) store128(d, offset int, base string)   { f.op("FMOVQ F%d, %d(%s)", d, offset, base) }
func (f *neonFile) load64(offset int, base string, d int) { f.op("FMOVD %d(%s), F%d", offset, base, d) }
func (f *neonFile) load32(offset int, base string, d int) { f.op("FMOVS %d(%s), F%d", offset, base, d) }

// bytes fills a vector with a byte.
func (f *neonFile) bytes(value, d int) { f.op("VMOVI $%d, V%d.B16", value, d) }

// arguments reads arguments into general registers, given in pairs.
func (f *neonFile) arguments(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		f.op("MOVD %s, %s", f.arg(pairs[i]), pairs[i+1])
	}
}

// again counts a register down and jumps until it is zero.
func (f *neonFile) again(register, label string) {
	f.op("SUBS $1, %s, %s", register, register)
	f.op("BNE %s", label)
}

func (f *neonFile) ret() { f.op("RET") }
