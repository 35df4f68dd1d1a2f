package cpu

import (
	"fmt"
	"testing"
	"unsafe"
)

// eachLevelBench is eachLevel for benchmarks.
func eachLevelBench(b *testing.B, name string, bench func(b *testing.B, o *Ops)) {
	for _, l := range Levels() {
		o, err := Select(l)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/"+l.String(), func(b *testing.B) {
			b.ReportAllocs()
			bench(b, o)
		})
	}
}

// aligned gives memory at a cache line, as the backend's own allocation is.
func aligned(n int) []byte {
	b := make([]byte, n+63)
	return b[-uintptr(unsafe.Pointer(&b[0]))&63:][:n]
}

// BenchmarkGEMV multiplies one token with 80 MB of weights, more than the caches hold,
// in matrices of a small model's feed-forward.
func BenchmarkGEMV(b *testing.B) {
	const rows = 1536
	for _, f := range formats {
		k := f.wide(576)
		eachLevelBench(b, f.name, func(b *testing.B, o *Ops) {
			r := random()
			one := make([]byte, f.form.Bytes(rows, k))
			if err := f.pack(one, f.source(r, rows, k), rows, k); err != nil {
				b.Fatal(err)
			}
			n := 80<<20/len(one) + 1
			w := aligned(n * len(one))
			for i := range n {
				copy(w[i*len(one):], one)
			}
			x, meta := make([]int8, k), make([]Meta, k/32)
			o.Quantize(x, meta, normals(r, k))
			out := make([]float32, rows)
			b.SetBytes(int64(len(w)))
			b.ResetTimer()
			for range b.N {
				for i := range n {
					o.MatMul(f.form, out, rows, w[i*len(one):][:len(one)], Groups(rows), x, meta, 1, k)
				}
			}
		})
	}
}

// BenchmarkGEMM multiplies several tokens with a matrix in the cache.
func BenchmarkGEMM(b *testing.B) {
	const rows = 1536
	for _, f := range formats {
		for _, shape := range [][2]int{{1, 576}, {2, 576}, {3, 576}, {4, 576}, {64, 576}, {64, 1536}} {
			tokens, k := shape[0], f.wide(shape[1])
			eachLevelBench(b, fmt.Sprintf("%s/k=%d/tokens=%d", f.name, k, tokens), func(b *testing.B, o *Ops) {
				r := random()
				w := aligned(f.form.Bytes(rows, k))
				if err := f.pack(w, f.source(r, rows, k), rows, k); err != nil {
					b.Fatal(err)
				}
				x, meta := make([]int8, tokens*k), make([]Meta, tokens*k/32)
				o.Quantize(x, meta, normals(r, tokens*k))
				out := make([]float32, tokens*rows)
				for b.Loop() {
					o.MatMul(f.form, out, rows, w, Groups(rows), x, meta, tokens, k)
				}
				b.ReportMetric(2*float64(tokens)*rows*float64(k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GOPS")
			})
		}
	}
}

// BenchmarkRow takes one row of a small model's width or, for Argmax, vocabulary.
func BenchmarkRow(b *testing.B) {
	const k, ff, vocabulary = 576, 1536, 49152
	r := random()
	x, y, z := normals(r, vocabulary), normals(r, vocabulary), make([]float32, vocabulary)
	q, meta, h := make([]int8, k), make([]Meta, k/32), make([]uint16, k)
	for _, c := range []struct {
		name string
		n    int
		run  func(o *Ops)
	}{
		{"quantize", k, func(o *Ops) { o.Quantize(q, meta, x[:k]) }},
		{"rmsnorm", k, func(o *Ops) { o.RMSNorm(z, x[:k], y, 1e-5) }},
		{"add", k, func(o *Ops) { o.Add(z, x[:k]) }},
		{"silu", ff, func(o *Ops) { o.SiLUMul(z, x[:ff], y) }},
		{"gelu", ff, func(o *Ops) { o.GELUMul(z, x[:ff], y) }},
		{"expsum", 1024, func(o *Ops) { o.ExpSum(z, x[:1024], 3) }},
		{"dot", k, func(o *Ops) { o.DotF32(x[:k], y) }},
		{"argmax", vocabulary, func(o *Ops) { o.Argmax(x) }},
		{"f32to16", k, func(o *Ops) { o.F32ToF16(h, x[:k]) }},
		{"ropepairs", k, func(o *Ops) { o.RopePairs(z[:k], x[:32], y[:32], 64) }},
		{"ropehalves", k, func(o *Ops) { o.RopeHalves(z[:k], x[:32], y[:32], 64) }},
	} {
		eachLevelBench(b, c.name, func(b *testing.B, o *Ops) {
			b.SetBytes(int64(4 * c.n))
			for b.Loop() {
				c.run(o)
			}
		})
	}
}

// BenchmarkPack repacks matrices of a small model, as loading does.
func BenchmarkPack(b *testing.B) {
	const rows = 512
	for _, f := range formats {
		b.Run(f.name, func(b *testing.B) {
			k := f.wide(576)
			src, dst := f.source(random(), rows, k), make([]byte, f.form.Bytes(rows, k))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := f.pack(dst, src, rows, k); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
