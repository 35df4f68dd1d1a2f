//go:build !noasm

package cpu

func readNEONBytes(b []byte) {
	// A call stays below 100 µs.
	for ; len(b) >= 256; b = b[min(len(b)&^255, 1<<16):] {
		readNEON(&b[0], min(len(b), 1<<16)/256)
	}
	readGeneric(b)
}

// peakDots returns the operations of a turn: SDOT multiplies and adds 16 bytes.
func peakDots(turns int) int {
	peakNEON(turns)
	return peakTurn * 2 * 16
}

// peakFloats is peakDots for FMLA, of four f32.
func peakFloats(turns int) int {
	peakFloatNEON(turns)
	return peakTurn * 2 * 4
}
