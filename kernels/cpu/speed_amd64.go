//go:build !noasm

package cpu

func readVectors(loop func(p *byte, n int)) func(b []byte) {
	return func(b []byte) {
		// A call stays below 100 µs.
		for ; len(b) >= 256; b = b[min(len(b)&^255, 1<<16):] {
			loop(&b[0], min(len(b), 1<<16)/256)
		}
		readGeneric(b)
	}
}

// peakVectors returns the peak loop of a level for vectors of so many bytes: two
// operations for each, of which VPMADDUBSW does one and a half and VPADDW the rest.
func peakVectors(loop func(turns int), vectorBytes int) func(turns int) int {
	return func(turns int) int {
		loop(turns)
		return peakTurn * 2 * vectorBytes
	}
}

// peakFloatVectors is peakVectors for vectors of f32.
func peakFloatVectors(loop func(turns int), vectorBytes int) func(turns int) int {
	return func(turns int) int {
		loop(turns)
		return peakTurn * 2 * vectorBytes / 4
	}
}
