package main

// block512 adds a block to a tile of 512-bit cells, in AVX-512 with VNNI. The block's codes
// stay in Z24…Z31 while the tokens pass.
//
// Codes that have a zero start at what it takes off, and 8-bit ones at the -128·Σx that
// making them unsigned adds. VPDPBUSD does not saturate.
func block512(f *file, v form, t tile) {
	w := regs("Z", 24, 8)
	for pair := range 4 {
		v.codes(f, pair, 0, t.bytes, w[2*pair], w[2*pair+1], "Z18")
	}
	d := regs("Z", 20, 2)
	for part := range v.parts() {
		v.scale(f, part, 0, t.rows(), d[part], "Z18")
	}
	if v.minimum {
		v.minimums(f, 0, t.rows(), "Z22", "Z18")
	}
	// The tokens take turns: a sum is ready after five cycles, in which another two a cycle can begin.
	columns := 8 / v.parts()
	for part := range v.parts() {
		for token, sum := range t.sum {
			switch {
			case v.halves:
				f.op("VPBROADCASTD %s, %s", meta(metaHalves+4*part, token), sum)
			case v.zero == 16:
				f.op("VPSRAD.BCST $3, %s, %s", meta(metaBias, token), sum)
			case v.bits == 8:
				f.op("VPBROADCASTD %s, %s", meta(metaBias, token), sum)
			default:
				clear(f, sum)
			}
		}
		for j := part * columns; j < (part+1)*columns; j++ {
			for token, sum := range t.sum {
				f.op("VPDPBUSD.BCST %s, %s, %s", x(4*j, token), w[j], sum)
			}
		}
		for token, sum := range t.sum {
			acc, scale := t.acc[token], []string{"Z18", "Z19", "Z23"}[token%3]
			f.op("VMULPS.BCST %s, %s, %s", meta(metaD, token), d[part], scale)
			f.op("VCVTDQ2PS %s, %s", sum, sum)
			if v.minimum {
				f.op("VFMADD231PS.BCST %s, Z22, %s", meta(metaDSum, token), acc)
			}
			f.op("VFMADD231PS %s, %s, %s", sum, scale, acc)
		}
	}
}

// loadConstants fills the registers that codes and block512 read.
func (v form) loadConstants(f *file) {
	load := func(reg, name string, word uint32) { f.op("VPBROADCASTD %s, %s", f.every(name, word), reg) }
	switch v.bits {
	case 8:
		load(constants512["signs"], "signs", 0x80808080)
		return
	case 5:
		load(constants512["fifth"], "fifth", 0x10101010)
	case 6:
		load(constants512["fifths"], "fifths", 0x30303030)
	}
	load(constants512["nibbles"], "nibbles", 0x0f0f0f0f)
}
