//go:build cuda && cgo && linux

package emu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

func TestIndex(t *testing.T) {
	d := open(t)
	block, grid := [3]uint32{3, 2, 4}, [3]uint32{2, 3, 2}
	threads, blocks := int(block[0]*block[1]*block[2]), int(grid[0]*grid[1]*grid[2])
	y := d.memory(4 * 12 * threads * blocks)
	f, err := d.module.Function("probe_index")
	d.must(err)
	d.must(d.stream.Launch(f, driver.Launch{Grid: grid, Block: block}, []uint64{uint64(y)}))
	got := d.down(y, 12*threads*blocks)
	for i := range threads * blocks {
		th, b := uint32(i%threads), uint32(i/threads)
		want := []uint32{
			th % block[0], th / block[0] % block[1], th / block[0] / block[1],
			b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1],
			block[0], block[1], block[2], grid[0], grid[1], grid[2],
		}
		for j, w := range want {
			if got[12*i+j] != w {
				t.Fatalf("block %d thread %d word %d: got %d, want %d", b, th, j, got[12*i+j], w)
			}
		}
	}
}

// TestWarp compares shuffles, votes and counts with what the CUDA C++ Programming
// Guide says of them (7.19 votes, 7.22 shuffles, 7.6 counting barriers).
func TestWarp(t *testing.T) {
	d := open(t)
	y := d.memory(4 * 16 * 64)
	d.must(d.launch("probe_warp", 1, 64, 0, uint64(y)))
	got := d.down(y, 16*64)
	for th := range uint32(64) {
		lane, warp := th%32, th/32*32
		down := func(by, width uint32) uint32 {
			if lane%width+by < width {
				return th + by
			}
			return th
		}
		up := th
		if lane >= 3 {
			up = th - 3
		}
		var ballot uint32
		for l := range uint32(32) {
			if (warp+l)%3 == 0 {
				ballot |= 1 << l
			}
		}
		flag := func(b bool) uint32 {
			if b {
				return 1
			}
			return 0
		}
		// The sums are of the butterfly's order, whose every step is a float32.
		var sum [32]float32
		for l := range sum {
			sum[l] = 1 / float32(warp+uint32(l)+1)
		}
		for o := 16; o > 0; o /= 2 {
			next := sum
			for l := range next {
				next[l] = sum[l] + sum[l^o]
			}
			sum = next
		}
		most := float32(31)
		if warp == 32 {
			most = 100
		}
		want := []uint32{
			warp + 5, warp + lane/8*8 + (lane+3)%8, th ^ 16, down(2, 32), down(2, 4), up,
			ballot, flag(warp == 32), flag(warp == 0),
			math.Float32bits(sum[lane]), math.Float32bits(sum[lane]), math.Float32bits(most),
			13, 1, 0, warp + 7,
		}
		for i, w := range want {
			if got[16*th+uint32(i)] != w {
				t.Errorf("thread %d word %d: got %#x, want %#x", th, i, got[16*th+uint32(i)], w)
			}
		}
	}
}

// TestHalves has meetings of half a warp each, three in one and one in the other.
func TestHalves(t *testing.T) {
	d := open(t)
	y := d.memory(4 * 64)
	d.must(d.launch("probe_halves", 1, 64, 0, uint64(y)))
	for th, v := range d.down(y, 64) {
		other := uint32(th ^ 16)
		want := (other ^ 1) + 100 // one meeting: the neighbour's number, and 100
		if other%32 < 16 {
			want += 200 // two more, there and back
		}
		if v != want {
			t.Errorf("thread %d: got %d, want %d", th, v, want)
		}
	}
}

// TestLdmatrix compares with the PTX ISA, 9.7.14.5.15: row r of matrix m lies where
// lane 8m+r points, and lane l gets columns 2(l%4) and 2(l%4)+1 of row l/4; with
// .trans of the transposed matrix.
func TestLdmatrix(t *testing.T) {
	d := open(t)
	var matrix [4][8][8]uint16
	var words []uint32
	for m := range matrix {
		for r := range matrix[m] {
			for c := range matrix[m][r] {
				matrix[m][r][c] = uint16(m<<8 | r<<4 | c)
			}
			for c := 0; c < 8; c += 2 {
				words = append(words, uint32(matrix[m][r][c])|uint32(matrix[m][r][c+1])<<16)
			}
		}
	}
	x, y := d.up(words...), d.memory(4*4*32)
	for _, count := range []int{2, 4} {
		for _, transposed := range []uint64{0, 1} {
			d.must(d.launch("probe_ldmatrix", 1, 32, 0, uint64(y), uint64(x), uint64(count), transposed))
			got := d.down(y, 4*32)
			for lane := range 32 {
				for m := range count {
					row, column := lane/4, 2*(lane%4)
					want := uint32(matrix[m][row][column]) | uint32(matrix[m][row][column+1])<<16
					if transposed == 1 {
						want = uint32(matrix[m][column][row]) | uint32(matrix[m][column+1][row])<<16
					}
					if got[4*lane+m] != want {
						t.Errorf("x%d, transposed %d, lane %d, matrix %d: got %#x, want %#x", count, transposed, lane, m, got[4*lane+m], want)
					}
				}
			}
		}
	}
}

// TestMma compares with a plain product, through the layouts of the PTX ISA, 9.7.14.5.8
// (matrix fragments for mma.m16n8k16): with g = lane/4 and t = lane%4,
//
//	ai: row g for i in 0, 1, 4, 5, else g+8; column 2t + i%2, and 8 more for i >= 4
//	bi: row 2t + i%2, and 8 more for i >= 2; column g
//	ci: row g for i < 2, else g+8; column 2t + i%2
func TestMma(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, half := range []bool{false, true} {
		// Small whole numbers, of which products and sums are exact in both types.
		var a [16][16]float64
		var b [16][8]float64
		var c [16][8]float64
		fill := func(p *float64) { *p = float64(rng.IntN(33) - 16) }
		for i := range 16 {
			for j := range 16 {
				fill(&a[i][j])
			}
			for j := range 8 {
				fill(&b[i][j])
				fill(&c[i][j])
			}
		}
		encode := func(v float64) uint32 {
			if half {
				return uint32(float16(float32(v)))
			}
			return math.Float32bits(float32(v)) >> 16
		}
		var aw, bw, cw []uint32
		for lane := range 32 {
			g, t := lane/4, lane%4
			for word := range 4 {
				row, column := g+word%2*8, 2*t+word/2*8
				aw = append(aw, encode(a[row][column])|encode(a[row][column+1])<<16)
			}
			for word := range 2 {
				row := 2*t + word*8
				bw = append(bw, encode(b[row][g])|encode(b[row+1][g])<<16)
			}
			for i := range 4 {
				cw = append(cw, math.Float32bits(float32(c[g+i/2*8][2*t+i%2])))
			}
		}
		flag := uint64(0)
		if half {
			flag = 1
		}
		y := d.up(cw...)
		d.must(d.launch("probe_mma", 1, 32, 0, uint64(y), uint64(d.up(aw...)), uint64(d.up(bw...)), flag))
		got := d.down(y, 4*32)
		for lane := range 32 {
			for i := range 4 {
				row, column := lane/4+i/2*8, 2*(lane%4)+i%2
				want := c[row][column]
				for k := range 16 {
					want += a[row][k] * b[k][column]
				}
				if v := float64(math.Float32frombits(got[4*lane+i])); v != want {
					t.Errorf("half %v, lane %d, value %d (row %d, column %d): got %v, want %v", half, lane, i, row, column, v, want)
				}
			}
		}
	}
}

// float16 is the nearest IEEE 754 binary16, ties to even. It goes over all that
// there are, since a table of candidates has no cases to get wrong.
func float16(x float32) uint16 {
	sign := uint16(0)
	if math.Signbit(float64(x)) {
		sign = 1 << 15
	}
	magnitude := math.Abs(float64(x))
	if magnitude != magnitude {
		return 0x7e00
	}
	if magnitude >= 65520 { // halfway from the largest to where the next would be
		return sign | 0x7c00
	}
	best := uint16(0)
	for b := uint16(0); b < 0x7c00; b++ {
		near, best64 := math.Abs(float16Value(b)-magnitude), math.Abs(float16Value(best)-magnitude)
		if near < best64 || near == best64 && b%2 == 0 {
			best = b
		}
	}
	return sign | best
}

// float16Value is the value of a finite binary16 with sign 0.
func float16Value(b uint16) float64 {
	exponent, fraction := int(b>>10), float64(b&0x3ff)
	if exponent == 0 {
		return math.Ldexp(fraction, -24)
	}
	return math.Ldexp(fraction+1024, exponent-25)
}

// TestConvert compares roundings with IEEE 754 and with what bf16 is: a float32 of
// which 16 bits are left.
func TestConvert(t *testing.T) {
	d := open(t)
	inf := float32(math.Inf(1))
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1.0 / 3, 65504, 65519.9, 65520, 1e-8, 6e-8, 2.9e-8, 5.96e-8, 6.1e-5, 3.4e38, inf, -inf, 1e-40, 0.1}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		values = append(values, float32(math.Ldexp(rng.Float64()*2-1, rng.IntN(50)-30)))
	}
	values = append(values,
		math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000), math.Float32frombits(0x3f808001), // bf16: two ties and one above
		1+1.0/2048, 1+3.0/2048) // f16: two ties
	words := make([]uint32, len(values))
	for i, v := range values {
		words[i] = math.Float32bits(v)
	}
	y := d.memory(16 * len(values))
	d.must(d.launch("probe_convert", 1, 64, 0, uint64(y), uint64(d.up(words...)), uint64(len(values))))
	got := d.down(y, 4*len(values))
	for i, v := range values {
		low, high := words[i]&^0xffff, words[i]&^0xffff+0x10000
		bf := low
		if rest := words[i] & 0xffff; rest > 0x8000 || rest == 0x8000 && low>>16&1 == 1 {
			bf = high
		}
		if got[4*i] != bf {
			t.Errorf("bf16 of %v: got %#x, want %#x", v, got[4*i], bf)
		}
		if packed := bf>>16 | 0x3f80<<16; got[4*i+2] != packed {
			t.Errorf("bf16 of %v with 1: got %#x, want %#x", v, got[4*i+2], packed)
		}
		half := float16(v)
		if packed := uint32(half) | 0x3c00<<16; got[4*i+3] != packed {
			t.Errorf("f16 of %v with 1: got %#x, want %#x", v, got[4*i+3], packed)
		}
		if half&0x7c00 == 0x7c00 {
			continue
		}
		want := float16Value(half & 0x7fff)
		if half>>15 == 1 {
			want = -want
		}
		if back := math.Float32frombits(got[4*i+1]); float64(back) != want || math.Signbit(float64(back)) != math.Signbit(want) {
			t.Errorf("f16 of %v and back: got %v, want %v", v, back, want)
		}
	}
}

// TestLastBlock has blocks on several workers meet by an atomic.
func TestLastBlock(t *testing.T) {
	d := open(t)
	const blocks = 300
	sum, parts := d.up(0), d.memory(4*blocks)
	for range 20 {
		counter := d.up(0)
		d.must(d.launch("probe_last_block", blocks, 32, 0, uint64(sum), uint64(parts), uint64(counter)))
		if got := d.down(sum, 1)[0]; got != blocks*(blocks+1)/2 {
			t.Fatalf("got %d, want %d", got, blocks*(blocks+1)/2)
		}
	}
}

// TestCopies has cp.async of zeros and of data.
func TestCopies(t *testing.T) {
	d := open(t)
	words := make([]uint32, 256)
	for i := range words {
		words[i] = uint32(i + 1)
	}
	y := d.memory(4 * 256)
	d.must(d.launch("probe_copy_zeros", 1, 64, 0, uint64(y), uint64(d.up(words...)), 50))
	for i, v := range d.down(y, 256) {
		want := uint32(i + 1)
		if i >= 4*50 {
			want = 0
		}
		if v != want {
			t.Errorf("word %d: got %d, want %d", i, v, want)
		}
	}
}
