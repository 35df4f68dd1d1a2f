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
	f16, q8 := make([]uint16, runs*segment*dim), make([]byte, runs*segment*Q8HeadBytes(dim))
	f16Run, q8Run := halves(r, segment*dim), make([]byte, segment*Q8HeadBytes(dim))
	for i := range runs {
		copy(f16[i*len(f16Run):], f16Run)
		copy(q8[i*len(q8Run):], q8Run)
	}
	for _, c := range []struct {
		name  string
		bytes int
		run   func(o *Ops, i int)
	}{
		{"scores/f16", 2 * len(f16), func(o *Ops, i int) { o.ScoresF16(p, segment, q, f16[i*len(f16Run):], heads, segment, dim) }},
		{"accum/f16", 2 * len(f16), func(o *Ops, i int) { o.AccumF16(out, p, segment, f16[i*len(f16Run):], heads, segment, dim) }},
		{"scores/q8_0", len(q8), func(o *Ops, i int) { o.ScoresQ8(p, segment, q, q8[i*len(q8Run):], heads, segment, dim) }},
		{"accum/q8_0", len(q8), func(o *Ops, i int) { o.AccumQ8(out, p, segment, q8[i*len(q8Run):], heads, segment, dim) }},
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
