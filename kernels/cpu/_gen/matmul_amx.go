package main

import "fmt"

// Products of many tokens in AMX have three steps, whose results lie in the caches. One lays
// out activations of up to 16 tokens, once for all rows. One unpacks blocks of a group of
// rows, once for all tokens. The last multiplies both, as tiles. It is the same for all forms
// but for what it adds:
//
//	Minimum  a scale and a minimum
//	Plain    a scale
//	Halves   a scale for each half of the columns
//
// A block is a record in both layouts: of weights 8 × 64 bytes, each four columns' codes of 16
// rows, less their zero; of activations 16 × 32 bytes, each a token's. Then follow 16 × f32
// twice: scales and minimums of the rows, or the scales of both halves; and D and DSum of the
// tokens.
const (
	recordFirst  = 512
	recordSecond = 576
	recordBytes  = 640
)

// slotBytes is the size of a tile of integer sums, [16 tokens, 16 rows].
const slotBytes = 1024

// magic is 1.5·2²³ in f32. An integer below 2²² added to its bits adds itself to its value.
const magic = 0x4b400000

func amxFile() *file {
	f := &file{}
	arrangeAMX(f)
	for _, v := range forms {
		unpackAMX(f, v)
	}
	for _, kind := range []string{"Minimum", "Plain", "Halves"} {
		multiplyAMX(f, kind)
	}
	peakAMX(f)
	return f
}

// arrangeAMX writes the function that lays out activations. Tokens beyond the last are zeros.
func arrangeAMX(f *file) {
	f.begin("arrangeAMX", "lays out activations of 1 … 16 tokens, whose rows of x and meta are k and stride bytes.",
		"records *byte, x *int8, meta *Meta, k int, stride int, blocks int, tokens int", "")
	f.load("records", "DI", "x", "SI", "meta", "BX", "k", "R8", "blocks", "R9", "tokens", "R10")
	// Z0 and Y1 are offsets of the tokens' meta; K1 and K2 tell which tokens there are.
	f.op("VPBROADCASTD %s, Z0", f.arg("stride"))
	f.op("VPMULLD %s, Z0, Z0", f.words("counts", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
	f.op("VEXTRACTI64X4 $1, Z0, Y1")
	f.op("VMOVDQU32 %s, Z2", f.words("evens", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30))
	f.op("VMOVDQU32 %s, Z3", f.words("odds", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31))
	f.op("MOVQ R10, CX")
	f.op("MOVQ $1, R11")
	f.op("SHLQ CX, R11")
	f.op("DECQ R11")
	f.op("MOVQ R11, R12")
	f.op("SHRQ $8, R12")
	clear(f, "Z7")
	f.label("block")
	f.op("CMPQ R10, $16")
	f.op("JEQ full")
	for line := range 8 {
		f.op("VMOVDQU64 Z7, %d(DI)", 64*line)
	}
	f.label("full")
	f.op("MOVQ SI, R13")
	f.op("MOVQ DI, DX")
	f.op("MOVQ R10, CX")
	f.label("token")
	f.op("VMOVDQU (R13), Y8")
	f.op("VMOVDQU Y8, (DX)")
	f.op("ADDQ R8, R13")
	f.op("ADDQ $32, DX")
	f.op("DECQ CX")
	f.op("JNZ token")
	// D and DSum are neighbours: eight tokens in a vector.
	f.op("KMOVB R11, K1")
	f.op("KMOVB R12, K2")
	clear(f, "Z4")
	clear(f, "Z5")
	f.op("VGATHERDPD %d(BX)(Y0*1), K1, Z4", metaD)
	f.op("VGATHERDPD %d(BX)(Y1*1), K2, Z5", metaD)
	f.op("VMOVDQA64 Z4, Z6")
	f.op("VPERMT2PS Z5, Z2, Z6")
	f.op("VPERMT2PS Z5, Z3, Z4")
	f.op("VMOVUPS Z6, %d(DI)", recordFirst)
	f.op("VMOVUPS Z4, %d(DI)", recordSecond)
	f.op("ADDQ $32, SI")
	f.op("ADDQ $%d, BX", metaBytes)
	f.op("ADDQ $%d, DI", recordBytes)
	f.op("DECQ R9")
	f.op("JNZ block")
	f.end()
}

// unpackAMX writes the function that unpacks a form. SI points to the packed blocks, AX to their
// header, as form.codes and form.factor want it.
func unpackAMX(f *file, v form) {
	f.begin(fmt.Sprintf("unpack%sAMX", v.name), "unpacks blocks of a group, from a header on if there are headers.", "records *byte, w *byte, blocks int", "")
	f.load("records", "DI", "w", "SI", "blocks", "CX")
	v.loadConstants(f)
	if v.zero > 0 {
		f.op("VPBROADCASTD (DX), Z19")
		f.op("VPBROADCASTD %s, Z18", f.every(fmt.Sprintf("zero%d", v.zero), uint32(v.zero)*0x01010101))
	}
	if v.super {
		f.label("super")
		f.op("MOVQ SI, AX")
		f.op("ADDQ $%d, SI", v.headerBytes())
		f.op("MOVQ $%d, R14", superBlocks)
	}
	f.label("block")
	for pair := range 4 {
		low, high, scratch := fmt.Sprintf("Z%d", 3*pair), fmt.Sprintf("Z%d", 3*pair+1), fmt.Sprintf("Z%d", 3*pair+2)
		if v.bits == 8 {
			// Tiles multiply signed bytes as they are.
			f.op("VMOVDQU64 %d(SI), %s", 128*pair, low)
			f.op("VMOVDQU64 %d(SI), %s", 128*pair+64, high)
		} else {
			v.codes(f, pair, 0, 64, low, high, scratch)
		}
		for i, reg := range []string{low, high} {
			if v.zero > 0 {
				f.op("VPSUBB Z18, %s, %s", reg, reg)
			}
			f.op("VMOVDQU64 %s, %d(DI)", reg, 128*pair+64*i)
		}
	}
	for part := range v.parts() {
		v.scale(f, part, 0, 16, "Z12", "Z13")
		f.op("VMOVUPS Z12, %d(DI)", recordFirst+64*part)
	}
	if v.minimum {
		v.minimums(f, 0, 16, "Z14", "Z15")
		f.op("VMOVUPS Z14, %d(DI)", recordSecond)
	}
	f.op("ADDQ $%d, SI", v.blockBytes())
	f.op("ADDQ $%d, DI", recordBytes)
	if v.super {
		f.op("DECQ R14")
		f.op("JNZ block")
		f.op("SUBQ $%d, CX", superBlocks)
		f.op("JNZ super")
	} else {
		f.op("DECQ CX")
		f.op("JNZ block")
	}
	f.end()
}

// Tiles of a block's product; of halves, each is followed by the second half's.
const tileSums, tileActivations, tileCodes = 0, 2, 4

// multiplyAMX writes the last step, of a group and all tokens. It keeps these registers:
//
//	SI weights      R10 the same, ahead  R12, R13 32 and 64
//	BX activations  R15 the same, ahead
//	CX blocks of the tile left           R11 the same, ahead
//	DI out          R8 tokens left       R9 row of out in bytes
//	AX slot         DX row of out
//
// The accumulators are Z0 … Z15. A product takes some 120 cycles from the loads of its tiles to
// sums in vectors, so it is begun three blocks ahead, which may be the next tile's: a turn
// multiplies the second next block, adds the sums of its own, loads the third meanwhile and
// stores the second next's.
//
// For some 150 to 400 cycles after an instruction of AMX, port 5 takes neither multiplications
// nor conversions of 512 bits, but additions. So integer additions of magic and
// float ones that take it off make the sums floats, exactly. See RATIONALE.md: AMX.
func multiplyAMX(f *file, kind string) {
	f.begin("multiply"+kind+"AMX", "multiplies blocks of a group with tokens; with more, it adds to out.",
		"out *float32, weights *byte, activations *byte, slots *byte, config *byte, ldo int, blocks int, tokens int, more int", "")
	f.load("config", "AX")
	f.ldtilecfg("AX")
	f.load("out", "DI", "weights", "R10", "activations", "BX", "slots", "AX", "ldo", "R9", "tokens", "R8", "blocks", "R11")
	f.op("MOVQ BX, R15")
	f.op("SHLQ $2, R9")
	f.op("MOVQ $32, R12")
	f.op("MOVQ $64, R13")
	f.op("VPBROADCASTD %s, Z18", f.every("minusMagic", magic|1<<31))
	f.op("VPBROADCASTD %s, Z19", f.every("magic", magic))
	loadTiles(f, kind, "first")
	for _, next := range []string{"second", "third"} {
		multiplyTiles(f, kind)
		loadTiles(f, kind, next)
		storeSums(f, kind)
	}
	f.label("tile")
	for token := range 16 {
		clear(f, fmt.Sprintf("Z%d", token))
	}
	f.op("CMPQ %s, $0", f.arg("more"))
	f.op("JEQ cleared")
	eachToken(f, "VMOVUPS (DX), Z%d", "cleared")
	f.label("cleared")
	f.load("weights", "SI", "blocks", "CX")
	f.label("block")
	multiplyTiles(f, kind)
	f.op("VMOVUPS %d(SI), Z16", recordFirst)
	if kind != "Plain" {
		f.op("VMOVUPS %d(SI), Z17", recordSecond)
	}
	for token := range 16 {
		addSums(f, kind, token)
		if token == 7 { // between them, so that the loads of tiles are not all at once
			loadTiles(f, kind, "ahead")
		}
	}
	storeSums(f, kind)
	f.op("ADDQ $%d, SI", recordBytes)
	f.op("ADDQ $%d, BX", recordBytes)
	f.op("DECQ CX")
	f.op("JNZ block")
	eachToken(f, "VMOVUPS Z%d, (DX)", "stored")
	f.label("stored")
	f.op("MOVQ R9, DX")
	f.op("SHLQ $4, DX")
	f.op("ADDQ DX, DI")
	f.op("SUBQ $16, R8")
	f.op("JGT tile")
	f.tilerelease()
	f.end()
}

// eachToken moves the accumulators of the tile's tokens; DX points to their rows of out.
func eachToken(f *file, move, end string) {
	f.op("MOVQ DI, DX")
	for token := range 16 {
		f.op(move, token)
		if token < 15 {
			f.op("CMPQ R8, $%d", token+1)
			f.op("JEQ %s", end)
			f.op("ADDQ R9, DX")
		}
	}
}

// loadTiles loads the block ahead and moves to the next, after a tile's last to the group's
// first again.
func loadTiles(f *file, kind, label string) {
	f.tileLoad(tileActivations, "R15", "R12", 0)
	f.tileLoad(tileCodes, "R10", "R13", 0)
	if kind == "Halves" {
		f.tileLoad(tileActivations+1, "R15", "R12", 16)
		f.tileLoad(tileCodes+1, "R10", "R13", 256)
	}
	f.op("ADDQ $%d, R15", recordBytes)
	f.op("ADDQ $%d, R10", recordBytes)
	f.op("DECQ R11")
	f.op("JNZ %s", label)
	f.load("weights", "R10", "blocks", "R11")
	f.label(label)
}

func multiplyTiles(f *file, kind string) {
	for half := range numSums(kind) {
		f.tileZero(tileSums + half)
		f.tdpbssd(tileActivations+half, tileCodes+half, tileSums+half)
	}
}

// storeSums stores to the slot that is free, and moves to the other.
func storeSums(f *file, kind string) {
	for half := range numSums(kind) {
		f.tileStore(tileSums+half, "AX", "R13", 2*slotBytes*half)
	}
	f.op("XORQ $%d, AX", slotBytes)
}

// addSums adds a block's sums of a token to its accumulator, in the order of matMulGeneric.
func addSums(f *file, kind string, token int) {
	if kind == "Minimum" {
		f.op("VFMADD231PS.BCST %d(BX), Z17, Z%d", recordSecond+4*token, token)
	}
	for half := range numSums(kind) {
		i := (token*numSums(kind) + half) % 6
		sum, scale := fmt.Sprintf("Z%d", 20+2*i), fmt.Sprintf("Z%d", 21+2*i)
		f.op("VPADDD %d(AX), Z19, %s", 64*token+2*slotBytes*half, sum)
		f.op("VADDPS %s, Z18, %s", sum, sum)
		f.op("VMULPS.BCST %d(BX), Z%d, %s", recordFirst+4*token, 16+half, scale)
		f.op("VFMADD231PS %s, %s, Z%d", sum, scale, token)
	}
}

// numSums is the number of integer sums of a block.
func numSums(kind string) int {
	if kind == "Halves" {
		return 2
	}
	return 1
}

// peakAMX multiplies whole tiles of zeros into four independent sums, each of which waits for
// the one before.
func peakAMX(f *file) {
	f.begin("peakAMX", "multiplies n times 12 tiles.", "config *byte, n int", "")
	f.load("config", "AX", "n", "CX")
	f.ldtilecfg("AX")
	for tile := range 8 {
		f.tileZero(tile)
	}
	f.label("loop")
	for i := range 12 {
		f.tdpbssd(4+i%4/2, 6+i%2, i%4)
	}
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.tilerelease()
	f.end()
}

// The instructions of AMX, which Go's assembler does not know (Intel SDM, volume 2: all are
// VEX.128 …0F38.W0 with the last bits of the second byte as below).
const (
	vexNone, vex66, vexF3, vexF2 = 0, 1, 2, 3
)

func (f *file) ldtilecfg(base string) { f.amxMemory("LDTILECFG", vexNone, 0x49, 0, base, "", 0) }

func (f *file) tilerelease() { f.amxRegisters("TILERELEASE", vexNone, 0x49, 0, 0, 0) }

func (f *file) tileZero(tile int) {
	f.amxRegisters(fmt.Sprintf("TILEZERO tmm%d", tile), vexF2, 0x49, tile, 0, 0)
}

// tileLoad loads a tile whose rows begin a stride apart.
func (f *file) tileLoad(tile int, base, stride string, displacement int) {
	f.amxMemory(fmt.Sprintf("TILELOADD %d(%s)(%s*1), tmm%d", displacement, base, stride, tile), vexF2, 0x4b, tile, base, stride, displacement)
}

func (f *file) tileStore(tile int, base, stride string, displacement int) {
	f.amxMemory(fmt.Sprintf("TILESTORED tmm%d, %d(%s)(%s*1)", tile, displacement, base, stride), vexF3, 0x4b, tile, base, stride, displacement)
}

// tdpbssd adds the products of signed bytes: sums[m, n] += Σ a[m, k]·b[k/4, 4n + k%4].
func (f *file) tdpbssd(a, b, sums int) {
	f.amxRegisters(fmt.Sprintf("TDPBSSD tmm%d, tmm%d, tmm%d", b, a, sums), vexF2, 0x5e, sums, a, b)
}

func (f *file) amxRegisters(text string, prefix, opcode, reg, rm, vvvv int) {
	f.op("BYTE $0xc4; BYTE $0xe2; BYTE $%#02x; BYTE $%#02x; BYTE $%#02x // %s", (15-vvvv)<<3|prefix, opcode, 3<<6|reg<<3|rm, text)
}

// amxMemory addresses displacement(base)(index*1), or displacement(base) without an index.
func (f *file) amxMemory(text string, prefix, opcode, reg int, base, index string, displacement int) {
	b, i := generalRegister(base), 4 // no index
	if index != "" {
		i = generalRegister(index)
	}
	extended := 7 - b>>3 - i>>3<<1 // inverted upper bits of reg, index and base
	modrm, bytes := reg<<3|4, fmt.Sprintf("; BYTE $%#02x", i&7<<3|b&7)
	if displacement != 0 || b&7 == 5 {
		modrm |= 2 << 6
		for shift := 0; shift < 32; shift += 8 {
			bytes += fmt.Sprintf("; BYTE $%#02x", displacement>>shift&0xff)
		}
	}
	f.op("BYTE $0xc4; BYTE $%#02x; BYTE $%#02x; BYTE $%#02x; BYTE $%#02x%s // %s", extended<<5|2, 15<<3|prefix, opcode, modrm, bytes, text)
}

// generalRegister is the number of a general register.
func generalRegister(name string) int {
	for i, n := range []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"} {
		if n == name {
			return i
		}
	}
	panic(name + " is not a general register")
}
