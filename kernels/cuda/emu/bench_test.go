//go:build cuda && cgo && linux

package emu_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// BenchmarkForward runs the launches of SmolLM2-135M's matrix products (30 layers,
// 576 wide, 1536 in the middle, 9 heads and 3 of keys and values of 64, 49152
// tokens, Q4_1), for one row as in decoding and for 64 as of a prompt:
//
//	WASMETER_CUDA_DRIVER=$PWD/kernels/cuda/emu/build/libcuda_emu.so \
//	  go test -tags cuda -bench Forward -benchtime 3x ./kernels/cuda/emu
func BenchmarkForward(b *testing.B) {
	const layers, width, middle, heads, kvHeads, dim, vocab = 30, 576, 1536, 9, 3, 64, 49152
	d := open(b)
	k, err := cuda.New(d.Device, cuda.Image())
	d.must(err)
	d.closers = append(d.closers, k.Close)
	scratch := d.memory(int(k.MatMulScratch()))
	d.must(d.stream.Fill(scratch, 0, k.MatMulScratch()))
	x, wide := d.zeros(64*4*3*middle), d.zeros(64*4*3*middle)
	logits := d.zeros(4 * vocab)
	product := func(y []driver.Ptr, cols int, rows ...int) *cuda.Product {
		p := &cuda.Product{Table: d.memory(cuda.TableBytes), Y: y}
		for _, r := range rows {
			l, err := cuda.NewLayout(cuda.Q4_1, r, cols)
			d.must(err)
			p.Matrices = append(p.Matrices, cuda.Matrix{Layout: l, Data: d.zeros(int(l.Bytes()))})
		}
		table := d.pinned(cuda.TableBytes)
		p.Encode(table.Bytes())
		d.must(d.stream.CopyToDevice(p.Table, table, 0, cuda.TableBytes))
		return p
	}
	qkv := product([]driver.Ptr{wide, wide, wide}, width, heads*dim, kvHeads*dim, kvHeads*dim)
	out := product([]driver.Ptr{x}, width, width)
	up := product([]driver.Ptr{wide}, width, middle, middle)
	down := product([]driver.Ptr{x}, middle, width)
	head := product([]driver.Ptr{logits}, width, vocab)
	norm := d.zeros(4 * width)
	d.must(d.stream.Sync())
	for _, rows := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			d.must(d.Enter()) // a benchmark has a goroutine of its own
			defer d.Leave()
			kernels := d.lib.Counter("kernels")
			for b.Loop() {
				in := cuda.Input{X: x, Rows: rows, Scratch: scratch, Eps: 1e-5}
				normed := in
				if rows <= cuda.MaxNormRows {
					normed.Norm = norm
				}
				for range layers {
					d.must(errors.Join(
						k.MatMul(d.stream, qkv, normed),
						k.AddMatMul(d.stream, out, in),
						k.GatedMatMul(d.stream, up, normed, cuda.SiLU),
						k.AddMatMul(d.stream, down, in)))
				}
				last := normed
				last.Rows = 1
				d.must(k.Logits(d.stream, head, last, cuda.LogitsEnd{}))
				d.must(d.stream.Sync())
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(float64(d.lib.Counter("kernels")-kernels)/b.Elapsed().Seconds(), "kernels/s")
		})
	}
}
