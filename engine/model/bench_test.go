package model_test

import (
	"fmt"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/model"
)

const benchBlockSize = 16

// benchModel loads a model on some threads, with room for positions.
func benchModel(b *testing.B, real realModel, threads, positions int) model.Model {
	device, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		b.Fatal(err)
	}
	m := real.load(b, device)
	if err := m.Reserve((positions+benchBlockSize-1)/benchBlockSize, benchBlockSize); err != nil {
		b.Fatal(err)
	}
	return m
}

// prompt returns n token ids that are not special.
func prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(1000 + i*37%20000)
	}
	return ids
}

func forward(b *testing.B, m model.Model, batch *backend.Batch) {
	if _, err := m.Forward(batch); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDecode measures steps of one token for each of some sequences, all
// at the same position.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ batch, context int }{{1, 64}, {1, 1024}, {4, 64}, {16, 64}} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("batch=%d/context=%d/threads=%d", c.batch, c.context, threads), func(b *testing.B) {
				benchDecode(b, smolLM2, threads, c.batch, c.context)
			})
		}
	}
}

func benchDecode(b *testing.B, real realModel, threads, batch, context int) {
	m := benchModel(b, real, threads, batch*context)
	step, next := &backend.Batch{}, int32(0)
	for i := range batch {
		table := backendtest.Blocks(&next, context, benchBlockSize)
		fill := prompt(context - 1)
		for at := 0; at < len(fill); at += m.Shape().MaxRows {
			chunk := &backend.Batch{}
			backendtest.Append(chunk, fill[at:min(at+m.Shape().MaxRows, len(fill))], at, table, benchBlockSize)
			forward(b, m, chunk)
		}
		backendtest.Append(step, []int32{int32(1000 + i)}, context-1, table, benchBlockSize)
		step.Sample = append(step.Sample, int32(i))
	}
	forward(b, m, step) // sizes the shared space
	b.ReportAllocs()
	for b.Loop() {
		forward(b, m, step)
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkPrefill measures a prompt of 512 tokens in one step, of which the
// last gives logits, at the start of a context and behind one.
func BenchmarkPrefill(b *testing.B) {
	const n = 512
	for _, context := range []int{0, 1024} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("tokens=%d/context=%d/threads=%d", n, context, threads), func(b *testing.B) {
				benchPrefill(b, smolLM2, threads, n, context)
			})
		}
	}
}

// benchPrefill measures n tokens behind a context that nobody has computed.
func benchPrefill(b *testing.B, real realModel, threads, n, context int) {
	m := benchModel(b, real, threads, context+n)
	step, next := &backend.Batch{Sample: []int32{int32(n - 1)}}, int32(0)
	backendtest.Append(step, prompt(n), context, backendtest.Blocks(&next, context+n, benchBlockSize), benchBlockSize)
	forward(b, m, step)
	b.ReportAllocs()
	for b.Loop() {
		forward(b, m, step)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkModels measures the larger real models, whose weights are of Q4_K,
// Q5_0 and Q6_K, as `llama-bench -t 2 -p 128 -n 16` does.
func BenchmarkModels(b *testing.B) {
	for name, real := range map[string]realModel{"gemma3": gemma3, "qwen2": qwen2} {
		b.Run(name+"/prefill", func(b *testing.B) { benchPrefill(b, real, 2, 128, 0) })
		b.Run(name+"/decode", func(b *testing.B) { benchDecode(b, real, 2, 1, 16) })
	}
}
