//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"
	"slices"

	half "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// extremes are values at which an activation can overflow or lose all digits.
var extremes = []float32{0, 1e-38, -1e-38, 1e-6, -1e-6, 9, -9, 20, -20, 88, -88, 104, -104, 1000, -1000, 1e30, -1e30}

func silu64(x float64) float64 { return x / (1 + math.Exp(-x)) }

// gelu64 is the tanh approximation, as 1+tanh(u) = 2/(1+e^(-2u)) keeps its digits.
func gelu64(x float64) float64 {
	u := math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
	return x / (1 + math.Exp(-2*u))
}

func elementCases() []Case {
	var cases []Case
	for _, n := range []int{1, 3, 17, 1024, 4099, 300_007} {
		name := numbered("values", n)
		gated := func(kernel string, act func(float64) float64, launch func(b *Bench, y, gate, up driver.Ptr) error, name string, off int) Case {
			return Case{kernel, name, func(b *Bench) error {
				gate, up := b.Normal(off+n, 3), b.Normal(off+n, 1)
				copy(gate[off:], extremes)
				want := make([]float64, n)
				for i := range want {
					want[i] = act(float64(gate[off+i])) * float64(up[off+i])
				}
				g, u := b.Floats(gate), b.Floats(up)
				at := driver.Ptr(4 * off)
				b.Do(launch(b, g+at, g+at, u+at))
				// An exponent u comes of up to five float32 operations, each of which is wrong
				// by u·2^-24 at most, and so e^u by that part of it; u is up to 104, beyond
				// which results are 0. Those below the normal numbers may be 0 too.
				t := Tolerance{Absolute: 1e-37, Relative: 5 * 104 * math.Pow(2, -24)}
				got := b.ReadFloats(g, off+n)
				if err := Compare(got[off:], want, n, t); err != nil {
					return err
				}
				return Same(got[:off], gate[:off], n)
			}}
		}
		silu := func(b *Bench, y, gate, up driver.Ptr) error { return b.Kernels.SiLUUp(b.Stream, y, gate, up, n) }
		gelu := func(b *Bench, y, gate, up driver.Ptr) error { return b.Kernels.GELUUp(b.Stream, y, gate, up, n) }
		for off, aligned := range []string{"", ", not aligned"} {
			cases = append(cases,
				gated("silu_up", silu64, silu, name+aligned, off),
				gated("gelu_up", gelu64, gelu, name+aligned, off),
				Case{"add", name + aligned, func(b *Bench) error {
					y, x := b.Normal(off+n, 1), b.Normal(off+n, 1)
					want := slices.Clone(y)
					for i := off; i < off+n; i++ {
						want[i] += x[i]
					}
					at := driver.Ptr(4 * off)
					to, from := b.Floats(y), b.Floats(x)
					b.Do(b.Kernels.Add(b.Stream, to+at, from+at, n))
					return Same(b.ReadFloats(to, off+n), want, off+n)
				}})
		}
		cases = append(cases, Case{"fill", name, func(b *Bench) error {
			const before, value = 1, -3.25
			y := b.Normal(n+2, 1)
			want := slices.Clone(y)
			for i := range n {
				want[before+i] = value
			}
			to := b.Floats(y)
			b.Do(b.Kernels.Fill(b.Stream, to+4*before, value, n))
			return Same(b.ReadFloats(to, n+2), want, n+2)
		}})
	}
	cases = append(cases, narrowCases()...)
	for _, shape := range []struct{ layers, blocks, blockBytes, pairs int }{{1, 2, 16, 1}, {3, 7, 32 * 3 * 16 * 2, 3}, {2, 33, 16 * 80 * 2, 16}} {
		cases = append(cases, Case{"copy_blocks", fmt.Sprintf("%d blocks of %d bytes in %d layers", shape.pairs, shape.blockBytes, shape.layers), func(b *Bench) error {
			halves := shape.blockBytes / 2
			n := shape.layers * shape.blocks * halves
			caches := [2][]uint16{make([]uint16, n), make([]uint16, n)}
			for _, c := range caches {
				for i := range c {
					c[i] = uint16(b.Rand.Uint32())
				}
			}
			keys, values := b.Halves(caches[0]), b.Halves(caches[1])
			order := b.Rand.Perm(shape.blocks)
			var pairs []int32
			for i := range shape.pairs {
				from, to := order[i], order[shape.pairs+i]
				pairs = append(pairs, int32(from), int32(to))
				for _, c := range caches {
					for layer := range shape.layers {
						at := layer * shape.blocks
						copy(c[(at+to)*halves:(at+to+1)*halves], c[(at+from)*halves:])
					}
				}
			}
			b.Do(b.Kernels.CopyBlocks(b.Stream, keys, values, b.Ints(pairs), shape.pairs, shape.layers, shape.blocks, shape.blockBytes))
			if err := Same(b.ReadHalves(keys, n), caches[0], halves); err != nil {
				return fmt.Errorf("keys: %w", err)
			}
			if err := Same(b.ReadHalves(values, n), caches[1], halves); err != nil {
				return fmt.Errorf("values: %w", err)
			}
			return nil
		}})
	}
	return cases
}

// narrowCases check the roundings, also of what lies between two values, of what is too
// large, and of NaN.
func narrowCases() []Case {
	special := append([]float32{65504, 65519, 65520, 1e-7, 3e-8, float32(math.Inf(-1)), float32(math.NaN()), 1 + 1./256, 1 + 3./256, 1 + 1./2048, 1 + 3./2048}, extremes...)
	var cases []Case
	for _, n := range []int{1, 7, 64, 4099, 300_007} {
		for i, f := range []cuda.Format{cuda.BF16, cuda.F16} {
			scale := []float32{1, 1. / 16}[i]
			cases = append(cases, Case{"narrow", fmt.Sprintf("%v, times %g, %d values", f, scale, n), func(b *Bench) error {
				x := b.Normal(n, 3)
				copy(x, special)
				want := make([]float32, n)
				for i, v := range x {
					if v *= scale; f == cuda.F16 {
						want[i] = half.F32FromF16(half.F16FromF32(v))
					} else {
						want[i] = float32(roundBF16(v))
					}
				}
				y := b.Halves(make([]uint16, n+1))
				b.Do(b.Kernels.Narrow(b.Stream, y, b.Floats(x), f, scale, n))
				bits := b.ReadHalves(y, n+1)
				got := make([]float32, n)
				for i := range got {
					if f == cuda.F16 {
						got[i] = half.F32FromF16(bits[i])
					} else {
						got[i] = math.Float32frombits(uint32(bits[i]) << 16)
					}
				}
				if bits[n] != 0 {
					return fmt.Errorf("the value behind the last is %#x", bits[n])
				}
				return Same(got, want, n)
			}})
		}
	}
	return cases
}

func elementSpeeds() []Speed {
	const size = 1 << 24
	speed := func(kernel string, arrays float64, launch func(b *Bench, y, x driver.Ptr, n int) error) Speed {
		return Speed{kernel, numbered("values", size), func(b *Bench, shrink int) Work {
			n := size / shrink
			y, x := b.Zeros(4*n), b.Zeros(4*n)
			return Work{Bytes: 4 * arrays * float64(n), Launch: func() error { return launch(b, y, x, n) }}
		}}
	}
	return []Speed{
		speed("silu_up", 3, func(b *Bench, y, x driver.Ptr, n int) error { return b.Kernels.SiLUUp(b.Stream, y, y, x, n) }),
		speed("gelu_up", 3, func(b *Bench, y, x driver.Ptr, n int) error { return b.Kernels.GELUUp(b.Stream, y, y, x, n) }),
		speed("add", 3, func(b *Bench, y, x driver.Ptr, n int) error { return b.Kernels.Add(b.Stream, y, x, n) }),
		speed("fill", 1, func(b *Bench, y, _ driver.Ptr, n int) error { return b.Kernels.Fill(b.Stream, y, 1, n) }),
		{"narrow", numbered("values", size), func(b *Bench, shrink int) Work {
			n := size / shrink
			y, x := b.Zeros(2*n), b.Zeros(4*n)
			return Work{Bytes: 6 * float64(n), Launch: func() error { return b.Kernels.Narrow(b.Stream, y, x, cuda.BF16, 1, n) }}
		}},
		{"copy_blocks", "256 blocks of 128 KiB", func(b *Bench, shrink int) Work {
			const bytes = 128 << 10
			n := max(1, 256/shrink)
			keys, values := b.Zeros(2*n*bytes), b.Zeros(2*n*bytes)
			var pairs []int32
			for i := range n {
				pairs = append(pairs, int32(i), int32(n+i))
			}
			list := b.Ints(pairs)
			return Work{Bytes: 4 * bytes * float64(n), Launch: func() error {
				return b.Kernels.CopyBlocks(b.Stream, keys, values, list, n, 1, 2*n, bytes)
			}}
		}},
	}
}
