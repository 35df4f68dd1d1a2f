//go:build !noasm

package cpu

import (
	"slices"
	"unsafe"
)

// amxTokens is the number of tokens of a tile. One with fewer takes as long: AVX-512 is as fast
// with less than amxFill, and with less than amxLeast in all, for which weights need not be
// unpacked aside. See RATIONALE.md: AMX.
const (
	amxTokens = 16
	amxFill   = 9
	amxLeast  = 32
)

// A product takes amxBlocks blocks of columns at a time, whose weights stay in the first level of
// the caches, and as many tokens as amxRecords are enough for, which stay in the second.
const (
	amxBlocks  = 32
	amxRecords = 768
)

// amxRecord is a block of weights, unpacked, or of a tile's activations, laid out: see
// _gen/matmul_amx.go.
type amxRecord [640]byte

// amxScratch is the memory of a product.
type amxScratch struct {
	slots       [4096]byte // where tiles store sums, [16 tokens, 16 rows] int32: two, and two for second halves
	weights     [amxBlocks]amxRecord
	activations [amxRecords + 3]amxRecord // [tiles, blocks], and what is read ahead
}

// amxScratches are those that nobody uses, half a MiB each. They are kept, unlike in a sync.Pool:
// a step does not allocate.
var amxScratches = make(chan *amxScratch, 256)

// takeScratch returns one that begins at a page: the kernels tell their slots by a bit of the
// address.
func takeScratch() *amxScratch {
	select {
	case s := <-amxScratches:
		return s
	default:
	}
	const page = 4096
	b := make([]byte, unsafe.Sizeof(amxScratch{})+page-1)
	return (*amxScratch)(unsafe.Pointer(&b[-uintptr(unsafe.Pointer(&b[0]))&(page-1)]))
}

func (s *amxScratch) giveBack() {
	select {
	case amxScratches <- s:
	default: // more are there than threads
	}
}

// tileConfig is the operand of LDTILECFG (Intel SDM, volume 1, "Programming with Intel AMX"). What
// it loads belongs to the thread, so each function of the assembly loads it and releases it.
type tileConfig struct {
	palette  byte
	_        [15]byte
	rowBytes [16]uint16
	rows     [16]byte
}

// tileShape is what a configuration says about a tile.
type tileShape struct {
	rows     byte
	rowBytes uint16
}

// The tiles of a block's product are two of sums, two of activations and two of codes; those of
// whole blocks need one of each.
var (
	amxWhole  = newTileConfig(tileShape{16, 64}, tileShape{16, 64}, tileShape{16, 32}, tileShape{16, 32}, tileShape{8, 64}, tileShape{8, 64})
	amxHalves = newTileConfig(tileShape{16, 64}, tileShape{16, 64}, tileShape{16, 16}, tileShape{16, 16}, tileShape{4, 64}, tileShape{4, 64})
	amxFull   = newTileConfig(slices.Repeat([]tileShape{{16, 64}}, 8)...) // of the peak
)

func newTileConfig(shapes ...tileShape) *tileConfig {
	c := &tileConfig{palette: 1}
	for i, s := range shapes {
		c.rows[i], c.rowBytes[i] = s.rows, s.rowBytes
	}
	return c
}

// unpackAMX are the functions that unpack a group's blocks.
var unpackAMX = [numForms]func(records, w *byte, blocks int){
	FormQ4_1: unpackQ4_1AMX,
	FormQ4_K: unpackQ4_KAMX,
	FormQ5_0: unpackQ5_0AMX,
	FormQ5_1: unpackQ5_1AMX,
	FormQ5_K: unpackQ5_KAMX,
	FormQ6_K: unpackQ6_KAMX,
	FormQ8_0: unpackQ8_0AMX,
}

// takeTiles lets AMX do what AVX-512's products are given, but for tokens that are too few for a
// tile.
func (o *Ops) takeTiles() {
	for form, few := range o.matMul {
		o.matMul[form] = byAMX(Form(form), few, o.tile)
	}
	o.tile, o.arranged, o.peak = 0, amxLeast, peakTiles
}

// byAMX returns the product of a form, of any number of groups and tokens. The other takes few
// tokens, at most so many at a time.
func byAMX(form Form, few matMulFunc, most int) matMulFunc {
	l, unpack := &layouts[form], unpackAMX[form]
	multiply, config := multiplyPlainAMX, amxWhole
	switch {
	case l.minimum:
		multiply = multiplyMinimumAMX
	case l.halves:
		multiply, config = multiplyHalvesAMX, amxHalves
	}
	return func(out []float32, ldo int, w []byte, groups int, x []int8, meta []Meta, tokens, blocks int) {
		k, groupBytes := blocks*BlockColumns, l.groupBytes(blocks)
		tiled := tokens
		if rest := tokens % amxTokens; rest < amxFill {
			tiled -= rest
		}
		if tokens < amxLeast {
			tiled = 0
		}
		if tiled < tokens {
			inTiles(few, most, groupBytes, out[tiled*ldo:], ldo, w, groups, x[tiled*k:], meta[tiled*blocks:], tokens-tiled, blocks)
		}
		if tiled == 0 {
			return
		}
		s := takeScratch()
		// Columns are cut into equal parts, of whole super-blocks.
		cuts := (blocks + amxBlocks - 1) / amxBlocks
		size := ((blocks+cuts-1)/cuts + superBlocks - 1) &^ (superBlocks - 1)
		pass := amxRecords / size * amxTokens
		for first := 0; first < tiled; first += pass {
			n := min(pass, tiled-first)
			for b := 0; b < blocks; b += size {
				part := min(size, blocks-b)
				for t := 0; t < n; t += amxTokens {
					at := first + t
					arrangeAMX(&s.activations[t/amxTokens*part][0], &x[at*k+b*BlockColumns], &meta[at*blocks+b], k, blocks*metaSize, part, min(amxTokens, n-t))
				}
				for g := range groups {
					unpack(&s.weights[0][0], &w[g*groupBytes+l.groupBytes(b)], part)
					multiply(&out[first*ldo+g*GroupRows], &s.weights[0][0], &s.activations[0][0], &s.slots[0], &config.palette, ldo, part, n, b)
				}
			}
		}
		s.giveBack()
	}
}

// peakTiles returns the operations of a turn, as peakVectors does.
func peakTiles(turns int) int {
	peakAMX(&amxFull.palette, turns)
	return peakTurn * 2 * 16 * 16 * 64
}
