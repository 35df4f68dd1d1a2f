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

	f.begin("peakNEON", "adds the products of n times 12 vectors of bytes.", "n int", "")
	f.arguments("n", "R1")
	f.label("loop")
	for sum := range 12 {
		f.sdotBy(sum, 12, 13, 0)
	}
	f.again("R1", "loop")
	f.ret()
	return f
}
