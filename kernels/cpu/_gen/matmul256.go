package main

import "fmt"

// block256 adds a block to a tile of 256-bit cells. Two columns of four and two cells are
// unpacked at a time, which the tokens share.
//
// AVX2 has products of an unsigned with a signed byte, added in pairs to 16 bits. A sum
// over a block stays exact without widening: of 4-bit codes it fits, 16·15·127 = 30480; of
// 5 and 6 bits it may wrap on the way, but starts at what their zero takes off (16 or 32 for
// each activation), and |code - zero| ≤ 16 over 16 products, or ≤ 32 over the eight of
// half a block, ends within 32512. VPDPBUSD adds in 32 bits.
func block256(f *file, v form, t tile) {
	vnni := t.level == "AVXVNNI"
	low, high := regs("Y", 8, 2), regs("Y", 10, 2)
	pairs := 4 / v.parts()
	for part := range v.parts() {
		started := startSums(f, v, t, part, vnni)
		for pair := part * pairs; pair < (part+1)*pairs; pair++ {
			for c := range t.cells {
				v.codes(f, pair, c, t.bytes, low[c], high[c], "Y14")
			}
			for token := range t.tokens {
				f.op("VPBROADCASTD %s, Y12", x(8*pair, token))
				f.op("VPBROADCASTD %s, Y13", x(8*pair+4, token))
				for c := range t.cells {
					sum := t.sum[t.cell(token, c)]
					multiply256(f, vnni, "Y12", low[c], sum, "Y14", started)
					multiply256(f, vnni, "Y13", high[c], sum, "Y15", true)
				}
			}
			started = true
		}
		finish256(f, v, t, part, vnni)
	}
}

// startSums sets the sums of a part of a block to where they start, and tells whether
// there is more to them than zero.
func startSums(f *file, v form, t tile, part int, vnni bool) bool {
	if v.bits == 4 && !vnni {
		return false
	}
	for token := range t.tokens {
		switch {
		case v.halves && vnni:
			f.op("VPBROADCASTD %s, Y14", meta(metaHalves+4*part, token))
		case v.halves:
			f.op("VPBROADCASTD %s, Y14", meta(metaPairs+4*part, token))
			f.op("VPADDW Y14, Y14, Y14")
		case v.bits == 5 && !vnni:
			f.op("VPBROADCASTD %s, Y14", meta(metaPairs, token))
			f.op("VPBROADCASTD %s, Y15", meta(metaPairs+4, token))
			f.op("VPADDW Y15, Y14, Y14")
		case v.zero == 16:
			f.op("VPBROADCASTD %s, Y14", meta(metaBias, token))
			f.op("VPSRAD $3, Y14, Y14")
		case v.bits == 8:
			f.op("VPBROADCASTD %s, Y14", meta(metaBias, token))
		default:
			f.op("VPXOR Y14, Y14, Y14")
		}
		for c := range t.cells {
			f.op("VMOVDQA Y14, %s", t.sum[t.cell(token, c)])
		}
	}
	return true
}

// multiply256 adds the products of codes with four activations to a sum, or sets it.
func multiply256(f *file, vnni bool, activations, codes, sum, scratch string, started bool) {
	switch {
	case vnni:
		f.vpdpbusd(activations, codes, sum)
	case started:
		f.op("VPMADDUBSW %s, %s, %s", activations, codes, scratch)
		f.op("VPADDW %s, %s, %s", scratch, sum, sum)
	default:
		f.op("VPMADDUBSW %s, %s, %s", activations, codes, sum)
	}
}

// finish256 adds the sums of a part to the accumulators.
func finish256(f *file, v form, t tile, part int, vnni bool) {
	d, m := regs("Y", 8, 2), regs("Y", 10, 2)
	for c := range t.cells {
		v.scale(f, part, c, t.rows(), d[c], "Y14")
		if v.minimum {
			v.minimums(f, c, t.rows(), m[c], "Y14")
		}
	}
	// Codes with a minimum have no zero: what the sum started with is given back.
	centred := v.bits == 5 && v.minimum && !vnni
	for token := range t.tokens {
		f.op("VBROADCASTSS %s, Y12", meta(metaD, token))
		if v.minimum {
			f.op("VBROADCASTSS %s, Y13", meta(metaDSum, token))
		}
		if centred {
			f.op("VPBROADCASTD %s, Y15", meta(metaBias, token))
			f.op("VPSRAD $3, Y15, Y15")
		}
		for c := range t.cells {
			sum := t.sum[t.cell(token, c)]
			if !vnni {
				f.op("VPMADDWD %s, %s, %s", f.every("ones", 0x00010001), sum, sum)
			}
			if centred {
				f.op("VPSUBD Y15, %s, %s", sum, sum)
			}
			f.op("VCVTDQ2PS %s, %s", sum, sum)
		}
		for c := range t.cells {
			sum := t.sum[t.cell(token, c)]
			f.op("VMULPS Y12, %s, Y14", d[c])
			t.accumulate(f, token, c, "Y15", func(acc string) {
				if v.minimum {
					f.op("VFMADD231PS Y13, %s, %s", m[c], acc)
				}
				f.op("VFMADD231PS %s, Y14, %s", sum, acc)
			})
		}
	}
}

// blockSigned is block256 of 8-bit codes in AVX2. It moves the weights' signs to the
// activations, because the instruction wants one unsigned side: |-128| is 128 there, and an
// activation is never -128, so a pair stays below 2·128·127 = 32512.
func blockSigned(f *file, v form, t tile) {
	w, magnitude := regs("Y", 8, 2), regs("Y", 10, 2)
	f.op("VMOVDQU %s, Y15", f.every("ones", 0x00010001))
	for j := range 8 {
		for c := range t.cells {
			f.op("VMOVDQU %d(SI), %s", 64*j+32*c, w[c])
			f.op("VPABSB %s, %s", w[c], magnitude[c])
		}
		for token := range t.tokens {
			f.op("VPBROADCASTD %s, Y12", x(4*j, token))
			for c := range t.cells {
				sum := t.sum[t.cell(token, c)]
				f.op("VPSIGNB %s, Y12, Y13", w[c])
				f.op("VPMADDUBSW Y13, %s, Y13", magnitude[c])
				if j == 0 {
					f.op("VPMADDWD Y15, Y13, %s", sum)
				} else {
					f.op("VPMADDWD Y15, Y13, Y13")
					f.op("VPADDD Y13, %s, %s", sum, sum)
				}
			}
		}
	}
	finish256(f, v, t, 0, true)
}

// vpdpbusd writes the VEX form of VPDPBUSD (Intel SDM: VEX.256.66.0F38.W0 50 /r), which Go's
// assembler does not know: sum += activations · codes.
func (f *file) vpdpbusd(activations, codes, sum string) {
	number := func(reg string) (n int) {
		if _, err := fmt.Sscanf(reg, "Y%d", &n); err != nil {
			panic(reg + " is not a 256-bit register")
		}
		return n
	}
	rm, vvvv, reg := number(activations), number(codes), number(sum)
	inverted := func(n int) int { return 1 - n>>3 }
	f.op("BYTE $0xc4; BYTE $%#02x; BYTE $%#02x; BYTE $0x50; BYTE $%#02x // VPDPBUSD %s, %s, %s",
		inverted(reg)<<7|1<<6|inverted(rm)<<5|2, (15-vvvv)<<3|1<<2|1, 3<<6|reg&7<<3|rm&7, activations, codes, sum)
}
