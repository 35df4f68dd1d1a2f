package main

// form is a packed form of weights, as the documentation of package cpu describes it:
// codes, then scales, then minimums of 16 rows by 32 columns.
type form struct {
	name string
	bits int // of a code: 4, 5, 6 or 8
	// zero is the code of a weight without minimum that is 0.
	zero int
	// minimum tells that a weight is d·code + m.
	minimum bool
	// super tells that eight blocks share a header of f16 factors, by which the bytes of
	// scales and minimums in the blocks are multiplied; otherwise these are f16.
	super bool
	// halves tells that each half of a block's columns has a scale.
	halves bool
}

var forms = []form{
	{name: "Q4_1", bits: 4, minimum: true},
	{name: "Q4_K", bits: 4, minimum: true, super: true},
	{name: "Q5_0", bits: 5, zero: 16},
	{name: "Q5_1", bits: 5, minimum: true},
	{name: "Q5_K", bits: 5, minimum: true, super: true},
	{name: "Q6_K", bits: 6, zero: 32, super: true, halves: true},
	{name: "Q8_0", bits: 8},
}

// superBlocks is the number of blocks that share a header.
const superBlocks = 8

func (v form) scalesAt() int { return 64 * v.bits }

func (v form) minimumsAt() int {
	size := 32
	if v.super {
		size = 16
	}
	if v.halves {
		size *= 2
	}
	return v.scalesAt() + size
}

func (v form) blockBytes() int {
	switch {
	case v.minimum && v.super:
		return v.minimumsAt() + 16
	case v.minimum:
		return v.minimumsAt() + 32
	}
	return v.minimumsAt()
}

func (v form) headerBytes() int {
	switch {
	case v.super && v.minimum:
		return 64
	case v.super:
		return 32
	}
	return 0
}

// parts is the number of integer sums of a block.
func (v form) parts() int {
	if v.halves {
		return 2
	}
	return 1
}

// codes unpacks columns 8·pair … 8·pair+3 of a cell into low and the next four into high;
// bytes is the cell's size. Codes of 8 bits become unsigned, 128 above their value.
func (v form) codes(f *file, pair, c, bytes int, low, high, scratch string) {
	and, load := "VPAND", "VMOVDQU"
	constant := func(name string, word uint32) string { return f.every(name, word) }
	if bytes == 64 {
		and, load = "VPANDD", "VMOVDQU64"
		constant = func(name string, _ uint32) string { return constants512[name] }
	}
	if v.bits == 8 {
		xor := map[int]string{32: "VPXOR", 64: "VPXORD"}[bytes]
		for i, reg := range []string{low, high} {
			f.op("%s %d(SI), %s", load, 64*(2*pair+i)+bytes*c, reg)
			f.op("%s %s, %s, %s", xor, constant("signs", 0x80808080), reg, reg)
		}
		return
	}
	nibbles := constant("nibbles", 0x0f0f0f0f)
	f.op("%s %d(SI), %s", load, 64*pair+bytes*c, high)
	f.op("%s %s, %s, %s", and, nibbles, high, low)
	f.op("VPSRLW $4, %s, %s", high, high)
	f.op("%s %s, %s, %s", and, nibbles, high, high)
	if v.bits == 4 {
		return
	}
	// A byte of a plane has the upper bits of four or eight codes; those of the code in
	// question are moved to bit 4.
	width := v.bits - 4
	mask := constant(map[int]string{1: "fifth", 2: "fifths"}[width], map[int]uint32{1: 0x10101010, 2: 0x30303030}[width])
	for i, reg := range []string{low, high} {
		bit := (2*pair + i) * width
		f.op("%s %d(SI), %s", load, 256+64*(bit/8)+bytes*c, scratch)
		switch shift := 4 - bit%8; {
		case shift > 0:
			f.op("VPSLLW $%d, %s, %s", shift, scratch, scratch)
		case shift < 0:
			f.op("VPSRLW $%d, %s, %s", -shift, scratch, scratch)
		}
		if bytes == 64 {
			f.op("VPTERNLOGD $0xf8, %s, %s, %s", mask, scratch, reg) // reg | scratch & mask
			continue
		}
		f.op("VPAND %s, %s, %s", mask, scratch, scratch)
		f.op("VPOR %s, %s, %s", scratch, reg, reg)
	}
}

// constants512 are the registers that hold constants in the 512-bit kernels.
var constants512 = map[string]string{"nibbles": "Z16", "signs": "Z16", "fifth": "Z17", "fifths": "Z17"}

// scale loads a cell's scales of a part of the block into reg.
func (v form) scale(f *file, part, c, rows int, reg, scratch string) {
	v.factor(f, v.scalesAt()+16*part, 0, c, rows, reg, scratch, v.halves)
}

// minimums loads a cell's minimums into reg.
func (v form) minimums(f *file, c, rows int, reg, scratch string) {
	v.factor(f, v.minimumsAt(), 32, c, rows, reg, scratch, false)
}

// factor loads f16 factors, or bytes at an offset of the block times the f16 of the header.
func (v form) factor(f *file, offset, header, c, rows int, reg, scratch string, signed bool) {
	if !v.super {
		f.op("VCVTPH2PS %d(SI), %s", offset+2*rows*c, reg)
		return
	}
	widen := "VPMOVZXBD"
	if signed {
		widen = "VPMOVSXBD"
	}
	f.op("%s %d(SI), %s", widen, offset+rows*c, reg)
	f.op("VCVTDQ2PS %s, %s", reg, reg)
	f.op("VCVTPH2PS %d(AX), %s", header+2*rows*c, scratch)
	f.op("VMULPS %s, %s, %s", scratch, reg, reg)
}
