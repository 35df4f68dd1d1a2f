package main

func (f *neonFile) umax(d, n, m int)   { f.three("UMAX", 0x6ea06400, d, n, m) } // of uint32
func (f *neonFile) umaxv(d, n int)     { f.two("UMAXV", 0x6eb0a800, d, n) }     // of all four
func (f *neonFile) fcvtns(d, n int)    { f.two("FCVTNS", 0x4e21a800, d, n) }    // to the nearest, ties to even
func (f *neonFile) addp(d, n, m int)   { f.three("ADDP", 0x4ea0bc00, d, n, m) } // sums of neighbours, of int32
func (f *neonFile) narrow32(d, n int)  { f.two("XTN 4H", 0x0e612800, d, n) }    // int32 to int16
func (f *neonFile) narrow32b(d, n int) { f.two("XTN2 8H", 0x4e612800, d, n) }
func (f *neonFile) narrow16(d, n int)  { f.two("XTN 8B", 0x0e212800, d, n) } // int16 to int8
func (f *neonFile) narrow16b(d, n int) { f.two("XTN2 16B", 0x4e212800, d, n) }

// neonQuantize follows quantizeGeneric: the largest magnitude by the order of the bits,
// in which NaN and infinities are largest, and zeros for blocks outside the range.
func neonQuantize(f *neonFile) {
	f.begin("quantizeNEON", "turns blocks of 32 activations into int8.", "q *int8, meta *Meta, x *float32, blocks int", "")
	f.arguments("q", "R0", "meta", "R1", "x", "R2", "blocks", "R3")
	const magnitude, limit, largest, sums, other = 24, 25, 26, 27, 28
	f.op("MOVD $0x7fffffff, R4")
	f.op("VDUP R4, V%d.S4", magnitude)
	f.op("MOVD $%d, R4", 0x42fe0000) // 127
	f.op("FMOVS R4, F%d", limit)
	f.op("MOVD $%d, R5", 0x7f800000)
	f.op("MOVD $%d, R6", 0x0d800000) // minQuantized
	f.label("block")
	for i := range 8 {
		f.load128(16*i, "R2", i)
		f.op("VAND V%d.B16, V%d.B16, V%d.B16", magnitude, i, 8+i)
	}
	for step := 1; step < 8; step *= 2 {
		for i := 0; i < 8; i += 2 * step {
			f.umax(8+i, 8+i, 8+i+step)
		}
	}
	f.umaxv(largest, 8)
	f.op("FMOVS F%d, R7", largest)
	f.op("CMPW R5, R7")
	f.op("BHS spoiled")
	f.op("CMPW R6, R7")
	f.op("BLO empty")
	f.op("FDIVS F%d, F%d, F16", largest, limit)
	for i := range 8 {
		f.fmulBy(i, i, 16, 0)
		f.fcvtns(i, i)
	}
	for half := range 2 {
		at := 4 * half
		f.op("VADD V%d.S4, V%d.S4, V%d.S4", at+1, at, 8+at)
		f.op("VADD V%d.S4, V%d.S4, V%d.S4", at+3, at+2, 9+at)
		f.op("VADD V%d.S4, V%d.S4, V%d.S4", 9+at, 8+at, 8+at)
	}
	for i := 0; i < 8; i += 2 {
		f.narrow32(16+i/2, i)
		f.narrow32b(16+i/2, i+1)
	}
	for i := range 2 {
		f.narrow16(20+i, 16+2*i)
		f.narrow16b(20+i, 17+2*i)
		f.store128(20+i, 16*i, "R0")
	}
	// What is kept of the sums is negative: -16 of pairs, -32 of halves, -128 of all.
	f.zero(other)
	f.op("FDIVS F%d, F%d, F%d", limit, largest, largest)
	f.op("FMOVS F%d, %d(R1)", largest, metaD)
	f.addp(sums, 8, 12) // the pairs of both halves
	f.op("VSHL $4, V%d.S4, V16.S4", sums)
	f.op("VSUB V16.S4, V%d.S4, V16.S4", other)
	f.narrow32(16, 16)
	f.op("FMOVD F16, %d(R1)", metaPairs)
	f.addp(sums, sums, sums) // the halves
	f.op("VSHL $5, V%d.S4, V16.S4", sums)
	f.op("VSUB V16.S4, V%d.S4, V16.S4", other)
	f.op("FMOVD F16, %d(R1)", metaHalves)
	f.addp(sums, sums, sums)
	f.op("VSHL $7, V%d.S4, V16.S4", sums)
	f.op("VSUB V16.S4, V%d.S4, V16.S4", other)
	f.op("FMOVS F16, %d(R1)", metaBias)
	f.scvtf(sums, sums)
	f.op("FMULS F%d, F%d, F%d", largest, sums, sums)
	f.op("FMOVS F%d, %d(R1)", sums, metaDSum)
	f.label("next")
	f.op("ADD $128, R2, R2")
	f.op("ADD $32, R0, R0")
	f.op("ADD $%d, R1, R1", metaBytes)
	f.again("R3", "block")
	f.ret()
	f.label("spoiled")
	f.op("MOVD $%d, R7", 0x7fc00000)
	f.op("B zeros")
	f.label("empty")
	f.op("MOVD ZR, R7")
	f.label("zeros")
	f.zero(0)
	f.store128(0, 0, "R0")
	f.store128(0, 16, "R0")
	for at := 0; at < metaBytes; at += 4 {
		value := "ZR"
		if at == metaD || at == metaDSum {
			value = "R7"
		}
		f.op("MOVW %s, %d(R1)", value, at)
	}
	f.op("B next")
}
