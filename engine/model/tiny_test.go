package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// tinyModels are the random models of backendtest.TinyFloat, of which llama.cpp
// recorded the logits.
var tinyModels = []string{"llama", "llama3", "qwen2", "qwen3", "gemma3", "gemma3-4b", "gemma3-27b"}

// TestWriteTinyModels is for testdata/record.py, which has llama.cpp run the
// models.
func TestWriteTinyModels(t *testing.T) {
	folder := os.Getenv("WASMETER_TINY_MODELS")
	if folder == "" {
		t.Skip("writes the tiny models into the folder WASMETER_TINY_MODELS, for testdata/record.py")
	}
	for _, name := range tinyModels {
		metadata, tensors := backendtest.TinyFloat(name)
		architecture := metadata[0].Value.(string)
		// llama.cpp asks for a tokenizer or for this in its place.
		metadata = append(metadata,
			gguf.KeyValue{Key: "tokenizer.ggml.model", Value: "none"},
			gguf.KeyValue{Key: architecture + ".vocab_size", Value: uint32(101)})
		file, err := os.Create(filepath.Join(folder, name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		if err := gguf.Write(file, metadata, tensors); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Float32 weights, activations and caches differ from llama.cpp's in the order
// of sums only, and with GELU in its table of half-precision values.
func TestTinyModelsInFloat32(t *testing.T) {
	for _, p := range tinyPrompts(t) {
		t.Run(p.Prompt, func(t *testing.T) {
			tolerance := goldenTolerance{largest: 1e-4, mean: 1e-5, greedy: 8, margin: 2e-4}
			if strings.HasPrefix(p.Prompt, "gemma3") {
				tolerance = goldenTolerance{largest: 5e-3, mean: 1e-3, greedy: 8, margin: 0.01}
			}
			checkTiny(t, backendtest.NewReference(64), p, tolerance)
		})
	}
}

// The cpu backend keeps keys and values in half precision.
func TestTinyModelsOnCPU(t *testing.T) {
	for _, p := range tinyPrompts(t) {
		t.Run(p.Prompt, func(t *testing.T) {
			checkTiny(t, newCPU(t), p, goldenTolerance{largest: 0.05, mean: 5e-3, greedy: 8, margin: 0.1})
		})
	}
}

func tinyPrompts(t *testing.T) []goldenPrompt {
	t.Helper()
	prompts := readGolden(t, "tiny-logits.json").Prompts
	if len(prompts) != len(tinyModels) {
		t.Fatalf("testdata/tiny-logits.json has %d models, want %d", len(prompts), len(tinyModels))
	}
	return prompts
}

func tinyFloatFile(t *testing.T, name string) *gguf.File {
	t.Helper()
	metadata, tensors := backendtest.TinyFloat(name)
	return backendtest.File(t, metadata, tensors)
}

func checkTiny(t *testing.T, b backend.Backend, p goldenPrompt, tolerance goldenTolerance) {
	t.Helper()
	m, err := model.Load(tinyFloatFile(t, p.Prompt), b)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, m, []goldenPrompt{p}, tolerance)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
