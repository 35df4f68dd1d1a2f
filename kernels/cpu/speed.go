package cpu

// peakTurn is the number of vectors that a turn of the peak loops multiplies.
const peakTurn = 12

// Read reads all of b, in order and as fast as the level can: the bound of products
// with one token.
func (o *Ops) Read(b []byte) { o.read(b) }

// PeakOps does integer multiplications and additions of bytes in registers for a while,
// as the products of the level do, and returns their number: the bound of products
// with many tokens.
func (o *Ops) PeakOps() int {
	const turns = 1000
	return turns * o.peak(turns)
}

// PeakFloatOps is PeakOps for multiply-adds of f32, as the products of 16-bit floats do.
func (o *Ops) PeakFloatOps() int {
	const turns = 1000
	return turns * o.peakFloat(turns)
}

func readGeneric(b []byte) {
	var sum byte
	for _, v := range b {
		sum ^= v
	}
	sink(sum)
}

// peakGeneric returns the operations of a turn.
func peakGeneric(turns int) int {
	var a, b, c, d int32
	for i := range int32(turns) {
		a, b, c, d = a+i*3, b+i*5, c+i*7, d+i*9
	}
	sink(byte(a + b + c + d))
	return 8
}

// peakFloatGeneric returns the operations of a turn.
func peakFloatGeneric(turns int) int {
	var a, b float32
	for i := range turns {
		x := float32(i)
		a, b = a+x*3, b+x*5
	}
	sink(byte(int(a + b)))
	return 4
}

// sink keeps a loop whose result nobody needs.
//
//go:noinline
func sink(byte) {}
