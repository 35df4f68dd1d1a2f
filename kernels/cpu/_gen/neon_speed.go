package main

// neonSpeedFile is speedFile for NEON.
func neonSpeedFile() *neonFile {
	f := &neonFile{}
	f.begin("readNEON", "reads n runs of 256 bytes.", "p *byte, n int", "")
	f.arguments("p", "R0", "n", "R1")
	f.label("loop")
	for at := 0; at < 256; at += 16 {
		f.load128(at, "R0", at/16)
	}
	f.op("ADD $256, R0, R0")
	f.again("R1", "loop")
	f.ret()

	neonPeak(f, "NEON", "bytes", func(sum int) { f.sdotBy(sum, 12, 13, 0) })
	neonPeak(f, "FloatNEON", "f32", func(sum int) { f.fmla(sum, 12, 13) })
	return f
}

// neonPeak adds products into independent sums, so that nothing waits for a result.
func neonPeak(f *neonFile, name, of string, add func(sum int)) {
	f.begin("peak"+name, "adds the products of n times 12 vectors of "+of+".", "n int", "")
	f.arguments("n", "R1")
	for sum := range 14 {
		f.zero(sum)
	}
	f.label("loop")
	for sum := range 12 {
		add(sum)
	}
	f.again("R1", "loop")
	f.ret()
}
