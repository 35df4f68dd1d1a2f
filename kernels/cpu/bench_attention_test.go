package cpu

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAttention takes some query heads over 1024 positions of one key head in the
// cache, in runs of neighbouring blocks.
func BenchmarkAttention(b *testing.B) {
	const n, run = 1024, 256
	for _, shape := range [][2]int{{1, 64}, {3, 64}, {24, 64}, {2, 128}, {4, 128}, {4, 256}} {
		heads, dim := shape[0], shape[1]
		r := random()
		q, kv := normals(r, heads*dim), halves(r, n*dim)
		dst, out := make([]float32, heads*n), make([]float32, heads*dim)
		best := func(b *testing.B, do func(j int)) {
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				for j := 0; j < n; j += run {
					do(j)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(2*float64(heads)*n*float64(dim)/float64(best.Nanoseconds()), "best-GFLOPS")
		}
		shape := fmt.Sprintf("heads=%d/dim=%d", heads, dim)
		eachLevelBench(b, "scores/"+shape, func(b *testing.B, o *Ops) {
			best(b, func(j int) { o.ScoresF16(dst[j:], n, q, kv[j*dim:], heads, run, dim) })
		})
		eachLevelBench(b, "accum/"+shape, func(b *testing.B, o *Ops) {
			best(b, func(j int) { o.AccumF16(out, dst[j:], n, kv[j*dim:], heads, run, dim) })
		})
	}
}

// BenchmarkAttentionStream takes heads of a long context from memory, as a step does for
// each layer after the weights have gone through the caches.
func BenchmarkAttentionStream(b *testing.B) {
	const heads, dim, segment, runs = 3, 64, 256, 1536
	r := random()
	q, p, out := normals(r, heads*dim), normals(r, heads*segment), make([]float32, heads*dim)
	f16, q8, scales := make([]uint16, runs*segment*dim), make([]int8, runs*segment*dim), make([]uint16, runs*segment*dim/32)
	run := halves(r, segment*dim)
	q8Run, scalesRun, _ := quantizedValues(r, segment, dim, segment)
	keys := aligned(FormQ8_0.Bytes(runs*segment, dim))
	quants, meta := make([]int8, heads*dim), make([]Meta, heads*dim/32)
	generic().Quantize(quants, meta, q)
	keyRun := keys[:len(keys)/runs]
	for j := range segment {
		PlaceQ8_0(keyRun[j/16*16*dim*34/32:], j%16, q8Run[j*dim:][:dim], meta[:dim/32])
	}
	for i := range runs {
		copy(f16[i*len(run):], run)
		copy(q8[i*len(q8Run):], q8Run)
		copy(scales[i*len(scalesRun):], scalesRun)
		copy(keys[i*len(keyRun):], keyRun)
	}
	for _, c := range []struct {
		name  string
		bytes int
		run   func(o *Ops, i int)
	}{
		{"scores/f16", 2 * len(f16), func(o *Ops, i int) { o.ScoresF16(p, segment, q, f16[i*len(run):], heads, segment, dim) }},
		{"accum/f16", 2 * len(f16), func(o *Ops, i int) { o.AccumF16(out, p, segment, f16[i*len(run):], heads, segment, dim) }},
		{"scores/q8_0", len(keys), func(o *Ops, i int) {
			o.MatMul(FormQ8_0, p, segment, keys[i*len(keyRun):][:len(keyRun)], segment/16, quants, meta, heads, dim)
		}},
		{"accum/q8_0", len(keys), func(o *Ops, i int) {
			o.AccumQ8(out, p, segment, q8[i*len(q8Run):], scales[i*len(scalesRun):], segment, heads, segment, dim, nil)
		}},
	} {
		eachLevelBench(b, c.name, func(b *testing.B, o *Ops) {
			b.SetBytes(int64(c.bytes))
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				for i := range runs {
					c.run(o, i)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(c.bytes)/1e9/best.Seconds(), "best-GB/s")
			b.ReportMetric(runs*segment/1e6/best.Seconds(), "best-Mpositions/s")
		})
	}
}
