package main

// speedFile has the loops that measure what the processor can do at best.
func speedFile() *file {
	f := &file{}
	readMemory(f)
	readMemory512(f, oneAhead512())
	readMemory512(f, tile512(1))
	vendor(f)
	peak(f, "AVX2", regs("Y", 0, 12), func(sum string) {
		f.op("VPMADDUBSW Y13, Y14, Y15")
		f.op("VPADDW Y15, %s, %s", sum, sum)
	})
	peak(f, "AVXVNNI", regs("Y", 0, 12), func(sum string) { f.vpdpbusd("Y13", "Y14", sum) })
	peak(f, "AVX512", regs("Z", 0, 12), func(sum string) { f.op("VPDPBUSD Z13, Z14, %s", sum) })
	peak(f, "FloatAVX2", regs("Y", 0, 12), func(sum string) { f.op("VFMADD231PS Y13, Y14, %s", sum) })
	peak(f, "FloatAVX512", regs("Z", 0, 12), func(sum string) { f.op("VFMADD231PS Z13, Z14, %s", sum) })
	return f
}

// readMemory reads as the AVX2 products read weights: forwards, and ahead.
func readMemory(f *file) {
	f.begin("readAVX2", "reads n runs of 256 bytes.", "p *byte, n int", "")
	f.load("p", "SI", "n", "CX")
	f.label("loop")
	for line := 0; line < 256; line += 64 {
		f.op("PREFETCHT0 %d(SI)", prefetchFirst+line)
		f.op("VMOVDQU %d(SI), Y0", line)
		f.op("VMOVDQU %d(SI), Y1", line+32)
	}
	f.op("ADDQ $256, SI")
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.end()
}

// readMemory512 reads as the AVX-512 products of one token do, forwards.
func readMemory512(f *file, t tile) {
	f.begin("readAVX512"+t.suffix, "reads n runs of 256 bytes.", "p *byte, n int", "")
	f.load("p", "SI", "n", "CX")
	f.label("loop")
	for line := 0; line < 256; line += 64 {
		t.prefetch(f, line)
		f.op("VMOVDQU64 %d(SI), Z0", line)
	}
	f.op("ADDQ $256, SI")
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.end()
}

// vendor asks the processor who made it, leaf 0 of CPUID.
func vendor(f *file) {
	f.begin("vendorID", "writes the twelve letters of the processor's maker.", "id *[12]byte", "")
	f.op("XORL AX, AX")
	f.op("CPUID")
	f.load("id", "DI")
	for i, reg := range []string{"BX", "DX", "CX"} {
		f.op("MOVL %s, %d(DI)", reg, 4*i)
	}
	f.end()
}

// peak adds products of zeros into independent sums, so that nothing waits for a result.
func peak(f *file, level string, sums []string, add func(sum string)) {
	f.begin("peak"+level, "adds the products of n times 12 vectors.", "n int", "")
	f.load("n", "CX")
	f.op("VZEROALL")
	f.label("loop")
	for _, sum := range sums {
		add(sum)
	}
	f.op("DECQ CX")
	f.op("JNZ loop")
	f.end()
}
