//go:build cuda && cgo && linux

package cuda_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// tinyLayers is the number of layers of a tiny model in float32.
const tinyLayers = 4

// load makes a tiny model with room for two sequences of 512 tokens.
func load(t *testing.T, file *gguf.File, b backend.Backend) model.Model {
	t.Helper()
	m := backendtest.Load(t, file, b)
	if err := m.Reserve(64, 16); err != nil {
		t.Fatal(err)
	}
	return m
}

func tinyFile(t *testing.T, name string) *gguf.File {
	t.Helper()
	metadata, tensors := backendtest.TinyFloat(name)
	return backendtest.File(t, metadata, tensors)
}

// decodeBatch is one token of each of n sequences at a position.
func decodeBatch(n, position int) *backend.Batch {
	b, next := &backend.Batch{}, int32(0)
	for i := range n {
		backendtest.Append(b, []int32{int32(i)}, position, backendtest.Blocks(&next, position+1, 16), 16)
		b.Sample = append(b.Sample, int32(i))
	}
	return b
}

func forward(t *testing.T, m model.Model, b *backend.Batch) []float32 {
	t.Helper()
	logits, err := m.Forward(b)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// counters are what the emulator counts, by name.
type counters map[string]int

var countedNames = []string{"launches", "graph_launches", "kernels", "copies", "synchronous_copies", "allocations", "frees", "pinned_allocations", "captures", "bytes_to_host"}

// counted is what happens while do runs.
func counted(t *testing.T, do func()) counters {
	t.Helper()
	lib := emulator(t, "")
	before := make(counters)
	for _, name := range countedNames {
		before[name] = int(lib.Counter(name))
	}
	do()
	for _, name := range countedNames {
		before[name] = int(lib.Counter(name)) - before[name]
	}
	return before
}

// TestDecodeStep: from the second on, a decode step is one graph, one copy to the
// device and one back, and takes no memory.
func TestDecodeStep(t *testing.T) {
	const steps = 5
	for _, c := range []struct {
		model  string
		rows   int
		layers int // launches of a layer
	}{
		{"llama", 1, 5}, {"llama", 3, 5}, {"llama", 16, 5}, {"qwen2", 2, 5}, {"qwen3", 5, 5},
		// From 17 rows on products don't norm their input.
		{"llama", 17, 7}, {"qwen3", 64, 7},
		// What ends a branch with a norm is a launch of its own, and Gemma has two.
		{"gemma3", 1, 7}, {"gemma3", 33, 7},
	} {
		t.Run(fmt.Sprintf("%s, %d rows", c.model, c.rows), func(t *testing.T) {
			emulator(t, "")
			m := load(t, tinyFile(t, c.model), open(t))
			forward(t, m, decodeBatch(c.rows, 3))
			batch := decodeBatch(c.rows, 4)
			got := counted(t, func() {
				for range steps {
					forward(t, m, batch)
				}
			})
			want := counters{"graph_launches": steps, "copies": 2 * steps}
			for _, name := range countedNames {
				if name != "kernels" && name != "bytes_to_host" && got[name] != want[name] {
					t.Errorf("%s: %d in %d steps, want %d", name, got[name], steps, want[name])
				}
			}
			// The embedding, a norm of many rows and the logits are outside of the layers.
			beside := 2
			if c.rows > 16 {
				beside = 3
			}
			if most := steps * (beside + tinyLayers*c.layers); got["kernels"] != most {
				t.Errorf("%d kernels in %d steps, want %d", got["kernels"], steps, most)
			}
			if n := testing.AllocsPerRun(steps, func() { forward(t, m, batch) }); n != 0 {
				t.Errorf("%v Go allocations a step, want none", n)
			}
		})
	}
}

// checks is a step in which the tokens of sequence 0 from a position on are checked,
// rows of them, and sequence 1 has its first.
func checks(tokens []int32, position, rows int) *backend.Batch {
	b, next := &backend.Batch{}, int32(0)
	first, second := backendtest.Blocks(&next, 64, 16), backendtest.Blocks(&next, 64, 16)
	backendtest.Append(b, tokens[position:][:rows], position, first, 16)
	backendtest.Append(b, tokens[position:][:1], 0, second, 16)
	for i := range rows + 1 {
		b.Sample = append(b.Sample, int32(i))
	}
	return b
}

// TestChecksOfGuesses: a step that checks guesses is a graph, which another division
// of as many rows launches too, and gives the logits of one token after the other:
// with weights in float32, all but the order of some sums is the same.
func TestChecksOfGuesses(t *testing.T) {
	tokens := make([]int32, 64)
	for i := range tokens {
		tokens[i] = int32(i*31+7) % 101
	}
	for _, name := range []string{"llama", "qwen3", "gemma3"} {
		t.Run(name, func(t *testing.T) {
			emulator(t, "")
			file := tinyFile(t, name)
			m, one := load(t, file, open(t)), load(t, file, open(t))
			want := make(map[int][]float32) // by position
			for at := range 40 {
				want[at] = slices.Clone(forward(t, one, checks(tokens, at, 1)))
			}
			vocab := len(want[0]) / 2
			at := 0
			for i, rows := range []int{1, 4, 5, 6, 7, 3, 7, 6} {
				b := checks(tokens, at, rows)
				var logits []float32
				got := counted(t, func() { logits = forward(t, m, b) })
				// Of 2, 5, 6, 7, 8, 4, 8 and 7 rows: 2, 8, 8, 8, 8, 4, 8 and 8 in launches.
				if first := i == 0 || i == 1 || i == 5; first == (got["graph_launches"] == 1) {
					t.Errorf("step %d of %d rows: %d graph launches", i, b.Rows(), got["graph_launches"])
				}
				for row := range rows {
					for j, v := range logits[row*vocab:][:vocab] {
						if d := v - want[at+row][j]; d > 1e-3 || d < -1e-3 {
							t.Fatalf("step %d, position %d, logit %d: got %g, want %g", i, at+row, j, v, want[at+row][j])
						}
					}
				}
				at += rows
			}
		})
	}
}

// TestPromptStep: a step with a prompt is launched kernel by kernel, with one copy
// each way, and takes no memory from the second on.
func TestPromptStep(t *testing.T) {
	emulator(t, "")
	m := load(t, backendtest.TinyFile(t), open(t))
	var next int32
	batch, first, second := &backend.Batch{Sample: []int32{0, 40}}, backendtest.Blocks(&next, 64, 16), backendtest.Blocks(&next, 64, 16)
	backendtest.Append(batch, []int32{1}, 7, first, 16)
	backendtest.Append(batch, make([]int32, 40), 0, second, 16)
	forward(t, m, batch)
	got := counted(t, func() { forward(t, m, batch) })
	for name, want := range map[string]int{"graph_launches": 0, "copies": 2, "synchronous_copies": 0, "allocations": 0, "pinned_allocations": 0, "captures": 0} {
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
	if n := testing.AllocsPerRun(5, func() { forward(t, m, batch) }); n != 0 {
		t.Errorf("%v Go allocations a step, want none", n)
	}
}

// TestGraphsComputeWhatLaunchesDo: the same bits from graphs, over contexts that grow
// through several of them, and from a backend that makes none.
func TestGraphsComputeWhatLaunchesDo(t *testing.T) {
	emulator(t, "")
	file := backendtest.TinyFile(t)
	graphs, launches := load(t, file, open(t)), load(t, file, openWith(t, cuda.Options{Synchronous: true}))
	table := backendtest.Blocks(new(int32), 512, 16)
	for at, token := 0, int32(1); at < 300; at++ {
		b := &backend.Batch{Sample: []int32{0}}
		backendtest.Append(b, []int32{token}, at, table, 16)
		got, want := forward(t, graphs, b), forward(t, launches, b)
		if !slices.Equal(got, want) {
			t.Fatalf("position %d: logits %v from a graph, %v from launches", at, got, want)
		}
		token = (token*31 + 7) % 101
	}
}

// TestManySampledRows: rows of logits beyond what the device has room for come in
// parts, and are the same.
func TestManySampledRows(t *testing.T) {
	emulator(t, "")
	file := backendtest.TinyFile(t)
	batch := &backend.Batch{}
	backendtest.Append(batch, make([]int32, 70), 0, backendtest.Blocks(new(int32), 70, 16), 16)
	for i := range 70 {
		batch.Tokens[i] = int32(i)
		batch.Sample = append(batch.Sample, int32(i))
	}
	whole := slices.Clone(forward(t, load(t, file, openWith(t, cuda.Options{MaxSeqs: 77})), batch))
	parts := forward(t, load(t, file, openWith(t, cuda.Options{MaxSeqs: 32})), batch)
	// 32, 32 and 6 rows: the last few are of other kernels than 70 rows are.
	const vocab = 101
	if !slices.Equal(whole[:64*vocab], parts[:64*vocab]) {
		t.Error("the first 64 rows differ")
	}
	for i := 64 * vocab; i < 70*vocab; i++ {
		if d := whole[i] - parts[i]; d > 0.1 || d < -0.1 {
			t.Fatalf("row %d: logits %g and %g", i/vocab, whole[i], parts[i])
		}
	}
}

// TestDeviceTime: the device's clock goes on with each step, and only then.
func TestDeviceTime(t *testing.T) {
	emulator(t, "")
	m := load(t, backendtest.TinyFile(t), open(t))
	clock := m.(model.Timer)
	before := clock.DeviceTime()
	for range 3 {
		forward(t, m, decodeBatch(1, 0))
		now := clock.DeviceTime()
		if now <= before || clock.DeviceTime() != now {
			t.Errorf("device time %v after %v, then %v", now, before, clock.DeviceTime())
		}
		before = now
	}
}

// TestLostDevice: the first error names the step and what ran last, all others repeat
// it, and the backend can be closed.
func TestLostDevice(t *testing.T) {
	for _, c := range []struct {
		name        string
		synchronous bool
		want        string
	}{
		{"in a graph", false, "WASMETER_CUDA_SYNC=1"},
		{"kernel by kernel", true, "finish heads and attend of layer 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := emulator(t, "")
			m := load(t, tinyFile(t, "llama"), openWith(t, cuda.Options{Synchronous: c.synchronous}))
			batch := decodeBatch(1, 0)
			forward(t, m, batch)
			if err := lib.Configure("launch=3"); err != nil { // embed, product, attention
				t.Fatal(err)
			}
			_, err := m.Forward(batch)
			if !errors.Is(err, backend.ErrLost) {
				t.Fatalf("error %v, want ErrLost", err)
			}
			for _, part := range []string{"step 2 of 1 rows", "LAUNCH_FAILED", c.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if _, again := m.Forward(batch); !errors.Is(again, backend.ErrLost) {
				t.Errorf("the next step: %v, want ErrLost", again)
			}
		})
	}
}
