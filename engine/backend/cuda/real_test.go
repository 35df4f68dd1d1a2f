//go:build cuda && cgo && linux

package cuda_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// golden is a prompt of engine/model/testdata/smollm2-logits.json, recorded with torch
// in float32; the README there says how.
type golden struct {
	Prompt string
	IDs    []int32
	Top5   []struct {
		IDs    []int32
		Logits []float32
	}
	GreedyIDs    []int32   `json:"greedy_ids"`
	GreedyMargin []float32 `json:"greedy_margin"`
}

func readGolden(t *testing.T) []golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "model", "testdata", "smollm2-logits.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Prompts []golden }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Prompts
}

// loadReal loads SmolLM2 on a backend, or skips.
func loadReal(t *testing.T, b backend.Backend) model.Model {
	t.Helper()
	path := filepath.Join("..", "..", "..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	f, err := gguf.Open(path)
	if err != nil {
		t.Skipf("needs the model file: run `make model` (%v)", err)
	}
	t.Cleanup(func() { // after the model's
		if err := f.Close(); err != nil {
			t.Errorf("close file: %v", err)
		}
	})
	m := backendtest.Load(t, f, b)
	if err := m.Reserve(16, 16); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRealModel: torch's tokens follow where torch is sure of them, and logits are near
// torch's. A token at a time, weights and activations are float32 and only the cache is
// not. A prompt at once rounds weights and activations to bfloat16, which adds up through
// the layers: half of what the CPU is allowed for its 8 bits (engine/model,
// TestGoldenLogitsOnCPU). The CPU computes the same steps; its error is that of any of
// 49152 logits here, of which torch's best five have a smaller one.
func TestRealModel(t *testing.T) {
	if os.Getenv("WASMETER_MODEL_TESTS") == "" {
		t.Skip("takes a minute on the emulated driver: `make model cuda-test` runs it")
	}
	for _, c := range []struct {
		name          string
		chunk         int // of the prompt
		largest, mean float64
	}{
		{"a token at a time", 1, 0.05, 0.01},
		{"the prompt at once", 512, 0.75, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := cpu.New(cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := &realTrial{t: t, device: loadReal(t, open(t)), host: loadReal(t, h), table: backendtest.Blocks(new(int32), 256, 16)}
			r.vocab = r.device.Shape().Vocab
			r.follow(readGolden(t)[0], c.chunk, 6)
			mean := r.sum / float64(r.compared)
			t.Logf("%d of torch's logits: largest difference %.4f, mean %.4f; from the CPU's at most %.4f; %d greedy tokens compared", r.compared, r.worst, mean, r.apart, r.sure)
			if !(r.worst <= c.largest && mean <= c.mean) {
				t.Errorf("logits differ from torch's by up to %.4f, %.4f in the mean; want %g and %g", r.worst, mean, c.largest, c.mean)
			}
			const fromCPU = 2.5
			if !(r.apart <= fromCPU) {
				t.Errorf("logits differ from the CPU's by up to %.4f, want %g", r.apart, fromCPU)
			}
			if r.sure == 0 {
				t.Error("no greedy token was compared")
			}
		})
	}
}

// realTrial runs a model on this backend and on the CPU's.
type realTrial struct {
	t            *testing.T
	device, host model.Model
	table        []int32
	vocab        int

	compared, sure    int     // logits, and greedy tokens
	worst, sum, apart float64 // differences from torch's logits, and from the CPU's
}

// follow computes a prompt in chunks and then torch's tokens, one at a time.
func (r *realTrial) follow(p golden, chunk, tokens int) {
	r.t.Helper()
	const margin = 0.5 // of torch's best logit over the second, above which the token must be the same
	var last []float32
	for at := 0; at < len(p.IDs); at += chunk {
		ids := p.IDs[at:min(at+chunk, len(p.IDs))]
		logits := r.step(ids, at)
		for i := range ids {
			for j, id := range p.Top5[at+i].IDs {
				d := math.Abs(float64(logits[i*r.vocab+int(id)] - p.Top5[at+i].Logits[j]))
				r.worst, r.sum, r.compared = max(r.worst, d), r.sum+d, r.compared+1
			}
		}
		last = logits[(len(ids)-1)*r.vocab:]
	}
	for i, want := range p.GreedyIDs[:tokens] {
		if p.GreedyMargin[i] > margin {
			r.sure++
			if got := argmax(last); got != want {
				r.t.Errorf("greedy token %d is %d (%.4f), torch's is %d (%.4f) by a margin of %.4f", i, got, last[got], want, last[want], p.GreedyMargin[i])
			}
		}
		last = r.step([]int32{want}, len(p.IDs)+i)
	}
}

// step computes tokens from a position on, on both.
func (r *realTrial) step(ids []int32, at int) []float32 {
	r.t.Helper()
	batch := &backend.Batch{}
	backendtest.Append(batch, ids, at, r.table, 16)
	for i := range ids {
		batch.Sample = append(batch.Sample, int32(i))
	}
	got, want := forward(r.t, r.device, batch), forward(r.t, r.host, batch)
	for i := range got {
		r.apart = max(r.apart, math.Abs(float64(got[i]-want[i])))
	}
	return got
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
