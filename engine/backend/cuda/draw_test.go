//go:build cuda && cgo && linux

package cuda_test

import (
	"fmt"
	"testing"

	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// TestDrawingStep: from the third on, a decode step whose tokens are drawn on the
// device is one graph and one copy to the device, brings the tokens alone, and takes
// no memory; also while the step before it is under way.
func TestDrawingStep(t *testing.T) {
	const steps = 6
	for _, c := range []struct{ rows, logprobs, top int }{{1, -1, 0}, {3, 0, 0}, {17, -1, 0}, {4, 5, 8}} {
		t.Run(fmt.Sprintf("%d rows, %d log probabilities", c.rows, c.logprobs), func(t *testing.T) {
			emulator(t, "")
			m := load(t, tinyFile(t, "llama"), open(t)).(model.Drawer)
			batch := decodeBatch(c.rows, 4)
			for i := range c.rows {
				batch.Draws = append(batch.Draws, sample.Draw{
					Temperature: 1, TopP: 0.9, RepetitionPenalty: 1.1, Logprobs: c.logprobs, Seed: uint64(i),
					Bias: []sample.Bias{{ID: 3, Value: 1}}, Seen: []sample.Seen{{ID: 4, Count: 2}, {ID: 5}},
				})
			}
			queue := func() {
				if err := m.Queue(batch); err != nil {
					t.Fatal(err)
				}
			}
			wait := func() {
				if tokens, err := m.Wait(); err != nil || len(tokens) != c.rows {
					t.Fatalf("%d tokens, error %v, want %d", len(tokens), err, c.rows)
				}
			}
			queue()
			queue()
			wait()
			got := counted(t, func() {
				for range steps {
					queue()
					wait()
				}
			})
			want := counters{"graph_launches": steps, "copies": 2 * steps, "bytes_to_host": steps * c.rows * kernels.DrawnBytes(c.top)}
			for _, name := range countedNames {
				if name != "kernels" && got[name] != want[name] {
					t.Errorf("%s: %d in %d steps, want %d", name, got[name], steps, want[name])
				}
			}
			lists := 0.0
			if c.top > 0 {
				lists = float64(c.rows) // the reader keeps them
			}
			if n := testing.AllocsPerRun(steps, func() { queue(); wait() }); n != lists {
				t.Errorf("%v Go allocations a step, want none but %v lists of log probabilities", n, lists)
			}
			wait()
		})
	}
}
