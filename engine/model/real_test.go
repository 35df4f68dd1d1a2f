package model_test

import (
	"math"
	"os"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/model"
)

// slow skips a test that takes ten seconds and more with the larger models.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("WASMETER_MODEL_TESTS") == "" {
		t.Skip("takes half a minute: run `make model-gemma model-qwen && WASMETER_MODEL_TESTS=1 go test ./engine/model`")
	}
}

// The real models in float32, as llama.cpp has them in float32. One prompt,
// because the reference takes some tenths of a second a row.
func TestRealModelsInFloat32(t *testing.T) {
	slow(t)
	t.Run("gemma3", func(t *testing.T) {
		m := gemma3.load(t, backendtest.NewReference(64))
		// llama.cpp reads GELU from a table of half-precision values.
		checkGolden(t, m, readGolden(t, "gemma3-logits.json").Prompts[:1], goldenTolerance{largest: 0.05, mean: 0.01, greedy: 6, margin: 0.1})
	})
	t.Run("qwen2", func(t *testing.T) {
		m := qwen2.load(t, backendtest.NewReference(64))
		checkGolden(t, m, readGolden(t, "qwen2-logits.json").Prompts[:1], goldenTolerance{largest: 1e-3, mean: 2e-4, greedy: 6, margin: 2e-3})
	})
}

// The real models on the cpu backend; see TestGoldenLogitsOnCPU for how far it
// may be from float32.
func TestRealModelsOnCPU(t *testing.T) {
	t.Run("gemma3", func(t *testing.T) {
		m := gemma3.load(t, newCPU(t))
		checkGolden(t, m, readGolden(t, "gemma3-logits.json").Prompts, goldenTolerance{largest: 1.5, mean: 0.25, greedy: 24, margin: 0.5})
	})
	t.Run("qwen2", func(t *testing.T) {
		m := qwen2.load(t, newCPU(t))
		checkGolden(t, m, readGolden(t, "qwen2-logits.json").Prompts, goldenTolerance{largest: 1.5, mean: 0.25, greedy: 24, margin: 0.5})
	})
}

// The perplexity of a text is within 1 % of llama.cpp's, and of what it is with
// float32 weights and activations. The text is longer than
// Gemma 3's window of 512 positions.
func TestPerplexity(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		name   string
		model  realModel
		golden string
	}{
		{"smollm2", smolLM2, "smollm2-logits.json"},
		{"gemma3", gemma3, "gemma3-logits.json"},
		{"qwen2", qwen2, "qwen2-logits.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, text := c.model.load(t, newCPU(t)), readGolden(t, c.golden).Text
			got := perplexity(losses(t, m, text.IDs))
			want := perplexity(text.Loss)
			if !(math.Abs(got/want-1) <= 0.01) {
				t.Errorf("perplexity of %d tokens is %.4f, want %.4f ± 1 %%", len(text.IDs), got, want)
			}
			if exact := text.Float32Perplexity; exact > 0 && !(math.Abs(got/exact-1) <= 0.01) {
				t.Errorf("perplexity of %d tokens is %.4f, want %.4f ± 1 %% by float32 weights", len(text.IDs), got, exact)
			}
			t.Logf("perplexity of %d tokens: %.4f, llama.cpp's is %.4f, with float32 weights %.4f", len(text.IDs), got, want, text.Float32Perplexity)
		})
	}
}

// losses returns the negative log-likelihood of each token after the first.
func losses(t *testing.T, m model.Model, ids []int32) []float64 {
	t.Helper()
	const blockSize, chunk = 16, 256
	next := int32(0)
	blocks := backendtest.Blocks(&next, len(ids), blockSize)
	if err := m.Reserve(int(next), blockSize); err != nil {
		t.Fatal(err)
	}
	vocab := m.Shape().Vocab
	var out []float64
	for from := 0; from < len(ids); from += chunk {
		batch := &backend.Batch{}
		backendtest.Append(batch, ids[from:min(from+chunk, len(ids))], from, blocks, blockSize)
		for r := range batch.Rows() {
			batch.Sample = append(batch.Sample, int32(r))
		}
		logits, err := m.Forward(batch)
		if err != nil {
			t.Fatal(err)
		}
		for r := range batch.Rows() {
			if from+r+1 < len(ids) {
				row := logits[r*vocab:][:vocab]
				out = append(out, logSumExp(row)-float64(row[ids[from+r+1]]))
			}
		}
	}
	return out
}

func perplexity(losses []float64) float64 {
	var sum float64
	for _, x := range losses {
		sum += x
	}
	return math.Exp(sum / float64(len(losses)))
}
