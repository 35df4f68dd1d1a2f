package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// golden is the file testdata/smollm2-logits.json; its README says whence.
type golden struct {
	Prompts []goldenPrompt
}

type goldenPrompt struct {
	Prompt string
	IDs    []int32
	Top5   []struct { // of each prompt position
		IDs       []int32
		Logits    []float32
		LogSumExp float64
	}
	GreedyIDs    []int32   `json:"greedy_ids"`
	GreedyMargin []float32 `json:"greedy_margin"` // of the best logit over the second
}

func readGolden(t *testing.T) golden {
	t.Helper()
	data, err := os.ReadFile("testdata/smollm2-logits.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Prompts) == 0 {
		t.Fatal("testdata/smollm2-logits.json has no prompts")
	}
	return g
}

// loadSmolLM2 loads the real model on a backend, or skips.
func loadSmolLM2(t testing.TB, b backend.Backend) model.Model {
	t.Helper()
	path := filepath.Join("..", "..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the model file: run `make model` (%v)", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(f, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close model: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("close file: %v", err)
		}
	})
	return m
}

// maxGreedy bounds the greedy tokens that are followed, for the test's time.
const maxGreedy = 20

// checkGolden compares the model's logits with the recorded ones: the top five
// and the logsumexp of each prompt position within tolerance, and each greedy
// token whose margin is above minMargin. All prompts run as one batch, each
// with its greedy continuation fed in, so that one forward pass has all.
func checkGolden(t *testing.T, m model.Model, tolerance float64, minMargin float32) {
	g := readGolden(t)
	batch, blocks := &backend.Batch{}, int32(0)
	const blockSize = 16
	for _, p := range g.Prompts {
		ids := append(append([]int32{}, p.IDs...), p.GreedyIDs[:min(maxGreedy, len(p.GreedyIDs))]...)
		backendtest.Append(batch, ids, 0, backendtest.Blocks(&blocks, len(ids), blockSize), blockSize)
	}
	for r := range batch.Rows() {
		batch.Sample = append(batch.Sample, int32(r))
	}
	if err := m.Reserve(int(blocks), blockSize); err != nil {
		t.Fatal(err)
	}
	logits, err := m.Forward(batch)
	if err != nil {
		t.Fatal(err)
	}
	vocab, worst, followed := m.Shape().Vocab, 0.0, 0
	for i, p := range g.Prompts {
		first := int(batch.Seqs[i].Row)
		for pos, top := range p.Top5 {
			row := logits[(first+pos)*vocab:][:vocab]
			for j, id := range top.IDs {
				worst = max(worst, math.Abs(float64(row[id]-top.Logits[j])))
				if diff := math.Abs(float64(row[id] - top.Logits[j])); !(diff <= tolerance) {
					t.Errorf("%q: position %d: logit of token %d is %.5f, want %.5f ± %g", p.Prompt, pos, id, row[id], top.Logits[j], tolerance)
				}
			}
			if got := logSumExp(row); !(math.Abs(got-top.LogSumExp) <= tolerance) {
				t.Errorf("%q: position %d: logsumexp is %.5f, want %.5f ± %g", p.Prompt, pos, got, top.LogSumExp, tolerance)
			}
		}
		for j, want := range p.GreedyIDs[:min(maxGreedy, len(p.GreedyIDs))] {
			if p.GreedyMargin[j] <= minMargin {
				continue
			}
			followed++
			row := logits[(first+len(p.IDs)-1+j)*vocab:][:vocab]
			if got := argmax(row); got != want {
				t.Errorf("%q: greedy token %d is %d (%.4f), want %d (%.4f) by a margin of %.4f", p.Prompt, j, got, row[got], want, row[want], p.GreedyMargin[j])
			}
		}
	}
	t.Logf("largest difference of a top-5 logit %.5f; %d greedy tokens compared", worst, followed)
}

func logSumExp(row []float32) float64 {
	highest := float64(row[argmax(row)])
	var sum float64
	for _, x := range row {
		sum += math.Exp(float64(x) - highest)
	}
	return highest + math.Log(sum)
}

func argmax(row []float32) int32 {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return int32(best)
}

// The reference differs from torch in the order of float32 sums only. At 1e-3
// a wrong token would need a margin smaller than that.
func TestGoldenLogitsInFloat32(t *testing.T) {
	checkGolden(t, loadSmolLM2(t, backendtest.NewReference(512)), 1e-3, 2e-3)
}
