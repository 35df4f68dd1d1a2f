package cpu_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
)

// BenchmarkAttendDepth is the attention of SmolLM2-135M's layers behind a long context, one
// sequence at a time: four of them, so that no cache holds what comes next.
func BenchmarkAttendDepth(b *testing.B) {
	const layers, heads, kvHeads, headDim, seqs, context, blockSize = 30, 9, 3, 64, 4, 1024, 16
	for _, kind := range []string{cpu.KVF16, cpu.KVQ8} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", kind, threads), func(b *testing.B) {
				device, err := cpu.New(cpu.Options{Threads: threads, KVType: kind})
				if err != nil {
					b.Fatal(err)
				}
				defer device.Close()
				shape := backend.KVShape{Layers: layers, Blocks: seqs * context / blockSize, BlockSize: blockSize, Heads: kvHeads, HeadDim: headDim}
				kv, err := device.NewKV(shape)
				if err != nil {
					b.Fatal(err)
				}
				tensor := func(cols int) backend.Tensor {
					t, err := device.NewTensor(cols)
					if err != nil {
						b.Fatal(err)
					}
					return t
				}
				q, k, v, dst := tensor(heads*headDim), tensor(kvHeads*headDim), tensor(kvHeads*headDim), tensor(heads*headDim)
				var next int32
				steps := make([]*backend.Batch, seqs)
				for i := range steps {
					table := backendtest.Blocks(&next, context, blockSize)
					fill := &backend.Batch{}
					for at := 0; at < context; at += device.MaxRows() {
						fill.Reset()
						backendtest.Append(fill, make([]int32, min(device.MaxRows(), context-at)), at, table, blockSize)
						device.Begin(fill)
						for layer := range layers {
							device.Store(kv, layer, k, v)
						}
					}
					steps[i] = &backend.Batch{}
					backendtest.Append(steps[i], []int32{0}, context-1, table, blockSize)
				}
				best := time.Hour
				for b.Loop() {
					for _, s := range steps {
						device.Begin(s)
						begun := time.Now()
						for layer := range layers {
							device.Attend(dst, q, kv, layer, 0.125, 0)
						}
						best = min(best, time.Since(begun))
					}
				}
				b.ReportMetric(float64(best.Microseconds()), "best-µs")
				b.ReportMetric(float64(device.KVBytes(shape))/seqs/1e9/best.Seconds(), "best-GB/s")
			})
		}
	}
}
